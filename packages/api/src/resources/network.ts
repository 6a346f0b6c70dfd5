import { Type, type Static } from 'typebox';
import type { NetworkConfig } from '../config-keys.ts';
import { Nullable, typedMap } from './common.ts';

/** Writable part of a network. */
export const NetworkPut = Type.Object(
  {
    config: Type.Optional(typedMap<NetworkConfig>()),
    description: Type.Optional(Type.String()),
  },
  { $id: 'NetworkPut' },
);
export type NetworkPut = Static<typeof NetworkPut>;

/** Creates a network; `type` defaults to bridge. `POST /1.0/networks`. */
export const NetworksPost = Type.Object(
  {
    ...NetworkPut.properties,
    name: Type.String(),
    type: Type.Optional(Type.String()),
  },
  { $id: 'NetworksPost' },
);
export type NetworksPost = Static<typeof NetworksPost>;

/** Renames a network. `POST /1.0/networks/:name`. */
export const NetworkPost = Type.Object(
  {
    name: Type.String(),
  },
  { $id: 'NetworkPost' },
);
export type NetworkPost = Static<typeof NetworkPost>;

/** A network, managed or found on the host. `used_by` holds URL paths. `GET /1.0/networks/:name`. */
export const Network = Type.Object(
  {
    config: typedMap<NetworkConfig>(),
    description: Type.String(),
    locations: Nullable(Type.Array(Type.String())),
    managed: Type.Boolean(),
    name: Type.String(),
    status: Type.String(),
    type: Type.String(),
    used_by: Nullable(Type.Array(Type.String())),
  },
  { $id: 'Network' },
);
export type Network = Static<typeof Network>;

/** A DHCP lease of a network. `GET /1.0/networks/:name/leases`. */
export const NetworkLease = Type.Object(
  {
    address: Type.String(),
    hostname: Type.String(),
    hwaddr: Type.String(),
    location: Type.String(),
    type: Type.String(),
  },
  { $id: 'NetworkLease' },
);
export type NetworkLease = Static<typeof NetworkLease>;
