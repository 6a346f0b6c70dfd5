import { Type, type Static } from 'typebox';
import type { InstanceConfig } from '../config-keys.ts';
import { DevicesMap, Timestamp, typedMap } from './common.ts';
import { InstancePostTarget } from './instance.ts';

/** Writable part of an instance snapshot. */
export const InstanceSnapshotPut = Type.Object(
  {
    expires_at: Type.Optional(Timestamp),
  },
  { $id: 'InstanceSnapshotPut' },
);
export type InstanceSnapshotPut = Static<typeof InstanceSnapshotPut>;

/** Creates an instance snapshot; without `name` the instance's pattern names it. `POST /1.0/instances/:name/snapshots`. */
export const InstanceSnapshotsPost = Type.Object(
  {
    expires_at: Type.Optional(Timestamp),
    name: Type.Optional(Type.String()),
    stateful: Type.Optional(Type.Boolean()),
  },
  { $id: 'InstanceSnapshotsPost' },
);
export type InstanceSnapshotsPost = Static<typeof InstanceSnapshotsPost>;

/** Renames or migrates an instance snapshot. `POST /1.0/instances/:name/snapshots/:snapshot`. */
export const InstanceSnapshotPost = Type.Object(
  {
    live: Type.Optional(Type.Boolean()),
    migration: Type.Optional(Type.Boolean()),
    name: Type.Optional(Type.String()),
    target: Type.Optional(InstancePostTarget),
  },
  { $id: 'InstanceSnapshotPost' },
);
export type InstanceSnapshotPost = Static<typeof InstanceSnapshotPost>;

/** An instance snapshot; `size` in bytes, -1 when unknown. `GET /1.0/instances/:name/snapshots/:snapshot`. */
export const InstanceSnapshot = Type.Object(
  {
    architecture: Type.String(),
    config: typedMap<InstanceConfig>(),
    created_at: Timestamp,
    devices: DevicesMap,
    ephemeral: Type.Boolean(),
    expanded_config: typedMap<InstanceConfig>(),
    expanded_devices: DevicesMap,
    expires_at: Timestamp,
    last_used_at: Timestamp,
    name: Type.String(),
    profiles: Type.Array(Type.String()),
    size: Type.Integer(),
    stateful: Type.Boolean(),
  },
  { $id: 'InstanceSnapshot' },
);
export type InstanceSnapshot = Static<typeof InstanceSnapshot>;
