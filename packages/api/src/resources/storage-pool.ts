import { Type, type Static } from 'typebox';
import type { StoragePoolConfig } from '../config-keys.ts';
import { Nullable, typedMap } from './common.ts';

/** Writable part of a storage pool. */
export const StoragePoolPut = Type.Object(
  {
    config: Type.Optional(typedMap<StoragePoolConfig>()),
    description: Type.Optional(Type.String()),
  },
  { $id: 'StoragePoolPut' },
);
export type StoragePoolPut = Static<typeof StoragePoolPut>;

/** Creates a storage pool. `POST /1.0/storage-pools`. */
export const StoragePoolsPost = Type.Object(
  {
    ...StoragePoolPut.properties,
    driver: Type.String(),
    name: Type.String(),
  },
  { $id: 'StoragePoolsPost' },
);
export type StoragePoolsPost = Static<typeof StoragePoolsPost>;

/** A storage pool. `used_by` holds URL paths. `GET /1.0/storage-pools/:name`. */
export const StoragePool = Type.Object(
  {
    config: typedMap<StoragePoolConfig>(),
    description: Type.String(),
    driver: Type.String(),
    locations: Nullable(Type.Array(Type.String())),
    /** Whether the server looks after the pool; LXD does not tell. */
    managed: Type.Optional(Type.Boolean()),
    name: Type.String(),
    status: Type.String(),
    used_by: Nullable(Type.Array(Type.String())),
  },
  { $id: 'StoragePool' },
);
export type StoragePool = Static<typeof StoragePool>;

/** Space of a pool, in bytes. */
export const ResourcesStoragePoolSpace = Type.Object(
  {
    total: Type.Integer({ minimum: 0 }),
    used: Type.Integer({ minimum: 0 }),
  },
  { $id: 'ResourcesStoragePoolSpace' },
);
export type ResourcesStoragePoolSpace = Static<typeof ResourcesStoragePoolSpace>;

/** Inodes of a pool. */
export const ResourcesStoragePoolInodes = Type.Object(
  {
    total: Type.Integer({ minimum: 0 }),
    used: Type.Integer({ minimum: 0 }),
  },
  { $id: 'ResourcesStoragePoolInodes' },
);
export type ResourcesStoragePoolInodes = Static<typeof ResourcesStoragePoolInodes>;

/** Space and inodes of a pool. `GET /1.0/storage-pools/:name/resources`. */
export const ResourcesStoragePool = Type.Object(
  {
    inodes: Type.Optional(ResourcesStoragePoolInodes),
    space: Type.Optional(ResourcesStoragePoolSpace),
  },
  { $id: 'ResourcesStoragePool' },
);
export type ResourcesStoragePool = Static<typeof ResourcesStoragePool>;
