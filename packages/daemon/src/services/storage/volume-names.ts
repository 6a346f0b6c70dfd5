import type { ValueType } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import { instanceKey } from '../../core/paths.ts';
import type { VolumeRef } from '../../drivers/storage/contract.ts';
import type { StorageVolumeRecord, StorageVolumeSnapshotRecord, VolumeType } from '../../state/records/storage.ts';
import { projectUrl } from '../projects/scope.ts';

export interface VolumeId {
  readonly pool: string;
  readonly project: string;
  readonly type: VolumeType;
  readonly name: string;
}

/** Id of a volume record. */
export function volumeId(volume: VolumeId): string {
  return `${volume.pool}/${volume.project}/${volume.type}/${volume.name}`;
}

/** Start of the ids of a volume's snapshot records. */
export function snapshotPrefix(volume: VolumeId): string {
  return `${volumeId(volume)}/`;
}

export function snapshotId(
  snapshot: Pick<StorageVolumeSnapshotRecord, 'pool' | 'project' | 'type' | 'volume' | 'name'>,
): string {
  return `${snapshotPrefix({ ...snapshot, name: snapshot.volume })}${snapshot.name}`;
}

/** The volume as its pool's driver knows it. */
export function refOf(volume: Pick<StorageVolumeRecord, 'project' | 'type' | 'name' | 'contentType'>): VolumeRef {
  return { type: volume.type, name: driverName(volume), contentType: volume.contentType };
}

function driverName({ project, type, name }: Pick<StorageVolumeRecord, 'project' | 'type' | 'name'>): string {
  if (type === 'image') return name;
  return type === 'custom' ? `${project}_${name}` : instanceKey(project, name);
}

/** @throws bad-request with LXD's text. */
export function parseVolumeType(text: string): VolumeType {
  if (text === 'container' || text === 'virtual-machine' || text === 'image' || text === 'custom') return text;
  throw errors.badRequest('Invalid storage volume type name');
}

/** @throws bad-request with LXD's text when something may not have this name. */
export function checkName(type: ValueType, name: string): void {
  const problem = name.startsWith('.') ? `Invalid ${type.name} "${name}"` : type.check(name);
  if (problem !== undefined) throw errors.badRequest(problem);
}

export function poolUrl(name: string): string {
  return `/1.0/storage-pools/${encodeURIComponent(name)}`;
}

/** URL of a volume; what comes below it follows with `rest`. */
export function volumeUrl(volume: VolumeId, rest = ''): string {
  const name = encodeURIComponent(volume.name);
  return projectUrl(`${poolUrl(volume.pool)}/volumes/${volume.type}/${name}${rest}`, volume.project);
}

/** URL of a snapshot, below its volume's. */
export function snapshotUrl({ volume, name, ...at }: VolumeId & { readonly volume: string }): string {
  const { pool, project, type } = at;
  return volumeUrl({ pool, project, type, name: volume }, `/snapshots/${encodeURIComponent(name)}`);
}
