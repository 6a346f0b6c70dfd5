import { stringify } from 'yaml';
import { errors } from '../../../core/errors.ts';
import type { IdRange } from '../../../drivers/instance/contract.ts';
import { type BackupConfig, listOf, mapOf, parseBackupConfig, parseBackupYaml, textOf } from './backup-config.ts';
import { idMapText, parseIdMap } from './idmap.ts';

type Config = Readonly<Record<string, string>>;

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
  /** Snapshots as the API shows them, oldest first. */
  readonly snapshots: readonly { readonly name: string; readonly created_at: string; readonly expires_at?: string }[];
  readonly profiles: readonly object[];
  readonly project: string;
  readonly createdAt: string;
  /** True when the volumes are in the storage driver's own format. */
  readonly optimized?: boolean;
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

/** What `backup.yaml` holds, and the `config` part of an index. */
export function backupConfig(parts: BackupParts): Record<string, unknown> {
  const volume = {
    config: {},
    description: '',
    name: parts.name,
    type: 'container',
    used_by: [],
    location: 'none',
    content_type: 'filesystem',
    project: parts.project,
    created_at: parts.createdAt,
  };
  const { snapshots } = parts;
  return {
    container: withoutShift(parts.container),
    ...(snapshots.length === 0 ? {} : { snapshots: snapshots.map(withoutShift) }),
    pool: { ...parts.pool, used_by: [], status: 'Created', locations: ['none'] },
    profiles: parts.profiles,
    volume,
    ...(snapshots.length === 0
      ? {}
      : {
          volume_snapshots: snapshots.map((snapshot) => ({
            description: '',
            expires_at: snapshot.expires_at ?? null,
            name: snapshot.name,
            config: {},
            content_type: 'filesystem',
            created_at: snapshot.created_at,
          })),
        }),
  };
}

/** Texts of `backup/index.yaml` and `backup/container/backup.yaml`. */
export function backupTexts(parts: BackupParts): { readonly index: string; readonly backup: string } {
  const config = backupConfig(parts);
  const optimized = parts.optimized === true;
  const index = {
    name: parts.name,
    backend: parts.pool.driver,
    pool: parts.pool.name,
    ...(parts.snapshots.length === 0 ? {} : { snapshots: parts.snapshots.map(({ name }) => name) }),
    optimized,
    optimized_header: optimized,
    type: 'container',
    config,
  };
  // Times stay texts: YAML 1.1 readers take them for dates, as LXD does.
  return { index: stringify(index, { version: '1.1' }), backup: stringify(config, { version: '1.1' }) };
}

/** What an import needs of a backup's index. */
export interface BackupIndex extends BackupConfig {
  readonly name: string;
  readonly poolName: string;
  /** Driver of the pool it was made on. */
  readonly backend: string;
  /** Names of the snapshots in the backup, oldest first. */
  readonly snapshotNames: readonly string[];
  /** Volumes are in the format of `backend`; `header`: with optimized_header.yaml. */
  readonly optimized: { readonly header: boolean } | undefined;
  /** Set when the files carry host ids of this range. */
  readonly shift: IdRange | undefined;
}

/** Reads an index of ours or LXD's. @throws bad-request naming what is wrong. */
export function parseBackupIndex(text: string): BackupIndex {
  const index = mapOf(parseBackupYaml(text, 'index'), 'index');
  if ((index['type'] ?? 'container') !== 'container')
    throw errors.badRequest('Only backups of containers can be imported');
  const config = parseBackupConfig(index['config']);
  const snapshotNames = listOf(index['snapshots'] ?? [], 'snapshots');
  if (new Set(snapshotNames).size !== snapshotNames.length)
    throw errors.badRequest('The index of the backup names a snapshot twice');
  return {
    ...config,
    name: textOf(index['name'], 'name'),
    poolName: textOf(index['pool'] ?? '', 'pool'),
    backend: textOf(index['backend'] ?? '', 'backend'),
    snapshotNames,
    optimized: index['optimized'] === true ? { header: index['optimized_header'] === true } : undefined,
    shift: parseIdMap(config.instance.config['volatile.last_state.idmap']),
  };
}
