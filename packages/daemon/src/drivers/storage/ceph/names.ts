import { errors } from '../../../core/errors.ts';
import type { BlockFileSystem } from '../../../host/tools/block-fs.ts';
import type { SnapshotRef, VolumeRef } from '../contract.ts';

/** Snapshot of an image volume that instances are cloned from. */
export const IMAGE_SNAPSHOT = 'readonly';
/** Snapshots of users. */
const SNAPSHOT_PREFIX = 'snapshot_';
/** What was deleted while clones stand on it. */
const ZOMBIE = 'zombie_';
/** What is being made. */
export const SCRATCH = 'new_';
/** Clones that live as long as the mount of a snapshot. */
export const VIEW = 'view_';

export function isBlock(volume: VolumeRef): boolean {
  return volume.contentType !== 'filesystem';
}

/** The RBD image of a volume, named as LXD does. @throws bad-request. */
export function imageName(volume: VolumeRef, fileSystem: BlockFileSystem): string {
  const { type, name, contentType } = volume;
  if (name === '' || name === '.' || name === '..' || /[/@\0]/.test(name) || name.length > 200)
    throw errors.badRequest(`Invalid volume name "${name}"`);
  const suffix = contentType === 'filesystem' ? '' : contentType === 'iso' ? '.iso' : '.block';
  return `${type}_${name}${type === 'image' ? `_${fileSystem}` : ''}${suffix}`;
}

export function snapshotName(snapshot: string): string {
  if (snapshot === '' || /[/@\0]/.test(snapshot)) throw errors.badRequest(`Invalid snapshot name "${snapshot}"`);
  return `${SNAPSHOT_PREFIX}${snapshot}`;
}

/** The user's name of an RBD snapshot, if it is a user's. */
export function userSnapshot(name: string): string | undefined {
  return name.startsWith(SNAPSHOT_PREFIX) ? name.slice(SNAPSHOT_PREFIX.length) : undefined;
}

export function isImageVolume(name: string): boolean {
  return name.startsWith('image_');
}

export function isZombie(name: string): boolean {
  return name.startsWith(ZOMBIE);
}

export function zombieImage(image: string): string {
  return `${ZOMBIE}${image}`;
}

export function zombieSnapshot(id: string): string {
  return `${ZOMBIE}${SNAPSHOT_PREFIX}${id}`;
}

/** A state on its way to another server, which knows by the name that it is no user's snapshot. */
export function sentSnapshot(id: string): string {
  return `migration-send-${id}`;
}

export function viewName(snapshot: SnapshotRef, fileSystem: BlockFileSystem): string {
  return `${VIEW}${imageName(snapshot, fileSystem)}_${snapshot.snapshot}`;
}

/** Whether a file of the staging folder is a note of that kind, written to its end. */
export function isNote(name: string, prefix: string): boolean {
  return name.startsWith(prefix) && !name.endsWith('.new');
}

/** Image that tells others that the OSD pool is taken. */
export function placeholder(pool: string): string {
  return `lxd_${pool}`;
}
