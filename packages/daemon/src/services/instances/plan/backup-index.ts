import { parse, stringify } from 'yaml';
import { errors } from '../../../core/errors.ts';
import { idMapText, parseIdMap } from './idmap.ts';
import type { IdRange } from '../../../drivers/instance/contract.ts';

type Config = Readonly<Record<string, string>>;
type Devices = Readonly<Record<string, Config>>;

/** What a backup tells about itself, as LXD writes it. */
export interface BackupParts {
  readonly name: string;
  readonly pool: {
    readonly name: string;
    readonly driver: string;
    readonly config: Config;
    readonly description: string;
  };
  /** The instance as the API shows it. */
  readonly container: object;
  readonly snapshots: readonly { readonly name: string }[];
  readonly profiles: readonly object[];
  readonly project: string;
}

/** Members carry guest ids: nothing is shifted. */
const UNSHIFTED = idMapText(undefined);

function withoutShift<T extends object>(shown: T): T {
  const copy = structuredClone(shown) as T & Record<string, unknown>;
  for (const key of ['config', 'expanded_config']) {
    const config = copy[key] as Record<string, string> | undefined;
    if (config?.['volatile.last_state.idmap'] !== undefined) config['volatile.last_state.idmap'] = UNSHIFTED;
  }
  return copy;
}

/** Texts of `backup/index.yaml` and `backup/container/backup.yaml`. */
export function backupTexts(parts: BackupParts): { readonly index: string; readonly backup: string } {
  const volume = (name: string): object => ({
    config: {},
    description: '',
    name,
    type: 'container',
    used_by: [],
    location: 'none',
    content_type: 'filesystem',
    project: parts.project,
    created_at: '0001-01-01T00:00:00Z',
  });
  const config = {
    container: withoutShift(parts.container),
    ...(parts.snapshots.length === 0 ? {} : { snapshots: parts.snapshots.map(withoutShift) }),
    pool: { ...parts.pool, used_by: [], status: 'Created', locations: ['none'] },
    profiles: parts.profiles,
    volume: volume(parts.name),
    ...(parts.snapshots.length === 0
      ? {}
      : {
          volume_snapshots: parts.snapshots.map(({ name }) => ({
            name,
            config: {},
            description: '',
            content_type: 'filesystem',
            expires_at: null,
          })),
        }),
  };
  const index = {
    name: parts.name,
    backend: parts.pool.driver,
    pool: parts.pool.name,
    ...(parts.snapshots.length === 0 ? {} : { snapshots: parts.snapshots.map(({ name }) => name) }),
    optimized: false,
    optimized_header: false,
    type: 'container',
    config,
  };
  // Times stay texts: YAML 1.1 readers take them for dates, as LXD does.
  return { index: stringify(index, { version: '1.1' }), backup: stringify(config, { version: '1.1' }) };
}

/** What an import needs of a backup's index. */
export interface BackupIndex {
  readonly name: string;
  readonly pool: string;
  readonly snapshots: readonly string[];
  readonly architecture: string;
  readonly config: Config;
  readonly devices: Devices;
  readonly profiles: readonly string[];
  readonly description: string;
  readonly ephemeral: boolean;
  /** Set when the files carry host ids of this range. */
  readonly shift: IdRange | undefined;
}

const LIMIT = 100;

/** Reads an index of ours or LXD's. @throws bad-request naming what is wrong. */
export function parseBackupIndex(text: string): BackupIndex {
  const index = mapOf(parseYaml(text), 'index');
  if ((index['type'] ?? 'container') !== 'container')
    throw errors.badRequest('Only backups of containers can be imported');
  if (index['optimized'] === true)
    throw errors.badRequest("Backups in a storage driver's own format cannot be imported");
  const container = mapOf(mapOf(index['config'], 'config')['container'], 'container');
  const config = stringsOf(container['config'], 'config');
  const devices = Object.fromEntries(
    Object.entries(mapOf(container['devices'] ?? {}, 'devices')).map(([name, device]) => [
      name,
      stringsOf(device, name),
    ]),
  );
  return {
    name: textOf(index['name'], 'name'),
    pool: textOf(index['pool'] ?? '', 'pool'),
    snapshots: listOf(index['snapshots'] ?? [], 'snapshots'),
    architecture: textOf(container['architecture'] ?? '', 'architecture'),
    config,
    devices,
    profiles: listOf(container['profiles'] ?? [], 'profiles'),
    description: textOf(container['description'] ?? '', 'description'),
    ephemeral: container['ephemeral'] === true,
    shift: parseIdMap(config['volatile.last_state.idmap']),
  };
}

function parseYaml(text: string): unknown {
  try {
    return parse(text, { maxAliasCount: LIMIT, schema: 'core' });
  } catch (error) {
    throw errors.badRequest('The index of the backup is not valid YAML', error);
  }
}

function mapOf(value: unknown, name: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw errors.badRequest(`The index of the backup lacks "${name}"`);
}

function stringsOf(value: unknown, name: string): Record<string, string> {
  return Object.fromEntries(Object.entries(mapOf(value ?? {}, name)).map(([key, text]) => [key, textOf(text, key)]));
}

function textOf(value: unknown, name: string): string {
  if (typeof value === 'string') return value;
  throw errors.badRequest(`"${name}" in the index of the backup is not a text`);
}

function listOf(value: unknown, name: string): string[] {
  if (!Array.isArray(value)) throw errors.badRequest(`"${name}" in the index of the backup is not a list`);
  return value.map((item) => textOf(item, name));
}
