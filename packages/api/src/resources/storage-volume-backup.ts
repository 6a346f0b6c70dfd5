import { Type, type Static } from 'typebox';
import { Timestamp } from './common.ts';

/** Creates a volume backup. `POST …/backups`. */
export const StoragePoolVolumeBackupsPost = Type.Object(
  {
    compression_algorithm: Type.Optional(Type.String()),
    expires_at: Type.Optional(Timestamp),
    name: Type.Optional(Type.String()),
    optimized_storage: Type.Optional(Type.Boolean()),
    volume_only: Type.Optional(Type.Boolean()),
  },
  { $id: 'StoragePoolVolumeBackupsPost' },
);
export type StoragePoolVolumeBackupsPost = Static<typeof StoragePoolVolumeBackupsPost>;

/** Renames a volume backup. `POST …/backups/:backup`. */
export const StoragePoolVolumeBackupPost = Type.Object(
  {
    name: Type.String(),
  },
  { $id: 'StoragePoolVolumeBackupPost' },
);
export type StoragePoolVolumeBackupPost = Static<typeof StoragePoolVolumeBackupPost>;

/** A volume backup. `GET …/backups/:backup`. */
export const StoragePoolVolumeBackup = Type.Object(
  {
    created_at: Timestamp,
    expires_at: Timestamp,
    name: Type.String(),
    optimized_storage: Type.Boolean(),
    volume_only: Type.Boolean(),
  },
  { $id: 'StoragePoolVolumeBackup' },
);
export type StoragePoolVolumeBackup = Static<typeof StoragePoolVolumeBackup>;
