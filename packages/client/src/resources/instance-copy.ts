import type { InstancesPost, Operation } from '@keelson/api';
import { migrate, type MigrationOrigin, type MigrationPeer, modeBetween } from '../migration.ts';
import type { CallOptions } from '../model.ts';
import type { InstanceManager } from './instance-manager.ts';
import type { Instance, InstanceCopyOptions } from './instance.ts';

type Devices = NonNullable<InstancesPost['devices']>;
type CopyOptions = Omit<InstanceCopyOptions, 'to'> & { readonly name: string };

/** What a copy takes over from the instance, with the changes asked for. */
export async function copyBody(
  instance: Instance,
  options: CallOptions & { readonly change?: InstancesPost },
): Promise<InstancesPost> {
  if (!instance.populated) await instance.sync(options);
  const { type, architecture, config, description, devices, ephemeral, profiles } = instance.record;
  const own = { type, architecture, config: lasting(config), description, devices, ephemeral, profiles };
  return { ...own, ...options.change } as InstancesPost;
}

/** Copies an instance to another server. Resolves with the copy. */
export async function copyTo(instance: Instance, target: InstanceManager, options: CopyOptions): Promise<Instance> {
  const { name, signal } = options;
  const mode = options.mode ?? (await modeBetween(instance.scope, target.scope, 'container_push'));
  if (mode === 'backup') return asBackup(instance, target, options);
  const source = instance.scope;
  const body = await copyBody(instance, options);
  if (options.pool !== undefined) body.devices = inPool(instance, body.devices ?? {}, options.pool);
  const instanceOnly = options.instanceOnly ?? false;
  const only = { instance_only: instanceOnly, container_only: instanceOnly, live: options.live ?? false };
  const base = instance.config['volatile.base_image'];
  await migrate({
    source,
    target: target.scope,
    mode,
    signal,
    send: async (peer: MigrationPeer | undefined) => {
      if (peer !== undefined) await source.assertExtension('container_push');
      const json = { migration: true, ...only, ...(peer === undefined ? {} : { target: peer }) };
      return source.connection.request<Operation>('POST', instance.path, { json, signal });
    },
    receive: async (origin: MigrationOrigin) => {
      if (origin.mode === 'push') await target.scope.assertExtension('container_push_target');
      const from = { type: 'migration', ...origin, ...only, ...(base === undefined ? {} : { 'base-image': base }) };
      const { connection } = target.scope;
      const json = { ...body, name, source: from };
      return connection.request<Operation>('POST', connection.path('instances'), { json, signal });
    },
  });
  return target.get(name, { signal });
}

/** The root disk in another pool: the instance's own, or a copy of its profiles'. */
function inPool(instance: Instance, devices: Devices, pool: string): Devices {
  const all = { ...instance.expanded_devices, ...devices };
  const [name, root] = Object.entries(all).find(
    ([, device]) => device['type'] === 'disk' && device['path'] === '/',
  ) ?? ['root', { type: 'disk', path: '/' }];
  return { ...devices, [name]: { ...root, pool } };
}

async function asBackup(instance: Instance, target: InstanceManager, options: CopyOptions): Promise<Instance> {
  const { signal, pool, name, instanceOnly = false } = options;
  const backup = `copy-${crypto.randomUUID()}`;
  await instance.backups.create({ name: backup, instance_only: instanceOnly }, { signal });
  try {
    const download = await instance.backups.export(backup, { signal });
    return await target.import(download, { name, signal, ...(pool === undefined ? {} : { pool }) });
  } finally {
    await instance.backups.delete(backup);
  }
}

/** Config that a copy takes over: without what the server wrote about this very instance. */
function lasting(config: Instance['record']['config'] = {}): Record<string, string> {
  const entries = Object.entries(config as Record<string, string>);
  return Object.fromEntries(entries.filter(([key]) => !key.startsWith('volatile.') || key === 'volatile.base_image'));
}
