import { errors } from '../../../core/errors.ts';
import type { SnapshotRef, VolumeRef } from '../contract.ts';
import type { VolumeType } from '../types.ts';
import { isSnapshot } from '../common/volume-names.ts';
import { isNotesVolume, NOTES_NAME } from '../common/volume-notes.ts';

/** What LVM takes as a name of a logical volume; "vg-name" must fit a name of device-mapper. */
const LEGAL = /^[a-zA-Z0-9+_.-]+$/;
const LONGEST = 100;
const LONGEST_WHOLE = 127;
/** Parts and starts of names that LVM keeps for itself. */
const RESERVED =
  /_(?:cdata|cmeta|corig|cpool|cvol|imeta|iorig|mimage|mlog|pmspare|rimage|rmeta|tdata|tmeta|vdata|vorigin|wcorig)/;
const RESERVED_WHOLE = /^(?:snapshot|pvmove)/;

const PREFIXES: Readonly<Record<VolumeType, string>> = {
  container: 'containers',
  'virtual-machine': 'virtual-machines',
  image: 'images',
  custom: 'custom',
};

/** Start of names that are not finished, or only for a while. */
export const SCRATCH = 'keelson.';

/** Whether the volume is a bare device: a custom block volume, or the disk of a virtual machine. */
export function isBlock(volume: VolumeRef): boolean {
  return volume.type === 'virtual-machine' || volume.contentType !== 'filesystem';
}

/** Name of the logical volume, as LXD gives it: `containers_web--1`, a snapshot `containers_web--1-snap0`. */
export function logicalVolume(volume: VolumeRef | SnapshotRef): string {
  if (isNotesVolume(volume)) return NOTES_NAME;
  const suffix = isBlock(volume) ? (volume.contentType === 'iso' ? '.iso' : '.block') : '';
  const snapshot = isSnapshot(volume) ? `-${escapePart(volume.snapshot, 'snapshot')}` : '';
  const name = `${PREFIXES[volume.type]}_${escapePart(volume.name, 'volume')}${snapshot}${suffix}`;
  const reserved = RESERVED.exec(name)?.[0];
  if (reserved !== undefined)
    throw errors.badRequest(`Invalid volume name "${volume.name}": LVM keeps names with "${reserved}" for itself`);
  if (name.length > LONGEST_WHOLE)
    throw errors.badRequest(
      `Invalid volume name "${volume.name}": with its snapshot's name it is longer than LVM's ${LONGEST_WHOLE} letters`,
    );
  return name;
}

/** The name of a volume group or a thin pool as it is. @throws bad-request for one LVM does not take, or takes for an option. */
export function checkedName(name: string, key: string): string {
  const thinPool = key === 'lvm.thinpool_name';
  if (!LEGAL.test(name) || name.startsWith('-') || name === '.' || name === '..' || name.length > LONGEST_WHOLE)
    throw errors.badRequest(
      `Invalid value for option "${key}": "${name}" is no name for LVM, which takes letters, digits and + _ . - only, and no hyphen first`,
    );
  if (thinPool && (name.startsWith(SCRATCH) || RESERVED.test(name) || RESERVED_WHOLE.test(name)))
    throw errors.badRequest(`Invalid value for option "${key}": the name "${name}" is reserved`);
  return name;
}

/** Names of the volume's snapshots among logical volumes. */
export function snapshotsAmong(names: readonly string[], volume: VolumeRef): string[] {
  const whole = logicalVolume(volume);
  const suffix = /\.(?:block|iso)$/.exec(whole)?.[0] ?? '';
  const start = `${whole.slice(0, whole.length - suffix.length)}-`;
  return names
    .filter((name) => name.startsWith(start) && name.endsWith(suffix) && name[start.length] !== '-')
    .map((name) => name.slice(start.length, name.length - suffix.length))
    .filter((part) => /^(?:[^-]|--)+$/.test(part))
    .map((part) => part.replaceAll('--', '-'));
}

/** @throws bad-request for a name LVM does not take. */
function escapePart(name: string, what: string): string {
  const escaped = name.replaceAll('-', '--');
  if (!LEGAL.test(name) || name === '.' || name === '..' || escaped.length > LONGEST)
    throw errors.badRequest(`Invalid ${what} name "${name}": LVM takes letters, digits and + _ . - only`);
  if (name.startsWith('-') || name.endsWith('-'))
    throw errors.badRequest(`Invalid ${what} name "${name}": on LVM it neither starts nor ends with a hyphen`);
  return escaped;
}
