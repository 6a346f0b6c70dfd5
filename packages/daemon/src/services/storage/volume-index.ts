import { parse, stringify } from 'yaml';
import { zeroTime } from '../../core/clock.ts';
import { errors } from '../../core/errors.ts';
import type { IdRange } from '../../drivers/storage/contract.ts';
import { parseIdMap } from '../instances/plan/idmap.ts';
import type { ContentType, StorageVolumeRecord, StorageVolumeSnapshotRecord } from '../../state/records/storage.ts';

/** What `backup/index.yaml` of a volume backup says. */
export interface VolumeIndex {
  readonly name: string;
  readonly description: string;
  readonly contentType: ContentType;
  /** Driver whose own format the volumes are in; undefined where they are files. */
  readonly native: string | undefined;
  /** Host ids that the files carry, where LXD had given them an instance's; undefined: guest ids. */
  readonly shift: IdRange | undefined;
  readonly config: Readonly<Record<string, string>>;
  readonly snapshots: readonly {
    readonly name: string;
    readonly description: string;
    readonly expiresAt: string;
    readonly createdAt: string | undefined;
    readonly config: Readonly<Record<string, string>>;
  }[];
}

/** Member of the volume or a snapshot of it, without its end. */
export function volumeMember(snapshot: string | undefined): string {
  return snapshot === undefined ? 'backup/volume' : `backup/volume-snapshots/${snapshot}`;
}

/** As LXD writes it. */
export function renderIndex(
  volume: StorageVolumeRecord,
  driver: string,
  snapshots: readonly StorageVolumeSnapshotRecord[],
  optimized = false,
): string {
  return stringify(
    {
      name: volume.name,
      backend: driver,
      pool: volume.pool,
      snapshots: snapshots.map(({ name }) => name),
      optimized,
      optimized_header: optimized,
      type: 'custom',
      config: {
        volume: {
          config: volume.config,
          description: volume.description,
          name: volume.name,
          type: 'custom',
          used_by: [],
          location: 'none',
          content_type: volume.contentType,
          project: volume.project,
          created_at: volume.createdAt,
        },
        volume_snapshots: snapshots.map((snapshot) => ({
          description: snapshot.description,
          expires_at: snapshot.expiresAt,
          name: snapshot.name,
          config: snapshot.config,
          content_type: snapshot.contentType,
          created_at: snapshot.createdAt,
        })),
      },
    },
    { version: '1.1', aliasDuplicateObjects: false },
  );
}

/** @throws bad-request naming what is wrong. Nothing in it is trusted: names and config are checked again by the caller. */
export function parseIndex(text: string): VolumeIndex {
  const index = objectOf(parseYaml(text), 'index.yaml');
  if ((index['type'] ?? 'custom') !== 'custom') throw errors.badRequest('The backup is not one of a custom volume');
  const config = objectOf(index['config'], 'config');
  const volume = objectOf(config['volume'], 'config.volume');
  const details = Array.isArray(config['volume_snapshots'])
    ? config['volume_snapshots'].map((one) => objectOf(one, 'config.volume_snapshots'))
    : [];
  const listed = Array.isArray(index['snapshots']) ? index['snapshots'].map((name) => textOf(name, 'snapshots')) : [];
  return {
    name: textOf(volume['name'] ?? index['name'], 'name'),
    description: textOf(volume['description'] ?? '', 'description'),
    contentType: contentType(volume['content_type']),
    shift: parseIdMap(stringMap(volume['config'], 'config.volume.config')['volatile.idmap.last']),
    native: index['optimized'] === true ? textOf(index['backend'] ?? '', 'backend') : undefined,
    config: withoutIdMap(stringMap(volume['config'], 'config.volume.config')),
    snapshots: listed.map((name) => {
      const detail = details.find((one) => textOf(one['name'], 'name').split('/').at(-1) === name) ?? {};
      return {
        name,
        description: textOf(detail['description'] ?? '', 'description'),
        expiresAt: timeOf(detail['expires_at']) ?? zeroTime,
        createdAt: timeOf(detail['created_at']),
        config: withoutIdMap(stringMap(detail['config'], 'config.volume_snapshots.config')),
      };
    }),
  };
}

/** What LXD notes about the ids it gave the files; here they carry guest ids. */
function withoutIdMap(config: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(config).filter(([key]) => !key.startsWith('volatile.idmap.')));
}

function parseYaml(text: string): unknown {
  try {
    return parse(text, { version: '1.1', maxAliasCount: 0 });
  } catch (error) {
    throw errors.badRequest('The index.yaml of the backup is not YAML', error);
  }
}

function objectOf(value: unknown, name: string): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw errors.badRequest(`Invalid backup: "${name}" must be an object`);
  return value as Readonly<Record<string, unknown>>;
}

function textOf(value: unknown, name: string): string {
  if (typeof value !== 'string') throw errors.badRequest(`Invalid backup: "${name}" must be a text`);
  return value;
}

function stringMap(value: unknown, name: string): Record<string, string> {
  if (value === undefined || value === null) return {};
  return Object.fromEntries(
    Object.entries(objectOf(value, name)).map(([key, one]) => [key, textOf(one, `${name}.${key}`)]),
  );
}

function timeOf(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  const date = value instanceof Date ? value : new Date(String(value));
  if (Number.isNaN(date.getTime()) || date.getTime() <= 0) return undefined;
  return date.toISOString();
}

function contentType(value: unknown): ContentType {
  if (value === undefined || value === '' || value === 'filesystem') return 'filesystem';
  if (value === 'block' || value === 'iso') return value;
  throw errors.badRequest('Invalid volume content type name');
}
