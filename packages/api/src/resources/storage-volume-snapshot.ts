import { Type, type Static } from 'typebox';
import type { StorageVolumeConfig } from '../config-keys.ts';
import { Nullable, Timestamp, typedMap } from './common.ts';

/** Writable part of a volume snapshot. */
export const StorageVolumeSnapshotPut = Type.Object(
  {
    description: Type.Optional(Type.String()),
    expires_at: Type.Optional(Timestamp),
  },
  { $id: 'StorageVolumeSnapshotPut' },
);
export type StorageVolumeSnapshotPut = Static<typeof StorageVolumeSnapshotPut>;

/** Creates a volume snapshot; without `name` the volume's pattern names it. `POST …/snapshots`. */
export const StorageVolumeSnapshotsPost = Type.Object(
  {
    expires_at: Type.Optional(Timestamp),
    name: Type.Optional(Type.String()),
  },
  { $id: 'StorageVolumeSnapshotsPost' },
);
export type StorageVolumeSnapshotsPost = Static<typeof StorageVolumeSnapshotsPost>;

/** Renames a volume snapshot. `POST …/snapshots/:snapshot`. */
export const StorageVolumeSnapshotPost = Type.Object(
  {
    name: Type.String(),
  },
  { $id: 'StorageVolumeSnapshotPost' },
);
export type StorageVolumeSnapshotPost = Static<typeof StorageVolumeSnapshotPost>;

/** A volume snapshot. `GET …/snapshots/:snapshot`. */
export const StorageVolumeSnapshot = Type.Object(
  {
    config: typedMap<StorageVolumeConfig>(),
    content_type: Type.String(),
    created_at: Timestamp,
    description: Type.String(),
    expires_at: Nullable(Timestamp),
    name: Type.String(),
  },
  { $id: 'StorageVolumeSnapshot' },
);
export type StorageVolumeSnapshot = Static<typeof StorageVolumeSnapshot>;
