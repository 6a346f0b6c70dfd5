import { Type, type Static } from 'typebox';
import { Timestamp } from './common.ts';

/** Creates an instance backup. `POST /1.0/instances/:name/backups`. */
export const InstanceBackupsPost = Type.Object(
  {
    compression_algorithm: Type.Optional(Type.String()),
    container_only: Type.Optional(Type.Boolean()),
    expires_at: Type.Optional(Timestamp),
    instance_only: Type.Optional(Type.Boolean()),
    name: Type.Optional(Type.String()),
    optimized_storage: Type.Optional(Type.Boolean()),
  },
  { $id: 'InstanceBackupsPost' },
);
export type InstanceBackupsPost = Static<typeof InstanceBackupsPost>;

/** Renames an instance backup. `POST /1.0/instances/:name/backups/:backup`. */
export const InstanceBackupPost = Type.Object(
  {
    name: Type.String(),
  },
  { $id: 'InstanceBackupPost' },
);
export type InstanceBackupPost = Static<typeof InstanceBackupPost>;

/** An instance backup. `GET /1.0/instances/:name/backups/:backup`. */
export const InstanceBackup = Type.Object(
  {
    container_only: Type.Boolean(),
    created_at: Timestamp,
    expires_at: Timestamp,
    instance_only: Type.Boolean(),
    name: Type.String(),
    optimized_storage: Type.Boolean(),
  },
  { $id: 'InstanceBackup' },
);
export type InstanceBackup = Static<typeof InstanceBackup>;
