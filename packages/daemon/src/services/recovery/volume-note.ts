import { parse } from 'yaml';
import { toYaml } from '../../core/yaml.ts';
import type {
  ContentType,
  StoragePoolRecord,
  StorageVolumeRecord,
  StorageVolumeSnapshotRecord,
} from '../../state/records/storage.ts';

/** File of a custom volume's note, and of the pool's. */
export const VOLUME_NOTE = 'volume.yaml';
export const POOL_NOTE = 'pool.yaml';

type Config = Readonly<Record<string, string>>;

/** What a pool keeps about a custom volume, whose own content belongs to its users. */
export interface VolumeNote {
  readonly project: string;
  readonly name: string;
  readonly description: string;
  readonly config: Config;
  readonly contentType: ContentType;
  readonly createdAt: string;
  readonly snapshots: readonly {
    readonly name: string;
    readonly description: string;
    readonly config: Config;
    readonly createdAt: string;
    readonly expiresAt: string;
  }[];
}

export interface PoolNote {
  readonly name: string;
  readonly driver: string;
  readonly description: string;
  readonly config: Config;
}

export function writeVolumeNote(
  volume: StorageVolumeRecord,
  snapshots: readonly StorageVolumeSnapshotRecord[],
): string {
  const { project, name, description, config, contentType, createdAt } = volume;
  return toYaml({
    project,
    name,
    description,
    config,
    contentType,
    createdAt,
    snapshots: snapshots.map((one) => ({
      name: one.name,
      description: one.description,
      config: one.config,
      createdAt: one.createdAt,
      expiresAt: one.expiresAt,
    })),
  });
}

export function writePoolNote({ name, driver, description, config }: StoragePoolRecord): string {
  return toYaml({ name, driver, description, config });
}

/** Undefined for what is no note; single values of another shape fall away. */
export function readVolumeNote(text: string | undefined): VolumeNote | undefined {
  const note = readMap(text);
  if (note === undefined) return undefined;
  const snapshots = Array.isArray(note['snapshots']) ? (note['snapshots'] as unknown[]).map(mapOf) : [];
  return {
    project: textOf(note['project']),
    name: textOf(note['name']),
    description: textOf(note['description']),
    config: configOf(note['config']),
    contentType: note['contentType'] === 'block' || note['contentType'] === 'iso' ? note['contentType'] : 'filesystem',
    createdAt: textOf(note['createdAt']),
    snapshots: snapshots.map((one) => ({
      name: textOf(one['name']),
      description: textOf(one['description']),
      config: configOf(one['config']),
      createdAt: textOf(one['createdAt']),
      expiresAt: textOf(one['expiresAt']),
    })),
  };
}

export function readPoolNote(text: string | undefined): PoolNote | undefined {
  const note = readMap(text);
  if (note === undefined) return undefined;
  const { name, driver, description, config } = note;
  return {
    name: textOf(name),
    driver: textOf(driver),
    description: textOf(description),
    config: configOf(config),
  };
}

function readMap(text: string | undefined): Record<string, unknown> | undefined {
  if (text === undefined) return undefined;
  try {
    return mapOf(parse(text, { maxAliasCount: 0, schema: 'core' }));
  } catch {
    return undefined;
  }
}

function mapOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function configOf(value: unknown): Config {
  return Object.fromEntries(
    Object.entries(mapOf(value)).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}
