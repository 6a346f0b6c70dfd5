import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import type { SnapshotRef, VolumeRef } from '../contract.ts';
import type { VolumeType } from '../types.ts';

const FOLDERS: Readonly<Record<VolumeType, string>> = {
  container: 'containers',
  'virtual-machine': 'virtual-machines',
  image: 'images',
  custom: 'custom',
};

/** Folders of a pool with their modes: other users of the host may pass through only where a guest's root must. */
export const POOL_FOLDERS: readonly { readonly name: string; readonly mode: number }[] = [
  { name: 'containers', mode: 0o711 },
  { name: 'containers-snapshots', mode: 0o711 },
  { name: 'virtual-machines', mode: 0o700 },
  { name: 'virtual-machines-snapshots', mode: 0o700 },
  { name: 'images', mode: 0o700 },
  { name: 'custom', mode: 0o700 },
  { name: 'custom-snapshots', mode: 0o700 },
];

export function isRootVolume(volume: VolumeRef): boolean {
  return volume.type === 'container' || volume.type === 'virtual-machine';
}

export function isSnapshot(volume: VolumeRef | SnapshotRef): volume is SnapshotRef {
  return 'snapshot' in volume;
}

/** Folder of all volumes of a type. */
export function volumeFolder(pool: string, type: VolumeType): string {
  return join(pool, FOLDERS[type]);
}

/** Folder of the volume below the pool. @throws bad-request for a name that is not one path component. */
export function volumePath(pool: string, volume: VolumeRef): string {
  return join(pool, FOLDERS[volume.type], component(volume.name));
}

/** Folder of all snapshots of the volume. */
export function snapshotsPath(pool: string, volume: VolumeRef): string {
  return join(pool, `${FOLDERS[volume.type]}-snapshots`, component(volume.name));
}

export function snapshotPath(pool: string, volume: VolumeRef, snapshot: string): string {
  return join(snapshotsPath(pool, volume), component(snapshot));
}

/** File of a block volume inside its folder. */
export function contentFile(volume: VolumeRef): string {
  return volume.contentType === 'iso' ? 'root.iso' : 'root.img';
}

function component(name: string): string {
  if (name === '' || name === '.' || name === '..' || name.includes('/') || name.includes('\0') || name.length > 255) {
    throw errors.badRequest(`Invalid volume name "${name}"`);
  }
  return name;
}

/** Key of a volume inside one pool, for locks and indexes. */
export function volumeKey(volume: VolumeRef): string {
  return `${volume.type}/${volume.name}`;
}

/** The volume of a snapshot. */
export function volumeOf({ type, name, contentType }: VolumeRef): VolumeRef {
  return { type, name, contentType };
}
