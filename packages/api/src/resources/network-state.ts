import { Type, type Static } from 'typebox';
import { Nullable } from './common.ts';

/** An address of a network interface; `netmask` is the prefix length. */
export const NetworkStateAddress = Type.Object(
  {
    address: Type.String(),
    family: Type.String(),
    netmask: Type.String(),
    scope: Type.String(),
  },
  { $id: 'NetworkStateAddress' },
);
export type NetworkStateAddress = Static<typeof NetworkStateAddress>;

/** Traffic counters of a network interface. */
export const NetworkStateCounters = Type.Object(
  {
    bytes_received: Type.Integer(),
    bytes_sent: Type.Integer(),
    packets_received: Type.Integer(),
    packets_sent: Type.Integer(),
  },
  { $id: 'NetworkStateCounters' },
);
export type NetworkStateCounters = Static<typeof NetworkStateCounters>;

/** Bond part of a network's state; delays in milliseconds. */
export const NetworkStateBond = Type.Object(
  {
    down_delay: Type.Integer({ minimum: 0 }),
    lower_devices: Type.Array(Type.String()),
    mii_frequency: Type.Integer({ minimum: 0 }),
    mii_state: Type.String(),
    mode: Type.String(),
    transmit_policy: Type.String(),
    up_delay: Type.Integer({ minimum: 0 }),
  },
  { $id: 'NetworkStateBond' },
);
export type NetworkStateBond = Static<typeof NetworkStateBond>;

/** Bridge part of a network's state. */
export const NetworkStateBridge = Type.Object(
  {
    forward_delay: Type.Integer({ minimum: 0 }),
    id: Type.String(),
    stp: Type.Boolean(),
    upper_devices: Type.Array(Type.String()),
    vlan_default: Type.Integer({ minimum: 0 }),
    vlan_filtering: Type.Boolean(),
  },
  { $id: 'NetworkStateBridge' },
);
export type NetworkStateBridge = Static<typeof NetworkStateBridge>;

/** VLAN part of a network's state. */
export const NetworkStateVLAN = Type.Object(
  {
    lower_device: Type.String(),
    vid: Type.Integer({ minimum: 0 }),
  },
  { $id: 'NetworkStateVLAN' },
);
export type NetworkStateVLAN = Static<typeof NetworkStateVLAN>;

/** OVN part of a network's state. */
export const NetworkStateOVN = Type.Object(
  {
    chassis: Type.String(),
  },
  { $id: 'NetworkStateOVN' },
);
export type NetworkStateOVN = Static<typeof NetworkStateOVN>;

/** Live state of a network. `GET /1.0/networks/:name/state`. */
export const NetworkState = Type.Object(
  {
    addresses: Type.Array(NetworkStateAddress),
    bond: Nullable(NetworkStateBond),
    bridge: Nullable(NetworkStateBridge),
    counters: NetworkStateCounters,
    hwaddr: Type.String(),
    mtu: Type.Integer(),
    ovn: Nullable(NetworkStateOVN),
    state: Type.String(),
    type: Type.String(),
    vlan: Nullable(NetworkStateVLAN),
  },
  { $id: 'NetworkState' },
);
export type NetworkState = Static<typeof NetworkState>;
