/** One logical volume of a report. */
export interface LogicalVolume {
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  /** Thin pool it is in, or empty. */
  readonly pool: string;
  /** What it is a snapshot of, or empty. */
  readonly origin: string;
  /** Per cent of its size that is in use; thin volumes and pools only, while active. */
  readonly used: number | undefined;
  /** The same of a thin pool's metadata. */
  readonly metadata: number | undefined;
  readonly tags: readonly string[];
  readonly kind: 'thin-pool' | 'thin' | 'snapshot' | 'plain';
}

/** What a volume group is on. */
export interface PhysicalVolume {
  readonly name: string;
  /** Bytes the device must have for what the group keeps there. */
  readonly needed: number;
  /** Bytes it has; 0 when it is missing. */
  readonly size: number;
}

export interface VolumeGroup {
  readonly name: string;
  readonly size: number;
  readonly free: number;
  readonly tags: readonly string[];
  readonly volumes: number;
}

/** Arguments whose output `parseVolumes` reads. */
export function volumesCommand(target: string): readonly string[] {
  return [
    'lvs',
    ...REPORT,
    '--options',
    'lv_name,lv_size,pool_lv,origin,data_percent,metadata_percent,lv_attr,lv_tags',
    target,
  ];
}

/** Arguments whose output `parseGroup` reads. */
export function groupCommand(group: string): readonly string[] {
  return ['vgs', ...REPORT, '--options', 'vg_name,vg_size,vg_free,vg_tags,lv_count', group];
}

/** Arguments whose output `parseDevices` reads. */
export function devicesCommand(group: string): readonly string[] {
  return ['vgs', ...REPORT, '--options', 'pv_name,pe_start,pv_size,dev_size', group];
}

const REPORT = ['--reportformat', 'json', '--units', 'b', '--nosuffix'];

export function parseVolumes(text: string): LogicalVolume[] {
  return rows(text, 'lv').map((row) => ({
    name: row['lv_name'] ?? '',
    size: Number(row['lv_size'] ?? 0),
    pool: row['pool_lv'] ?? '',
    origin: row['origin'] ?? '',
    used: percentIn(row['data_percent']),
    metadata: percentIn(row['metadata_percent']),
    tags: tagsIn(row['lv_tags']),
    kind: kindOf(row['lv_attr'] ?? ''),
  }));
}

export function parseGroup(text: string): VolumeGroup | undefined {
  const [row] = rows(text, 'vg');
  if (row === undefined) return undefined;
  return {
    name: row['vg_name'] ?? '',
    size: Number(row['vg_size'] ?? 0),
    free: Number(row['vg_free'] ?? 0),
    tags: tagsIn(row['vg_tags']),
    volumes: Number(row['lv_count'] ?? 0),
  };
}

export function parseDevices(text: string): PhysicalVolume[] {
  return rows(text, 'vg').map((row) => ({
    name: row['pv_name'] ?? '',
    needed: Number(row['pe_start'] ?? 0) + Number(row['pv_size'] ?? 0),
    size: Number(row['dev_size'] ?? 0),
  }));
}

function percentIn(text = ''): number | undefined {
  return text === '' ? undefined : Number(text);
}

function tagsIn(text = ''): string[] {
  return text.split(',').filter((tag) => tag !== '');
}

function kindOf(attributes: string): LogicalVolume['kind'] {
  const kinds: Readonly<Record<string, LogicalVolume['kind']>> = { t: 'thin-pool', V: 'thin', s: 'snapshot' };
  return kinds[attributes[0] ?? ''] ?? 'plain';
}

/** @throws SyntaxError when the text is not a report. */
function rows(text: string, table: 'lv' | 'vg'): Readonly<Record<string, string>>[] {
  const parsed = JSON.parse(text) as { report?: Partial<Record<'lv' | 'vg', Readonly<Record<string, string>>[]>>[] };
  return (parsed.report ?? []).flatMap((part) => part[table] ?? []);
}
