import { Type, type Static } from 'typebox';
import { Nullable, StringMap } from './common.ts';
import { ResourcesCPU, ResourcesMemory } from './resources.ts';
import { ResourcesGPU } from './resources-gpu.ts';
import { ResourcesNetwork } from './resources-network.ts';
import { ResourcesStorage } from './resources-storage.ts';

/** An interface of a USB device. */
export const ResourcesUSBDeviceInterface = Type.Object(
  {
    class: Type.Optional(Type.String()),
    class_id: Type.Integer({ minimum: 0 }),
    driver: Type.Optional(Type.String()),
    driver_version: Type.Optional(Type.String()),
    number: Type.Integer({ minimum: 0 }),
    subclass: Type.Optional(Type.String()),
    subclass_id: Type.Integer({ minimum: 0 }),
  },
  { $id: 'ResourcesUSBDeviceInterface' },
);
export type ResourcesUSBDeviceInterface = Static<typeof ResourcesUSBDeviceInterface>;

/** A USB device; `speed` in Mbit/s. */
export const ResourcesUSBDevice = Type.Object(
  {
    bus_address: Type.Integer({ minimum: 0 }),
    device_address: Type.Integer({ minimum: 0 }),
    interfaces: Type.Array(ResourcesUSBDeviceInterface),
    product: Type.Optional(Type.String()),
    product_id: Type.Optional(Type.String()),
    speed: Type.Number(),
    vendor: Type.Optional(Type.String()),
    vendor_id: Type.Optional(Type.String()),
  },
  { $id: 'ResourcesUSBDevice' },
);
export type ResourcesUSBDevice = Static<typeof ResourcesUSBDevice>;

/** The host's USB devices. */
export const ResourcesUSB = Type.Object(
  {
    devices: Type.Array(ResourcesUSBDevice),
    total: Type.Integer({ minimum: 0 }),
  },
  { $id: 'ResourcesUSB' },
);
export type ResourcesUSB = Static<typeof ResourcesUSB>;

/** Vital product data of a PCI device. */
export const ResourcesPCIVPD = Type.Object(
  {
    entries: Type.Optional(StringMap),
    product_name: Type.Optional(Type.String()),
  },
  { $id: 'ResourcesPCIVPD' },
);
export type ResourcesPCIVPD = Static<typeof ResourcesPCIVPD>;

/** A PCI device. */
export const ResourcesPCIDevice = Type.Object(
  {
    driver: Type.String(),
    driver_version: Type.String(),
    iommu_group: Type.Integer({ minimum: 0 }),
    numa_node: Type.Integer({ minimum: 0 }),
    pci_address: Type.String(),
    product: Type.String(),
    product_id: Type.String(),
    vendor: Type.String(),
    vendor_id: Type.String(),
    vpd: Type.Optional(ResourcesPCIVPD),
  },
  { $id: 'ResourcesPCIDevice' },
);
export type ResourcesPCIDevice = Static<typeof ResourcesPCIDevice>;

/** The host's PCI devices. */
export const ResourcesPCI = Type.Object(
  {
    devices: Type.Array(ResourcesPCIDevice),
    total: Type.Integer({ minimum: 0 }),
  },
  { $id: 'ResourcesPCI' },
);
export type ResourcesPCI = Static<typeof ResourcesPCI>;

/** The host's chassis. */
export const ResourcesSystemChassis = Type.Object(
  {
    serial: Type.String(),
    type: Type.String(),
    vendor: Type.String(),
    version: Type.String(),
  },
  { $id: 'ResourcesSystemChassis' },
);
export type ResourcesSystemChassis = Static<typeof ResourcesSystemChassis>;

/** The host's firmware. */
export const ResourcesSystemFirmware = Type.Object(
  {
    date: Type.String(),
    vendor: Type.String(),
    version: Type.String(),
  },
  { $id: 'ResourcesSystemFirmware' },
);
export type ResourcesSystemFirmware = Static<typeof ResourcesSystemFirmware>;

/** The host's motherboard. */
export const ResourcesSystemMotherboard = Type.Object(
  {
    product: Type.String(),
    serial: Type.String(),
    vendor: Type.String(),
    version: Type.String(),
  },
  { $id: 'ResourcesSystemMotherboard' },
);
export type ResourcesSystemMotherboard = Static<typeof ResourcesSystemMotherboard>;

/** The host as its firmware names it. */
export const ResourcesSystem = Type.Object(
  {
    chassis: Type.Optional(Nullable(ResourcesSystemChassis)),
    family: Type.String(),
    firmware: Type.Optional(Nullable(ResourcesSystemFirmware)),
    motherboard: Type.Optional(Nullable(ResourcesSystemMotherboard)),
    product: Type.String(),
    serial: Type.String(),
    sku: Type.String(),
    type: Type.Optional(Type.String()),
    uuid: Type.String(),
    vendor: Type.String(),
    version: Type.String(),
  },
  { $id: 'ResourcesSystem' },
);
export type ResourcesSystem = Static<typeof ResourcesSystem>;

/** The host's hardware. `GET /1.0/resources`. */
export const Resources = Type.Object(
  {
    cpu: ResourcesCPU,
    gpu: ResourcesGPU,
    memory: ResourcesMemory,
    network: ResourcesNetwork,
    pci: ResourcesPCI,
    storage: ResourcesStorage,
    system: ResourcesSystem,
    usb: ResourcesUSB,
  },
  { $id: 'Resources' },
);
export type Resources = Static<typeof Resources>;
