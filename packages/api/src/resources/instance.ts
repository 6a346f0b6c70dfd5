import { Type, type Static } from 'typebox';
import type { InstanceConfig } from '../config-keys.ts';
import { DevicesMap, InstanceType, StatusCode, StringMap, Timestamp, typedMap } from './common.ts';

/** Writable part of an instance; `restore` names a snapshot of it to go back to. */
export const InstancePut = Type.Object(
  {
    architecture: Type.Optional(Type.String()),
    config: Type.Optional(typedMap<InstanceConfig>()),
    description: Type.Optional(Type.String()),
    devices: Type.Optional(DevicesMap),
    ephemeral: Type.Optional(Type.Boolean()),
    profiles: Type.Optional(Type.Array(Type.String())),
    restore: Type.Optional(Type.String()),
    stateful: Type.Optional(Type.Boolean()),
  },
  { $id: 'InstancePut' },
);
export type InstancePut = Static<typeof InstancePut>;

/** What a new instance is made from: `image`, `none`, `copy` or `migration`. */
export const InstanceSource = Type.Object(
  {
    alias: Type.Optional(Type.String()),
    allow_inconsistent: Type.Optional(Type.Boolean()),
    'base-image': Type.Optional(Type.String()),
    certificate: Type.Optional(Type.String()),
    container_only: Type.Optional(Type.Boolean()),
    fingerprint: Type.Optional(Type.String()),
    instance_only: Type.Optional(Type.Boolean()),
    live: Type.Optional(Type.Boolean()),
    mode: Type.Optional(Type.String()),
    operation: Type.Optional(Type.String()),
    project: Type.Optional(Type.String()),
    properties: Type.Optional(StringMap),
    protocol: Type.Optional(Type.String()),
    refresh: Type.Optional(Type.Boolean()),
    secret: Type.Optional(Type.String()),
    secrets: Type.Optional(StringMap),
    server: Type.Optional(Type.String()),
    source: Type.Optional(Type.String()),
    type: Type.Optional(Type.String()),
  },
  { $id: 'InstanceSource' },
);
export type InstanceSource = Static<typeof InstanceSource>;

/** Creates an instance; without `name` the server picks one. `POST /1.0/instances`. */
export const InstancesPost = Type.Object(
  {
    ...InstancePut.properties,
    instance_type: Type.Optional(Type.String()),
    name: Type.Optional(Type.String()),
    source: Type.Optional(InstanceSource),
    type: Type.Optional(InstanceType),
  },
  { $id: 'InstancesPost' },
);
export type InstancesPost = Static<typeof InstancesPost>;

/** Where an instance is migrated to. */
export const InstancePostTarget = Type.Object(
  {
    certificate: Type.Optional(Type.String()),
    operation: Type.Optional(Type.String()),
    secrets: Type.Optional(StringMap),
  },
  { $id: 'InstancePostTarget' },
);
export type InstancePostTarget = Static<typeof InstancePostTarget>;

/** Renames, moves or migrates an instance. `POST /1.0/instances/:name`. */
export const InstancePost = Type.Object(
  {
    allow_inconsistent: Type.Optional(Type.Boolean()),
    container_only: Type.Optional(Type.Boolean()),
    instance_only: Type.Optional(Type.Boolean()),
    live: Type.Optional(Type.Boolean()),
    migration: Type.Optional(Type.Boolean()),
    name: Type.Optional(Type.String()),
    pool: Type.Optional(Type.String()),
    project: Type.Optional(Type.String()),
    target: Type.Optional(InstancePostTarget),
  },
  { $id: 'InstancePost' },
);
export type InstancePost = Static<typeof InstancePost>;

/** Changes an instance's state; `timeout` in seconds, -1 for none. `PUT /1.0/instances/:name/state`. */
export const InstanceStatePut = Type.Object(
  {
    action: Type.String(),
    force: Type.Optional(Type.Boolean()),
    stateful: Type.Optional(Type.Boolean()),
    timeout: Type.Optional(Type.Integer()),
  },
  { $id: 'InstanceStatePut' },
);
export type InstanceStatePut = Static<typeof InstanceStatePut>;

/** Changes the state of every instance of a project. `PUT /1.0/instances`. */
export const InstancesPut = Type.Object(
  {
    state: Type.Optional(InstanceStatePut),
  },
  { $id: 'InstancesPut' },
);
export type InstancesPut = Static<typeof InstancesPut>;

/** An instance. `GET /1.0/instances/:name`. */
export const Instance = Type.Object(
  {
    architecture: Type.String(),
    config: typedMap<InstanceConfig>(),
    created_at: Timestamp,
    description: Type.String(),
    devices: DevicesMap,
    ephemeral: Type.Boolean(),
    expanded_config: Type.Optional(typedMap<InstanceConfig>()),
    expanded_devices: Type.Optional(DevicesMap),
    last_used_at: Timestamp,
    location: Type.String(),
    name: Type.String(),
    profiles: Type.Array(Type.String()),
    project: Type.String(),
    restore: Type.Optional(Type.String()),
    stateful: Type.Boolean(),
    status: Type.String(),
    status_code: StatusCode,
    type: Type.String(),
  },
  { $id: 'Instance' },
);
export type Instance = Static<typeof Instance>;
