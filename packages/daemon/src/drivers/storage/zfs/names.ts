import { errors } from '../../../core/errors.ts';
import { isSnapshot } from '../common/volume-names.ts';
import { isNotesVolume, NOTES_NAME } from '../common/volume-notes.ts';
import type { SnapshotRef, VolumeRef } from '../contract.ts';
import type { VolumeType } from '../types.ts';

const FOLDERS: Readonly<Record<VolumeType, string>> = {
  container: 'containers',
  'virtual-machine': 'virtual-machines',
  image: 'images',
  custom: 'custom',
};

/** What ZFS takes as a part of a name. */
const LEGAL = /^[a-zA-Z0-9_.: -]+$/;
const LONGEST = 200;

export const STAGING = 'staging';
/** Snapshot of an image that its clones stand on. */
export const READ_ONLY = 'readonly';

/** Datasets below the pool's own: as LXD has them, and one for what is being made. */
export const POOL_DATASETS: readonly string[] = [
  'containers',
  'virtual-machines',
  'images',
  'custom',
  'deleted',
  'deleted/containers',
  'deleted/virtual-machines',
  'deleted/images',
  'deleted/custom',
  STAGING,
];

/** What ZFS takes as a zpool's name, less what its commands take for something else. */
const ZPOOL = /^[a-zA-Z][a-zA-Z0-9_.:-]*$/;

/** The name of a zpool or of a dataset in one, given under `key`. @throws bad-request for one that ZFS would take for an option or a snapshot. */
export function checkedRoot(key: string, root: string): string {
  const [zpool = '', ...parts] = root.split('/');
  const good = parts.every((part) => LEGAL.test(part) && part !== '.' && part !== '..');
  if (ZPOOL.test(zpool) && good && root.length <= LONGEST) return root;
  throw errors.badRequest(
    `Invalid value for option "${key}": "${root}" is no name of a zpool or dataset: it starts with a letter, and has letters, digits and _ . : - only`,
  );
}

/** Start of the name of a snapshot that brings back what was before owners were changed. */
export const SHIFT = 'shift-';

export function isGuard(snapshot: string): boolean {
  return snapshot.slice(snapshot.indexOf('@') + 1).startsWith(SHIFT);
}

/** Whether the volume is a device (a zvol): a custom block volume, or the disk of a virtual machine. */
export function isBlock(volume: VolumeRef): boolean {
  return volume.type === 'virtual-machine' || volume.contentType !== 'filesystem';
}

/** Dataset of the volume (or `dataset@snapshot`) below `root`. @throws bad-request for a name ZFS does not take. */
export function datasetOf(root: string, volume: VolumeRef | SnapshotRef): string {
  if (isNotesVolume(volume)) return `${root}/${NOTES_NAME}`;
  const suffix = isBlock(volume) ? (volume.contentType === 'iso' ? '.iso' : '.block') : '';
  const name = `${root}/${FOLDERS[volume.type]}/${part(volume.name, 'volume')}${suffix}`;
  return isSnapshot(volume) ? `${name}@${snapshotName(volume.snapshot)}` : name;
}

/** Name of a user's snapshot, as LXD gives it. */
export function snapshotName(snapshot: string): string {
  return `snapshot-${part(snapshot, 'snapshot')}`;
}

/** The user's name of a snapshot; undefined when it is not a user's. */
export function userSnapshot(name: string): string | undefined {
  const own = name.slice(name.indexOf('@') + 1);
  return own.startsWith('snapshot-') ? own.slice('snapshot-'.length) : undefined;
}

/** Where a dataset waits until the last clone of it is gone. Images keep their name, to be found again. */
export function deletedName(root: string, dataset: string, id: string): string {
  const [folder = '', name = ''] = dataset.slice(root.length + 1).split('/');
  return `${root}/deleted/${folder}/${folder === 'images' ? name : id}`;
}

/** Snapshots that only clones need: made for a copy, or deleted by the user. */
export function isInternal(snapshot: string): boolean {
  return /@(?:copy|deleted)-/.test(snapshot);
}

/** @throws bad-request. */
function part(name: string, what: string): string {
  if (!LEGAL.test(name) || name === '.' || name === '..' || name.length > LONGEST)
    throw errors.badRequest(`Invalid ${what} name "${name}": ZFS takes letters, digits, spaces and _ . : - only`);
  return name;
}
