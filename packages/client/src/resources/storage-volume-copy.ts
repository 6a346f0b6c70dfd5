import type { Operation, StorageVolumesPost } from '@keelson/api';
import { ClientError } from '../errors.ts';
import { migrate, type MigrationOrigin, type MigrationPeer, modeBetween } from '../migration.ts';
import type { CallOptions } from '../model.ts';
import { inProject, sameServer } from './common.ts';
import { type StorageVolume, StorageVolumeManager, type VolumeCopy } from './storage-volume.ts';

type Wanted = VolumeCopy & CallOptions & { readonly name: string };

/** Copies a volume; see `StorageVolume.copy`. */
export async function copyVolume(
  volume: StorageVolume,
  copy: VolumeCopy,
  { signal }: CallOptions,
): Promise<StorageVolume> {
  const { pool = volume.pool, name = volume.name, project } = copy;
  const server = copy.to?.storagePools.scope ?? volume.scope;
  const context = project === undefined ? server : inProject(server, project);
  const volumes = new StorageVolumeManager(context, pool);
  const wanted = { ...copy, name, signal };
  if (copy.mode === undefined && sameServer(volume.scope, context)) return within(volume, volumes, wanted);
  if (copy.snapshot !== undefined) return snapshotBetween(volume, copy.snapshot, wanted);
  return between(volume, volumes, wanted);
}

async function within(volume: StorageVolume, volumes: StorageVolumeManager, copy: Wanted): Promise<StorageVolume> {
  const { volumeOnly = false, refresh, snapshot, signal, onProgress } = copy;
  const { description, config } = snapshot === undefined ? volume : await volume.snapshots.get(snapshot, { signal });
  const [own, theirs] = [volume.scope.connection.project, volumes.scope.connection.project];
  const source = {
    type: 'copy',
    name: snapshot === undefined ? volume.name : `${volume.name}/${snapshot}`,
    pool: volume.pool,
    volume_only: volumeOnly,
    ...(refresh === undefined ? {} : { refresh }),
    ...(own === theirs ? {} : { project: own ?? 'default' }),
  };
  const json: StorageVolumesPost = {
    name: copy.name,
    type: 'custom',
    config,
    description,
    content_type: volume.content_type,
    source,
  };
  const told = onProgress === undefined ? {} : { onProgress: (record: Operation) => onProgress(record, 'target') };
  return volumes.create(json, { signal, ...told });
}

/** Servers only send whole volumes: the snapshot becomes one for that time, of which pools that clone make no copy. */
async function snapshotBetween(volume: StorageVolume, snapshot: string, copy: Wanted): Promise<StorageVolume> {
  const { signal } = copy;
  const temporary = await copyVolume(volume, { name: `copy-${crypto.randomUUID()}`, snapshot }, { signal });
  try {
    const { snapshot: _snapshot, ...rest } = copy;
    return await copyVolume(temporary, { pool: volume.pool, ...rest, volumeOnly: true }, { signal });
  } finally {
    await temporary.delete();
  }
}

async function between(volume: StorageVolume, volumes: StorageVolumeManager, copy: Wanted): Promise<StorageVolume> {
  const { name, volumeOnly = false, refresh, signal, onProgress } = copy;
  const { config, description, content_type, scope } = volume;
  const target = volumes.scope;
  const mode = copy.mode ?? (await modeBetween(scope, target, 'storage_api_remote_volume_handling'));
  if (mode === 'backup') return asBackup(volume, volumes, copy);
  const only = { volume_only: volumeOnly };
  await migrate({
    source: scope,
    target,
    mode,
    signal,
    onProgress,
    send: async (peer: MigrationPeer | undefined) => {
      await scope.assertExtension('storage_api_remote_volume_handling');
      const json = { name: volume.name, migration: true, ...only, ...(peer === undefined ? {} : { target: peer }) };
      return scope.connection.request<Operation>('POST', volume.path, { json, signal });
    },
    receive: async (origin: MigrationOrigin) => {
      await target.assertExtension('storage_api_remote_volume_handling');
      const again = refresh === undefined ? {} : { refresh };
      const source = { name: volume.name, pool: volume.pool, type: 'migration', ...origin, ...only, ...again };
      const json = { name, type: 'custom', config, description, content_type, source };
      return target.connection.request<Operation>('POST', volumes.path('custom'), { json, signal });
    },
  });
  return volumes.get('custom', name, { signal });
}

async function asBackup(volume: StorageVolume, volumes: StorageVolumeManager, copy: Wanted): Promise<StorageVolume> {
  const { name, volumeOnly = false, refresh, signal, onProgress } = copy;
  if (refresh) throw new ClientError('A backup brings no copy up to date: choose another mode');
  const backup = `copy-${crypto.randomUUID()}`;
  const told = (side: 'source' | 'target') =>
    onProgress === undefined ? {} : { onProgress: (record: Operation) => onProgress(record, side) };
  await volume.backups.create({ name: backup, volume_only: volumeOnly }, { signal, ...told('source') });
  try {
    const download = await volume.backups.export(backup, { signal });
    return await volumes.import(name, download, { signal, ...told('target') });
  } finally {
    await volume.backups.delete(backup);
  }
}
