import { Type, type Static } from 'typebox';
import type { InstanceConfig } from '../config-keys.ts';
import { DevicesMap, Nullable, typedMap } from './common.ts';

/** Writable part of a profile. */
export const ProfilePut = Type.Object(
  {
    config: Type.Optional(typedMap<InstanceConfig>()),
    description: Type.Optional(Type.String()),
    devices: Type.Optional(DevicesMap),
  },
  { $id: 'ProfilePut' },
);
export type ProfilePut = Static<typeof ProfilePut>;

/** Creates a profile. `POST /1.0/profiles`. */
export const ProfilesPost = Type.Object(
  {
    ...ProfilePut.properties,
    name: Type.String(),
  },
  { $id: 'ProfilesPost' },
);
export type ProfilesPost = Static<typeof ProfilesPost>;

/** Renames a profile. `POST /1.0/profiles/:name`. */
export const ProfilePost = Type.Object(
  {
    name: Type.String(),
  },
  { $id: 'ProfilePost' },
);
export type ProfilePost = Static<typeof ProfilePost>;

/** A profile: config and devices that instances share. `used_by` holds URL paths. `GET /1.0/profiles/:name`. */
export const Profile = Type.Object(
  {
    config: typedMap<InstanceConfig>(),
    description: Type.String(),
    devices: DevicesMap,
    name: Type.String(),
    used_by: Nullable(Type.Array(Type.String())),
  },
  { $id: 'Profile' },
);
export type Profile = Static<typeof Profile>;
