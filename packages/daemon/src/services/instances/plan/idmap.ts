import { isTrue } from '@keelson/api';
import type { IdRange } from '../../../drivers/instance/contract.ts';
import { errors } from '../../../core/errors.ts';

type Config = Readonly<Record<string, string>>;

/** Ids an isolated instance gets unless `security.idmap.size` says otherwise. */
const ISOLATED_SIZE = 65_536;

export interface IdMapRequest {
  /** Expanded config of the instance. */
  readonly config: Config;
  /** What the host lets the daemon map (`/etc/subuid`). */
  readonly host: IdRange;
  /** Ranges of the other isolated instances. */
  readonly taken: readonly IdRange[];
  /** Range of the last time; kept when it still fits. */
  readonly current?: IdRange | undefined;
}

/**
 * Host ids of an instance; undefined for a privileged one.
 * @throws bad-request when no range is free or the wanted one does not fit.
 */
export function planIdMap(request: IdMapRequest): IdRange | undefined {
  const { config, host, taken, current } = request;
  if (isTrue(config['security.privileged'])) return undefined;
  if (!isTrue(config['security.idmap.isolated'])) return host;
  const size = sizeOf(config['security.idmap.size']);
  const wanted = config['security.idmap.base'];
  if (wanted !== undefined && wanted !== '') {
    const range = { base: Number(wanted), size };
    if (!inside(range, host))
      throw errors.badRequest(`The id range ${wanted}+${size} is not inside what the host allows`);
    return range;
  }
  if (
    current !== undefined &&
    current.size === size &&
    inside(current, host) &&
    !taken.some((other) => overlaps(other, current))
  ) {
    return current;
  }
  return firstFree(size, host, taken);
}

function sizeOf(value: string | undefined): number {
  return value === undefined || value === '' || value === 'auto' ? ISOLATED_SIZE : Number(value);
}

/** The first gap above the ids that shared instances use most. */
function firstFree(size: number, host: IdRange, taken: readonly IdRange[]): IdRange {
  let base = host.base + ISOLATED_SIZE;
  for (const other of [...taken].sort((a, b) => a.base - b.base)) {
    if (base + size <= other.base) break;
    base = Math.max(base, other.base + other.size);
  }
  if (base + size > host.base + host.size) throw errors.badRequest('Not enough uid/gid available for the container');
  return { base, size };
}

function inside(range: IdRange, host: IdRange): boolean {
  return range.base >= host.base && range.base + range.size <= host.base + host.size;
}

function overlaps(a: IdRange, b: IdRange): boolean {
  return a.base < b.base + b.size && b.base < a.base + a.size;
}

/** As `volatile.idmap.*` and `volatile.last_state.idmap` hold it. */
export function idMapText(range: IdRange | undefined): string {
  if (range === undefined) return '[]';
  const entry = { Hostid: range.base, Nsid: 0, Maprange: range.size };
  return JSON.stringify([
    { Isuid: true, Isgid: false, ...entry },
    { Isuid: false, Isgid: true, ...entry },
  ]);
}

/** Reads it back; undefined for an empty or unknown map. */
export function parseIdMap(text: string | undefined): IdRange | undefined {
  if (text === undefined || text === '' || text === '[]') return undefined;
  try {
    const entries: unknown = JSON.parse(text);
    const [first] = Array.isArray(entries) ? (entries as { Hostid?: unknown; Maprange?: unknown }[]) : [];
    if (typeof first?.Hostid !== 'number' || typeof first.Maprange !== 'number') return undefined;
    return { base: first.Hostid, size: first.Maprange };
  } catch {
    return undefined;
  }
}

/** `volatile.idmap.base` as LXD writes it: the host id of an isolated instance, else 0. */
export function idMapBase(config: Config, range: IdRange | undefined): string {
  return range !== undefined && isTrue(config['security.idmap.isolated']) ? String(range.base) : '0';
}
