import { Type, type Static } from 'typebox';
import type { StorageVolumeConfig } from '../config-keys.ts';
import { Nullable, StringMap, Timestamp, typedMap } from './common.ts';

/** Writable part of a storage volume; `restore` names a snapshot of it to go back to. */
export const StorageVolumePut = Type.Object(
  {
    config: Type.Optional(typedMap<StorageVolumeConfig>()),
    description: Type.Optional(Type.String()),
    restore: Type.Optional(Type.String()),
  },
  { $id: 'StorageVolumePut' },
);
export type StorageVolumePut = Static<typeof StorageVolumePut>;

/** What a new volume is made from: a copy, a migration or a backup. */
export const StorageVolumeSource = Type.Object(
  {
    certificate: Type.Optional(Type.String()),
    mode: Type.Optional(Type.String()),
    name: Type.Optional(Type.String()),
    operation: Type.Optional(Type.String()),
    pool: Type.Optional(Type.String()),
    project: Type.Optional(Type.String()),
    refresh: Type.Optional(Type.Boolean()),
    secrets: Type.Optional(StringMap),
    type: Type.Optional(Type.String()),
    volume_only: Type.Optional(Type.Boolean()),
  },
  { $id: 'StorageVolumeSource' },
);
export type StorageVolumeSource = Static<typeof StorageVolumeSource>;

/** Creates a storage volume. `POST /1.0/storage-pools/:pool/volumes/:type`. */
export const StorageVolumesPost = Type.Object(
  {
    ...StorageVolumePut.properties,
    content_type: Type.Optional(Type.String()),
    name: Type.String(),
    source: Type.Optional(StorageVolumeSource),
    type: Type.Optional(Type.String()),
  },
  { $id: 'StorageVolumesPost' },
);
export type StorageVolumesPost = Static<typeof StorageVolumesPost>;

/** Where a volume is migrated to. */
export const StorageVolumePostTarget = Type.Object(
  {
    certificate: Type.Optional(Type.String()),
    operation: Type.Optional(Type.String()),
    secrets: Type.Optional(StringMap),
  },
  { $id: 'StorageVolumePostTarget' },
);
export type StorageVolumePostTarget = Static<typeof StorageVolumePostTarget>;

/** Renames a volume, or moves it to another pool, project or server. `POST /1.0/storage-pools/:pool/volumes/:type/:name`. */
export const StorageVolumePost = Type.Object(
  {
    migration: Type.Optional(Type.Boolean()),
    name: Type.Optional(Type.String()),
    pool: Type.Optional(Type.String()),
    project: Type.Optional(Type.String()),
    target: Type.Optional(StorageVolumePostTarget),
    volume_only: Type.Optional(Type.Boolean()),
  },
  { $id: 'StorageVolumePost' },
);
export type StorageVolumePost = Static<typeof StorageVolumePost>;

/** A storage volume. `used_by` holds URL paths. `GET /1.0/storage-pools/:pool/volumes/:type/:name`. */
export const StorageVolume = Type.Object(
  {
    config: typedMap<StorageVolumeConfig>(),
    content_type: Type.String(),
    created_at: Timestamp,
    description: Type.String(),
    location: Type.String(),
    name: Type.String(),
    project: Type.String(),
    restore: Type.Optional(Type.String()),
    type: Type.String(),
    used_by: Nullable(Type.Array(Type.String())),
  },
  { $id: 'StorageVolume' },
);
export type StorageVolume = Static<typeof StorageVolume>;

/** Use of a volume, in bytes; `used` is absent at 0, `total` 0 means no limit. */
export const StorageVolumeStateUsage = Type.Object(
  {
    total: Type.Integer(),
    used: Type.Optional(Type.Integer({ minimum: 0 })),
  },
  { $id: 'StorageVolumeStateUsage' },
);
export type StorageVolumeStateUsage = Static<typeof StorageVolumeStateUsage>;

/** Live state of a volume. `GET /1.0/storage-pools/:pool/volumes/:type/:name/state`. */
export const StorageVolumeState = Type.Object(
  {
    usage: Nullable(StorageVolumeStateUsage),
  },
  { $id: 'StorageVolumeState' },
);
export type StorageVolumeState = Static<typeof StorageVolumeState>;
