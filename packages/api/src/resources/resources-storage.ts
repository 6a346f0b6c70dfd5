import { Type, type Static } from 'typebox';

/** A partition; `size` in bytes. */
export const ResourcesStorageDiskPartition = Type.Object(
  {
    device: Type.String(),
    id: Type.String(),
    partition: Type.Integer({ minimum: 0 }),
    read_only: Type.Boolean(),
    size: Type.Integer({ minimum: 0 }),
  },
  { $id: 'ResourcesStorageDiskPartition' },
);
export type ResourcesStorageDiskPartition = Static<typeof ResourcesStorageDiskPartition>;

/** A disk; `size` in bytes. */
export const ResourcesStorageDisk = Type.Object(
  {
    block_size: Type.Optional(Type.Integer({ minimum: 0 })),
    device: Type.String(),
    device_id: Type.Optional(Type.String()),
    device_path: Type.Optional(Type.String()),
    firmware_version: Type.Optional(Type.String()),
    id: Type.String(),
    model: Type.Optional(Type.String()),
    numa_node: Type.Optional(Type.Integer({ minimum: 0 })),
    partitions: Type.Array(ResourcesStorageDiskPartition),
    pci_address: Type.Optional(Type.String()),
    read_only: Type.Optional(Type.Boolean()),
    removable: Type.Boolean(),
    rpm: Type.Optional(Type.Integer({ minimum: 0 })),
    serial: Type.Optional(Type.String()),
    size: Type.Integer({ minimum: 0 }),
    type: Type.Optional(Type.String()),
    usb_address: Type.Optional(Type.String()),
    wwn: Type.Optional(Type.String()),
  },
  { $id: 'ResourcesStorageDisk' },
);
export type ResourcesStorageDisk = Static<typeof ResourcesStorageDisk>;

/** The host's disks. */
export const ResourcesStorage = Type.Object(
  {
    disks: Type.Array(ResourcesStorageDisk),
    total: Type.Integer({ minimum: 0 }),
  },
  { $id: 'ResourcesStorage' },
);
export type ResourcesStorage = Static<typeof ResourcesStorage>;
