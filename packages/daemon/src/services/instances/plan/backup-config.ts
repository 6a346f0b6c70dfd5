import { parse } from 'yaml';
import { errors } from '../../../core/errors.ts';

type Config = Readonly<Record<string, string>>;
type Devices = Readonly<Record<string, Config>>;

/** What instances and their snapshots have in common in a `backup.yaml`. */
export interface DescribedState {
  readonly name: string;
  readonly architecture: string;
  readonly config: Config;
  readonly devices: Devices;
  readonly profiles: readonly string[];
  readonly description: string;
  readonly ephemeral: boolean;
  /** ISO 8601 UTC; undefined where none is told. */
  readonly createdAt: string | undefined;
  readonly lastUsedAt: string | undefined;
}

export interface DescribedSnapshot extends DescribedState {
  readonly expiresAt: string | undefined;
}

export interface DescribedInstance extends DescribedState {
  /** Empty where none is told, as older servers do. */
  readonly project: string;
  readonly type: string;
  /** Devices with those of the profiles, as they were when it was written. */
  readonly expandedDevices: Devices;
}

export interface DescribedPool {
  readonly name: string;
  readonly driver: string;
  readonly description: string;
  readonly config: Config;
}

export interface DescribedVolume {
  readonly name: string;
  readonly description: string;
  readonly config: Config;
  readonly createdAt: string | undefined;
}

/** The text of a `backup.yaml`, or the `config` part of a backup's index, read and checked for its shape alone. */
export interface BackupConfig {
  readonly instance: DescribedInstance;
  /** Oldest first. */
  readonly snapshots: readonly DescribedSnapshot[];
  readonly pool: DescribedPool | undefined;
  readonly volume: DescribedVolume | undefined;
}

const LIMIT = 100;
const UTC = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/;

/** @throws bad-request naming what is wrong. Nothing in it is trusted: the caller checks names and config. */
export function parseBackupConfig(value: unknown): BackupConfig {
  const config = mapOf(value, 'config');
  const container = mapOf(config['container'] ?? config['instance'], 'container');
  const state = stateOf(container, 'container');
  const snapshots = recordsOf(config['snapshots'], 'config.snapshots').map((one) => {
    const found = stateOf(one, 'snapshot');
    return { ...found, name: found.name.split('/').at(-1) ?? '', expiresAt: timeOf(one['expires_at']) };
  });
  return {
    instance: {
      ...state,
      project: textOf(container['project'] ?? '', 'project'),
      type: textOf(container['type'] ?? 'container', 'type'),
      expandedDevices: devicesOf(container['expanded_devices']),
    },
    snapshots,
    pool: config['pool'] === undefined ? undefined : poolOf(mapOf(config['pool'], 'pool')),
    volume: config['volume'] === undefined ? undefined : volumeOf(mapOf(config['volume'], 'volume')),
  };
}

/** @throws bad-request when it is not YAML. */
export function parseBackupYaml(text: string, what: string): unknown {
  try {
    return parse(text, { maxAliasCount: LIMIT, schema: 'core' });
  } catch (error) {
    throw errors.badRequest(`The ${what} of the backup is not valid YAML`, error);
  }
}

function stateOf(map: Readonly<Record<string, unknown>>, what: string): DescribedState {
  return {
    name: textOf(map['name'] ?? '', `${what}.name`),
    architecture: textOf(map['architecture'] ?? '', 'architecture'),
    config: stringsOf(map['config'], 'config'),
    devices: devicesOf(map['devices']),
    profiles: listOf(map['profiles'] ?? [], 'profiles'),
    description: textOf(map['description'] ?? '', 'description'),
    ephemeral: map['ephemeral'] === true,
    createdAt: timeOf(map['created_at']),
    lastUsedAt: timeOf(map['last_used_at']),
  };
}

function poolOf(map: Readonly<Record<string, unknown>>): DescribedPool {
  return {
    name: textOf(map['name'] ?? '', 'pool.name'),
    driver: textOf(map['driver'] ?? '', 'pool.driver'),
    description: textOf(map['description'] ?? '', 'pool.description'),
    config: stringsOf(map['config'], 'pool.config'),
  };
}

export function volumeOf(map: Readonly<Record<string, unknown>>): DescribedVolume {
  return {
    name: textOf(map['name'] ?? '', 'volume.name'),
    description: textOf(map['description'] ?? '', 'volume.description'),
    config: stringsOf(map['config'], 'volume.config'),
    createdAt: timeOf(map['created_at']),
  };
}

export function mapOf(value: unknown, name: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw errors.badRequest(`The index of the backup lacks "${name}"`);
}

function recordsOf(value: unknown, name: string): Record<string, unknown>[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw errors.badRequest(`"${name}" in the index of the backup is not a list`);
  return value.map((one) => mapOf(one, name));
}

function stringsOf(value: unknown, name: string): Record<string, string> {
  return Object.fromEntries(Object.entries(mapOf(value ?? {}, name)).map(([key, text]) => [key, textOf(text, key)]));
}

function devicesOf(value: unknown): Record<string, Config> {
  return Object.fromEntries(
    Object.entries(mapOf(value ?? {}, 'devices')).map(([name, device]) => [name, stringsOf(device, name)]),
  );
}

export function textOf(value: unknown, name: string): string {
  if (typeof value === 'string') return value;
  throw errors.badRequest(`"${name}" in the index of the backup is not a text`);
}

export function listOf(value: unknown, name: string): string[] {
  if (value === null) return [];
  if (!Array.isArray(value)) throw errors.badRequest(`"${name}" in the index of the backup is not a list`);
  return value.map((item) => textOf(item, name));
}

/** ISO 8601 UTC; undefined for no time, and for LXD's times that mean none. */
export function timeOf(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const at = Date.parse(value);
  if (Number.isNaN(at) || at <= 0) return undefined;
  return UTC.test(value) ? value : new Date(at).toISOString();
}
