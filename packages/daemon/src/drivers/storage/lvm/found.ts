import { isKeelsonError } from '../../../core/errors.ts';
import { isSnapshot, volumeKey, volumeOf } from '../common/volume-names.ts';
import type { FoundVolume, SnapshotRef, VolumeRef } from '../contract.ts';
import type { ContentType } from '../types.ts';
import { logicalVolume } from './names.ts';

/** Volumes of users and images among logical volumes, with their snapshots. */
export function volumesAmong(names: readonly string[]): readonly FoundVolume[] {
  const all = names.map(volumeOfName).filter((one) => one !== undefined);
  const snapshots = Map.groupBy(all.filter(isSnapshot), volumeKey);
  return all
    .filter((one) => !isSnapshot(one))
    .map((volume) => ({
      volume: volumeOf(volume),
      snapshots: (snapshots.get(volumeKey(volume)) ?? []).map(({ snapshot }) => snapshot).sort(),
    }));
}

const TYPES = {
  containers: 'container',
  'virtual-machines': 'virtual-machine',
  custom: 'custom',
  images: 'image',
} as const;

/** What the logical volume is of; undefined for what is no volume, such as the config volume LXD has beside a virtual machine's. */
export function volumeOfName(name: string): VolumeRef | SnapshotRef | undefined {
  const [, folder = '', rest = ''] = /^(containers|virtual-machines|custom|images)_(.*)$/.exec(name) ?? [];
  if (folder === '') return undefined;
  const type = TYPES[folder as keyof typeof TYPES];
  const [, stem = '', suffix = ''] = type === 'container' ? [rest, rest] : (/^(.*?)(\.block|\.iso)?$/.exec(rest) ?? []);
  if (type === 'virtual-machine' && suffix !== '.block') return undefined;
  const contentType: ContentType = suffix === '.block' ? 'block' : suffix === '.iso' ? 'iso' : 'filesystem';
  // A hyphen of a name stands twice, a single one is before the snapshot.
  const [, own, snapshot] = /^((?:[^-]|--)+)(?:-((?:[^-]|--)+))?$/.exec(stem) ?? [];
  if (own === undefined) return undefined;
  const volume = { type, name: own.replaceAll('--', '-'), contentType };
  return written(snapshot === undefined ? volume : { ...volume, snapshot: snapshot.replaceAll('--', '-') }, name);
}

/** Only what this driver would call so. */
function written<T extends VolumeRef>(volume: T, name: string): T | undefined {
  try {
    return logicalVolume(volume) === name ? volume : undefined;
  } catch (error) {
    if (isKeelsonError(error, 'bad-request')) return undefined;
    throw error;
  }
}
