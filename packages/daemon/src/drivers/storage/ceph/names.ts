import { errors } from '../../../core/errors.ts';
import type { BlockFileSystem } from '../../../host/tools/block-fs.ts';
import type { SnapshotRef, VolumeRef } from '../contract.ts';

/** Snapshot of an image volume that instances are cloned from. */
export const IMAGE_SNAPSHOT = 'readonly';
/** Snapshots of users. */
const SNAPSHOT_PREFIX = 'snapshot_';
/** What was deleted while clones stand on it. */
const ZOMBIE = 'zombie_';

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

/** What is being made. `mark`: of `serverMark`. */
export function scratchName(mark: string, id: string): string {
  return `new${mark}_${id}`;
}

/** A clone that lives as long as the mount of a snapshot. */
export function viewName(mark: string, snapshot: SnapshotRef, fileSystem: BlockFileSystem): string {
  return `view${mark}_${imageName(snapshot, fileSystem)}_${snapshot.snapshot}`;
}

/** Whether the image lives no longer than the daemon that made it, on the server of that mark. */
export function isPassing(mark: string, image: string): boolean {
  return image.startsWith(`new${mark}_`) || image.startsWith(`view${mark}_`);
}

/** Part of the names of passing images of a server that is not the only one in an OSD pool. */
export function serverMark(id: string): string {
  return `-${id}`;
}

/** Images that belong to a pool's volumes, zombies among them. */
export function isOwnImage(image: string): boolean {
  return isZombie(image) || /^(?:(?:new|view)(?:-[\w-]+)?|image|container|virtual-machine|custom)_/.test(image);
}

/** Whether a file of the staging folder is a note of that kind, written to its end. */
export function isNote(name: string, prefix: string): boolean {
  return name.startsWith(prefix) && !name.endsWith('.new');
}

/** Image that tells others that the OSD pool is taken. */
export function placeholder(pool: string): string {
  return `lxd_${pool}`;
}
