import type { Operation } from '@keelson/api';
import { migrate, type MigrationOrigin, type MigrationPeer, modeBetween } from '../migration.ts';
import type { CallOptions } from '../model.ts';
import { type StorageVolume, StorageVolumeManager, type VolumeCopy } from './storage-volume.ts';

/** Copies a volume; see `StorageVolume.copy`. */
export async function copyVolume(
  volume: StorageVolume,
  copy: VolumeCopy,
  { signal }: CallOptions,
): Promise<StorageVolume> {
  const { pool = volume.pool, name = volume.name, volumeOnly = false, to } = copy;
  const context = to === undefined ? volume.scope : to.storagePools.scope;
  const volumes = new StorageVolumeManager(context, pool);
  const { config, description, content_type } = volume;
  const body = { name, type: 'custom', config, description, content_type };
  if (to === undefined) {
    const source = { type: 'copy', name: volume.name, pool: volume.pool, volume_only: volumeOnly };
    return volumes.create({ ...body, source }, { signal });
  }
  const mode = copy.mode ?? (await modeBetween(volume.scope, context, 'storage_api_remote_volume_handling'));
  if (mode === 'backup') return asBackup(volume, volumes, { name, volumeOnly, signal });
  const only = { volume_only: volumeOnly };
  await migrate({
    source: volume.scope,
    target: context,
    mode,
    signal,
    send: async (peer: MigrationPeer | undefined) => {
      await volume.scope.assertExtension('storage_api_remote_volume_handling');
      const json = { name: volume.name, migration: true, ...only, ...(peer === undefined ? {} : { target: peer }) };
      return volume.scope.connection.request<Operation>('POST', volume.path, { json, signal });
    },
    receive: async (origin: MigrationOrigin) => {
      await context.assertExtension('storage_api_remote_volume_handling');
      const source = { name: volume.name, pool: volume.pool, type: 'migration', ...origin, ...only };
      const json = { ...body, source };
      return context.connection.request<Operation>('POST', volumes.path('custom'), { json, signal });
    },
  });
  return volumes.get('custom', name, { signal });
}

async function asBackup(
  volume: StorageVolume,
  volumes: StorageVolumeManager,
  { name, volumeOnly, signal }: CallOptions & { readonly name: string; readonly volumeOnly: boolean },
): Promise<StorageVolume> {
  const backup = `copy-${crypto.randomUUID()}`;
  await volume.backups.create({ name: backup, volume_only: volumeOnly }, { signal });
  try {
    return await volumes.import(name, await volume.backups.export(backup, { signal }), { signal });
  } finally {
    await volume.backups.delete(backup);
  }
}
