import { Type, type Static } from 'typebox';
import { Nullable, StatusCode } from './common.ts';

/** CPU time used, in nanoseconds. */
export const InstanceStateCPU = Type.Object(
  {
    usage: Type.Integer(),
  },
  { $id: 'InstanceStateCPU' },
);
export type InstanceStateCPU = Static<typeof InstanceStateCPU>;

/** Space used by a disk device, in bytes. */
export const InstanceStateDisk = Type.Object(
  {
    usage: Type.Integer(),
  },
  { $id: 'InstanceStateDisk' },
);
export type InstanceStateDisk = Static<typeof InstanceStateDisk>;

/** Memory and swap used, in bytes. */
export const InstanceStateMemory = Type.Object(
  {
    swap_usage: Type.Integer(),
    swap_usage_peak: Type.Integer(),
    usage: Type.Integer(),
    usage_peak: Type.Integer(),
  },
  { $id: 'InstanceStateMemory' },
);
export type InstanceStateMemory = Static<typeof InstanceStateMemory>;

/** An address of an instance's interface; `netmask` is the prefix length. */
export const InstanceStateNetworkAddress = Type.Object(
  {
    address: Type.String(),
    family: Type.String(),
    netmask: Type.String(),
    scope: Type.String(),
  },
  { $id: 'InstanceStateNetworkAddress' },
);
export type InstanceStateNetworkAddress = Static<typeof InstanceStateNetworkAddress>;

/** Traffic counters of an instance's interface, seen from inside. */
export const InstanceStateNetworkCounters = Type.Object(
  {
    bytes_received: Type.Integer(),
    bytes_sent: Type.Integer(),
    errors_received: Type.Integer(),
    errors_sent: Type.Integer(),
    packets_dropped_inbound: Type.Integer(),
    packets_dropped_outbound: Type.Integer(),
    packets_received: Type.Integer(),
    packets_sent: Type.Integer(),
  },
  { $id: 'InstanceStateNetworkCounters' },
);
export type InstanceStateNetworkCounters = Static<typeof InstanceStateNetworkCounters>;

/** An instance's interface. */
export const InstanceStateNetwork = Type.Object(
  {
    addresses: Type.Array(InstanceStateNetworkAddress),
    counters: InstanceStateNetworkCounters,
    host_name: Type.String(),
    hwaddr: Type.String(),
    mtu: Type.Integer(),
    state: Type.String(),
    type: Type.String(),
  },
  { $id: 'InstanceStateNetwork' },
);
export type InstanceStateNetwork = Static<typeof InstanceStateNetwork>;

/** Live state of an instance. `GET /1.0/instances/:name/state`. */
export const InstanceState = Type.Object(
  {
    cpu: InstanceStateCPU,
    disk: Nullable(Type.Record(Type.String(), InstanceStateDisk)),
    memory: InstanceStateMemory,
    network: Nullable(Type.Record(Type.String(), InstanceStateNetwork)),
    pid: Type.Integer(),
    processes: Type.Integer(),
    status: Type.String(),
    status_code: StatusCode,
  },
  { $id: 'InstanceState' },
);
export type InstanceState = Static<typeof InstanceState>;
