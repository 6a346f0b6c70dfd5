import { Type, type Static } from 'typebox';
import { StringMap } from './common.ts';

/** A storage driver the server can use on this host. */
export const ServerStorageDriverInfo = Type.Object(
  {
    Name: Type.String(),
    Version: Type.String(),
    Remote: Type.Boolean(),
  },
  { $id: 'ServerStorageDriverInfo' },
);
export type ServerStorageDriverInfo = Static<typeof ServerStorageDriverInfo>;

/** What the server runs on: kernel, drivers, certificate, name. Shown to trusted callers only. */
export const ServerEnvironment = Type.Object(
  {
    addresses: Type.Array(Type.String()),
    architectures: Type.Array(Type.String()),
    certificate: Type.String(),
    certificate_fingerprint: Type.String(),
    driver: Type.String(),
    driver_version: Type.String(),
    firewall: Type.String(),
    kernel: Type.String(),
    kernel_architecture: Type.String(),
    kernel_features: StringMap,
    kernel_version: Type.String(),
    lxc_features: StringMap,
    os_name: Type.String(),
    os_version: Type.String(),
    project: Type.String(),
    server: Type.String(),
    server_clustered: Type.Boolean(),
    server_event_mode: Type.String(),
    server_name: Type.String(),
    server_pid: Type.Integer(),
    server_version: Type.String(),
    storage: Type.String(),
    storage_supported_drivers: Type.Array(ServerStorageDriverInfo),
    storage_version: Type.String(),
  },
  { $id: 'ServerEnvironment' },
);
export type ServerEnvironment = Static<typeof ServerEnvironment>;

/** Server config: text, but `core.trust_password` is shown as true, and clients send that back. */
export const ServerConfigMap = Type.Record(Type.String(), Type.Union([Type.String(), Type.Boolean(), Type.Number()]));
export type ServerConfigMap = Static<typeof ServerConfigMap>;

/** Writable part of the server: its config keys. `PUT /1.0`, `PATCH /1.0`. */
export const ServerPut = Type.Object(
  {
    config: Type.Optional(ServerConfigMap),
  },
  { $id: 'ServerPut' },
);
export type ServerPut = Static<typeof ServerPut>;

/** The server as a caller without a trusted certificate sees it. `GET /1.0`. */
export const ServerUntrusted = Type.Object(
  {
    api_extensions: Type.Array(Type.String()),
    api_status: Type.String(),
    api_version: Type.String(),
    auth: Type.String(),
    auth_methods: Type.Array(Type.String()),
    public: Type.Boolean(),
  },
  { $id: 'ServerUntrusted' },
);
export type ServerUntrusted = Static<typeof ServerUntrusted>;

/** The server as a trusted caller sees it. `GET /1.0`. */
export const Server = Type.Object(
  {
    ...ServerUntrusted.properties,
    config: ServerConfigMap,
    environment: ServerEnvironment,
  },
  { $id: 'Server' },
);
export type Server = Static<typeof Server>;
