import { Type, type Static } from 'typebox';
import { AnyMap } from './common.ts';

/** The DRM nodes of a GPU. */
export const ResourcesGPUCardDRM = Type.Object(
  {
    card_device: Type.Optional(Type.String()),
    card_name: Type.Optional(Type.String()),
    control_device: Type.Optional(Type.String()),
    control_name: Type.Optional(Type.String()),
    id: Type.Integer({ minimum: 0 }),
    render_device: Type.Optional(Type.String()),
    render_name: Type.Optional(Type.String()),
  },
  { $id: 'ResourcesGPUCardDRM' },
);
export type ResourcesGPUCardDRM = Static<typeof ResourcesGPUCardDRM>;

/** A mediated device profile of a GPU. */
export const ResourcesGPUCardMdev = Type.Object(
  {
    api: Type.String(),
    available: Type.Integer({ minimum: 0 }),
    description: Type.Optional(Type.String()),
    devices: Type.Array(Type.String()),
    name: Type.Optional(Type.String()),
  },
  { $id: 'ResourcesGPUCardMdev' },
);
export type ResourcesGPUCardMdev = Static<typeof ResourcesGPUCardMdev>;

/** What NVIDIA's driver says about a GPU. */
export const ResourcesGPUCardNvidia = Type.Object(
  {
    architecture: Type.String(),
    brand: Type.String(),
    card_device: Type.Optional(Type.String()),
    card_name: Type.Optional(Type.String()),
    cuda_version: Type.Optional(Type.String()),
    model: Type.String(),
    nvrm_version: Type.Optional(Type.String()),
    uuid: Type.Optional(Type.String()),
  },
  { $id: 'ResourcesGPUCardNvidia' },
);
export type ResourcesGPUCardNvidia = Static<typeof ResourcesGPUCardNvidia>;

/** SR-IOV of a GPU. */
export const ResourcesGPUCardSRIOV = Type.Object(
  {
    current_vfs: Type.Integer({ minimum: 0 }),
    maximum_vfs: Type.Integer({ minimum: 0 }),
    vfs: Type.Array(AnyMap),
  },
  { $id: 'ResourcesGPUCardSRIOV' },
);
export type ResourcesGPUCardSRIOV = Static<typeof ResourcesGPUCardSRIOV>;

/** A GPU. */
export const ResourcesGPUCard = Type.Object(
  {
    driver: Type.Optional(Type.String()),
    driver_version: Type.Optional(Type.String()),
    drm: Type.Optional(ResourcesGPUCardDRM),
    mdev: Type.Optional(Type.Record(Type.String(), ResourcesGPUCardMdev)),
    numa_node: Type.Integer({ minimum: 0 }),
    nvidia: Type.Optional(ResourcesGPUCardNvidia),
    pci_address: Type.Optional(Type.String()),
    product: Type.Optional(Type.String()),
    product_id: Type.Optional(Type.String()),
    sriov: Type.Optional(ResourcesGPUCardSRIOV),
    usb_address: Type.Optional(Type.String()),
    vendor: Type.Optional(Type.String()),
    vendor_id: Type.Optional(Type.String()),
  },
  { $id: 'ResourcesGPUCard' },
);
export type ResourcesGPUCard = Static<typeof ResourcesGPUCard>;

/** The host's GPUs. */
export const ResourcesGPU = Type.Object(
  {
    cards: Type.Array(ResourcesGPUCard),
    total: Type.Integer({ minimum: 0 }),
  },
  { $id: 'ResourcesGPU' },
);
export type ResourcesGPU = Static<typeof ResourcesGPU>;
