import type { Instance as InstanceRecord, InstanceSource, InstancesPost, Operation } from '@keelson/api';
import { ClientError } from '../errors.ts';
import { migrate, type MigrationOrigin, type MigrationPeer, type MigrationPlan, modeBetween } from '../migration.ts';
import type { ModelContext } from '../model.ts';
import { exists, inProject, sameServer } from './common.ts';
import { createdName, InstanceManager } from './instance-manager.ts';
import type { Instance, InstanceCopyOptions, SnapshotCopyOptions } from './instance.ts';

type Devices = NonNullable<InstancesPost['devices']>;
type Named<T> = T & { readonly name: string };

type Copied = Pick<
  InstanceRecord,
  'architecture' | 'config' | 'devices' | 'ephemeral' | 'expanded_devices' | 'profiles'
>;

/** What is copied: an instance, or one of its snapshots. */
interface Origin {
  readonly scope: ModelContext;
  /** What a migration is asked of. */
  readonly path: string;
  /** `c1` or `c1/snap0`. */
  readonly name: string;
  readonly snapshot: boolean;
  readonly record: Copied & { readonly type: InstanceRecord['type']; readonly description?: string };
  /** Streams it as a backup; undefined where it has none. */
  readonly asBackup: ((target: InstanceManager, name: string) => Promise<Instance>) | undefined;
}

/**
 * Copies an instance. With `keepVolatile` what the server noted about it comes too, such as its hardware addresses:
 * for a copy that takes its place.
 */
export async function copyInstance(
  instance: Instance,
  options: Named<InstanceCopyOptions>,
  { keepVolatile = false }: { readonly keepVolatile?: boolean } = {},
): Promise<Instance> {
  if (!instance.populated) await instance.sync(options);
  const origin: Origin = {
    scope: instance.scope,
    path: instance.path,
    name: instance.name,
    snapshot: false,
    record: instance.record as InstanceRecord,
    asBackup: (target, name) => asBackup(instance, target, { ...options, name }),
  };
  return copy(origin, options, keepVolatile);
}

/** Copies a snapshot of the instance at `path` as an instance. */
export async function copySnapshot(
  scope: ModelContext,
  path: string,
  options: Named<SnapshotCopyOptions> & { readonly snapshot: Copied; readonly snapshotPath: string },
): Promise<Instance> {
  const { snapshot, snapshotPath, ...rest } = options;
  const { type } = await scope.connection.get<InstanceRecord>(path, { signal: options.signal });
  const [instance = '', name = ''] = snapshotPath.split('/snapshots/').map((part) => nameIn(part));
  const record = { ...snapshot, type };
  const origin = {
    scope,
    path: snapshotPath,
    name: `${instance}/${name}`,
    snapshot: true,
    record,
    asBackup: undefined,
  };
  return copy(origin, rest, false);
}

async function copy(origin: Origin, options: Named<InstanceCopyOptions>, keepVolatile: boolean): Promise<Instance> {
  const { name, signal, project } = options;
  const server = options.to?.instances.scope ?? origin.scope;
  const target = project === undefined ? server : inProject(server, project);
  const instances = new InstanceManager(target);
  const known = options.refresh === true && name !== '' && (await exists(instances.get(name, { signal })));
  const body = bodyOf(origin, options, keepVolatile);
  let made = name;
  if (options.mode === undefined && sameServer(origin.scope, target))
    made = await within(origin, target, body, options);
  else {
    const mode = options.mode ?? (await modeBetween(origin.scope, target, 'container_push'));
    if (mode === 'backup') return byBackup(origin, instances, options);
    await between(origin, target, body, { options, mode });
  }
  const copied = await instances.get(made, { signal });
  if (known) await follow(copied, body, options);
  return copied;
}

/** What the copy is made with, but for `source`. */
function bodyOf({ record }: Origin, options: Named<InstanceCopyOptions>, keepVolatile: boolean): InstancesPost {
  const { type, architecture, config, description, devices, ephemeral, profiles } = record;
  const own = {
    type,
    architecture,
    config: keepVolatile ? config : lasting(config),
    ...(description === undefined ? {} : { description }),
    devices,
    ephemeral,
    profiles,
  };
  const body = { ...own, ...options.change } as InstancesPost;
  if (options.pool !== undefined) body.devices = inPool(record, body.devices ?? {}, options.pool);
  return options.name === '' ? body : { ...body, name: options.name };
}

/** @returns the name, which the server picks where none is given */
async function within(
  origin: Origin,
  target: ModelContext,
  body: InstancesPost,
  options: Named<InstanceCopyOptions>,
): Promise<string> {
  const { signal, onProgress } = options;
  const { connection, operations } = target;
  const { project } = origin.scope.connection;
  const source: InstanceSource = {
    type: 'copy',
    source: origin.name,
    ...flagsOf(options),
    ...(project === connection.project ? {} : { project: project ?? 'default' }),
  };
  const json = { ...body, source };
  const path = connection.path('instances');
  const { operation, metadata } = await connection.request<Operation>('POST', path, { json, signal });
  const progress = onProgress === undefined ? {} : { onProgress: (record: Operation) => onProgress(record, 'target') };
  await operations.wait(operation, { signal, ...progress });
  return options.name === '' ? createdName(metadata) : options.name;
}

