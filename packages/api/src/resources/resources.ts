import { Type, type Static } from 'typebox';

/** A CPU cache; `size` in bytes. */
export const ResourcesCPUCache = Type.Object(
  {
    level: Type.Integer({ minimum: 0 }),
    size: Type.Integer({ minimum: 0 }),
    type: Type.String(),
  },
  { $id: 'ResourcesCPUCache' },
);
export type ResourcesCPUCache = Static<typeof ResourcesCPUCache>;

/** A hardware thread. */
export const ResourcesCPUThread = Type.Object(
  {
    id: Type.Integer(),
    isolated: Type.Boolean(),
    numa_node: Type.Integer({ minimum: 0 }),
    online: Type.Boolean(),
    thread: Type.Integer({ minimum: 0 }),
  },
  { $id: 'ResourcesCPUThread' },
);
export type ResourcesCPUThread = Static<typeof ResourcesCPUThread>;

/** A CPU core; `frequency` in MHz. */
export const ResourcesCPUCore = Type.Object(
  {
    core: Type.Integer({ minimum: 0 }),
    die: Type.Integer({ minimum: 0 }),
    frequency: Type.Optional(Type.Integer({ minimum: 0 })),
    threads: Type.Array(ResourcesCPUThread),
  },
  { $id: 'ResourcesCPUCore' },
);
export type ResourcesCPUCore = Static<typeof ResourcesCPUCore>;

/** A CPU socket; frequencies in MHz. */
export const ResourcesCPUSocket = Type.Object(
  {
    cache: Type.Optional(Type.Array(ResourcesCPUCache)),
    cores: Type.Array(ResourcesCPUCore),
    frequency: Type.Optional(Type.Integer({ minimum: 0 })),
    frequency_minimum: Type.Optional(Type.Integer({ minimum: 0 })),
    frequency_turbo: Type.Optional(Type.Integer({ minimum: 0 })),
    name: Type.Optional(Type.String()),
    socket: Type.Integer({ minimum: 0 }),
    vendor: Type.Optional(Type.String()),
  },
  { $id: 'ResourcesCPUSocket' },
);
export type ResourcesCPUSocket = Static<typeof ResourcesCPUSocket>;

/** The host's CPUs. */
export const ResourcesCPU = Type.Object(
  {
    architecture: Type.String(),
    sockets: Type.Array(ResourcesCPUSocket),
    total: Type.Integer({ minimum: 0 }),
  },
  { $id: 'ResourcesCPU' },
);
export type ResourcesCPU = Static<typeof ResourcesCPU>;

/** Memory of a NUMA node, in bytes. */
export const ResourcesMemoryNode = Type.Object(
  {
    hugepages_total: Type.Integer({ minimum: 0 }),
    hugepages_used: Type.Integer({ minimum: 0 }),
    numa_node: Type.Integer({ minimum: 0 }),
    total: Type.Integer({ minimum: 0 }),
    used: Type.Integer({ minimum: 0 }),
  },
  { $id: 'ResourcesMemoryNode' },
);
export type ResourcesMemoryNode = Static<typeof ResourcesMemoryNode>;

/** The host's memory, in bytes. */
export const ResourcesMemory = Type.Object(
  {
    hugepages_size: Type.Integer({ minimum: 0 }),
    hugepages_total: Type.Integer({ minimum: 0 }),
    hugepages_used: Type.Integer({ minimum: 0 }),
    nodes: Type.Optional(Type.Array(ResourcesMemoryNode)),
    total: Type.Integer({ minimum: 0 }),
    used: Type.Integer({ minimum: 0 }),
  },
  { $id: 'ResourcesMemory' },
);
export type ResourcesMemory = Static<typeof ResourcesMemory>;
