import { Type, type Static } from 'typebox';
import { AnyMap, Nullable } from './common.ts';

/** Infiniband nodes of a port. */
export const ResourcesNetworkCardPortInfiniband = Type.Object(
  {
    issm_device: Type.Optional(Type.String()),
    issm_name: Type.Optional(Type.String()),
    mad_device: Type.Optional(Type.String()),
    mad_name: Type.Optional(Type.String()),
    verb_device: Type.Optional(Type.String()),
    verb_name: Type.Optional(Type.String()),
  },
  { $id: 'ResourcesNetworkCardPortInfiniband' },
);
export type ResourcesNetworkCardPortInfiniband = Static<typeof ResourcesNetworkCardPortInfiniband>;

/** A port of a network card; `link_speed` in Mbit/s. */
export const ResourcesNetworkCardPort = Type.Object(
  {
    address: Type.Optional(Type.String()),
    auto_negotiation: Type.Boolean(),
    id: Type.String(),
    infiniband: Type.Optional(ResourcesNetworkCardPortInfiniband),
    link_detected: Type.Boolean(),
    link_duplex: Type.Optional(Type.String()),
    link_speed: Type.Optional(Type.Integer({ minimum: 0 })),
    port: Type.Integer({ minimum: 0 }),
    port_type: Type.Optional(Type.String()),
    protocol: Type.String(),
    supported_modes: Type.Optional(Type.Array(Type.String())),
    supported_ports: Type.Optional(Type.Array(Type.String())),
    transceiver_type: Type.Optional(Type.String()),
  },
  { $id: 'ResourcesNetworkCardPort' },
);
export type ResourcesNetworkCardPort = Static<typeof ResourcesNetworkCardPort>;

/** SR-IOV of a network card. */
export const ResourcesNetworkCardSRIOV = Type.Object(
  {
    current_vfs: Type.Integer({ minimum: 0 }),
    maximum_vfs: Type.Integer({ minimum: 0 }),
    vfs: Type.Array(AnyMap),
  },
  { $id: 'ResourcesNetworkCardSRIOV' },
);
export type ResourcesNetworkCardSRIOV = Static<typeof ResourcesNetworkCardSRIOV>;

/** A network card. */
export const ResourcesNetworkCard = Type.Object(
  {
    driver: Type.Optional(Type.String()),
    driver_version: Type.Optional(Type.String()),
    firmware_version: Type.Optional(Type.String()),
    numa_node: Type.Integer({ minimum: 0 }),
    pci_address: Type.Optional(Type.String()),
    ports: Type.Optional(Nullable(Type.Array(ResourcesNetworkCardPort))),
    product: Type.Optional(Type.String()),
    product_id: Type.Optional(Type.String()),
    sriov: Type.Optional(ResourcesNetworkCardSRIOV),
    usb_address: Type.Optional(Type.String()),
    vendor: Type.Optional(Type.String()),
    vendor_id: Type.Optional(Type.String()),
  },
  { $id: 'ResourcesNetworkCard' },
);
export type ResourcesNetworkCard = Static<typeof ResourcesNetworkCard>;

/** The host's network cards. */
export const ResourcesNetwork = Type.Object(
  {
    cards: Type.Array(ResourcesNetworkCard),
    total: Type.Integer({ minimum: 0 }),
  },
  { $id: 'ResourcesNetwork' },
);
export type ResourcesNetwork = Static<typeof ResourcesNetwork>;