async function between(
  { scope, path, snapshot, record }: Origin,
  target: ModelContext,
  body: InstancesPost,
  { options, mode }: { readonly options: Named<InstanceCopyOptions>; readonly mode: MigrationPlan['mode'] },
): Promise<void> {
  const { signal, onProgress, name } = options;
  const flags = flagsOf(options);
  const base = record.config['volatile.base_image'];
  await migrate({
    source: scope,
    target,
    mode,
    signal,
    onProgress,
    send: async (peer: MigrationPeer | undefined) => {
      if (peer !== undefined) await scope.assertExtension('container_push');
      const { refresh: _refresh, ...wanted } = flags;
      const named = snapshot ? { name } : {};
      const json = { ...named, migration: true, ...wanted, ...(peer === undefined ? {} : { target: peer }) };
      return scope.connection.request<Operation>('POST', path, { json, signal });
    },
    receive: async (from: MigrationOrigin) => {
      if (from.mode === 'push') await target.assertExtension('container_push_target');
      const source = { type: 'migration', ...from, ...flags, ...(base === undefined ? {} : { 'base-image': base }) };
      const json = { ...body, source };
      return target.connection.request<Operation>('POST', target.connection.path('instances'), { json, signal });
    },
  });
}

function flagsOf(options: InstanceCopyOptions): Partial<InstanceSource> {
  const { instanceOnly = false, live = false, refresh, allowInconsistent } = options;
  return {
    instance_only: instanceOnly,
    container_only: instanceOnly,
    live,
    ...(refresh === undefined ? {} : { refresh }),
    ...(allowInconsistent === undefined ? {} : { allow_inconsistent: allowInconsistent }),
  };
}

/** After a refresh the configuration is as that of the source, but for the pool and what the server noted. */
async function follow(copied: Instance, body: InstancesPost, options: InstanceCopyOptions): Promise<void> {
  const { source: _source, name: _name, type: _type, instance_type: _size, ...wanted } = body;
  const noted = Object.entries(copied.config).filter(([key]) => key.startsWith('volatile.'));
  const config = { ...Object.fromEntries(noted), ...withoutVolatile(wanted.config ?? {}) };
  const pool = rootOf(copied.expanded_devices)?.[1]['pool'];
  const own = rootOf(copied.devices);
  let devices = wanted.devices ?? {};
  const root = rootOf(devices) ?? own;
  if (root !== undefined && pool !== undefined) devices = { ...devices, [root[0]]: { ...root[1], pool } };
  const { signal } = options;
  await copied.put({ ...wanted, config, devices } as Partial<InstanceRecord>, { wait: true, signal });
}

/** The root disk in another pool: the instance's own, or a copy of its profiles'. */
function inPool(record: Origin['record'], devices: Devices, pool: string): Devices {
  const [name, root] = rootOf({ ...record.expanded_devices, ...devices }) ?? ['root', { type: 'disk', path: '/' }];
  return { ...devices, [name]: { ...root, pool } };
}

function rootOf(devices: Devices | undefined): [string, Record<string, string>] | undefined {
  return Object.entries(devices ?? {}).find(([, { type, path }]) => type === 'disk' && path === '/');
}

function byBackup(
  { asBackup: stream }: Origin,
  target: InstanceManager,
  { name, refresh }: Named<InstanceCopyOptions>,
): Promise<Instance> {
  if (stream === undefined) throw new ClientError('A snapshot does not travel as a backup: choose another mode');
  if (refresh) throw new ClientError('A backup brings no copy up to date: choose another mode');
  return stream(target, name);
}

async function asBackup(
  instance: Instance,
  target: InstanceManager,
  options: Named<InstanceCopyOptions>,
): Promise<Instance> {
  const { signal, pool, name, instanceOnly = false, onProgress } = options;
  const backup = `copy-${crypto.randomUUID()}`;
  const told = (side: 'source' | 'target') =>
    onProgress === undefined ? {} : { onProgress: (record: Operation) => onProgress(record, side) };
  await instance.backups.create({ name: backup, instance_only: instanceOnly }, { signal, ...told('source') });
  try {
    const download = await instance.backups.export(backup, { signal });
    const where = pool === undefined ? {} : { pool };
    return await target.import(download, { name, signal, ...where, ...told('target') });
  } finally {
    await instance.backups.delete(backup);
  }
}

/** Config that a copy takes over: without what the server wrote about this very instance. */
function lasting(config: InstanceRecord['config'] = {}): Record<string, string> {
  const { 'volatile.base_image': image } = config;
  return { ...withoutVolatile(config), ...(image === undefined ? {} : { 'volatile.base_image': image }) };
}

function withoutVolatile(config: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const entries = Object.entries(config as Record<string, string>);
  return Object.fromEntries(entries.filter(([key]) => !key.startsWith('volatile.')));
}

function nameIn(path: string): string {
  return decodeURIComponent(path.split('/').at(-1) ?? '');
}
