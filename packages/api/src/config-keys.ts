import { type DeviceTypeName, deviceConfig, nicConfig } from './config-keys/device.ts';
import { type NicTypeName, nicKeys } from './config-keys/device-nic.ts';
import { imageProperties } from './config-keys/image.ts';
import { instanceConfig } from './config-keys/instance.ts';
import { networkConfig, networkTypes } from './config-keys/network.ts';
import { projectConfig } from './config-keys/project.ts';
import { serverConfig } from './config-keys/server.ts';
import { storageDrivers, storagePoolConfig, storageVolumeConfig } from './config-keys/storage.ts';
import type { ConfigTable } from './config-keys/table.ts';

export {
  type DeviceConfig,
  deviceConfig,
  deviceTableOf,
  deviceTypes,
  type DeviceTypeName,
  nicConfig,
} from './config-keys/device.ts';
export { type NicTypeName } from './config-keys/device-nic.ts';
export { imageProperties } from './config-keys/image.ts';
export { type InstanceConfig, instanceConfig, profileContext } from './config-keys/instance.ts';
export { type NetworkConfig, networkConfig, networkTypes, type NetworkTypeName } from './config-keys/network.ts';
export { type ProjectConfig, projectConfig } from './config-keys/project.ts';
export { type ServerConfig, serverConfig } from './config-keys/server.ts';
export {
  storageDrivers,
  type StoragePoolConfig,
  storagePoolConfig,
  type StorageDriverName,
  type StorageVolumeConfig,
  storageVolumeConfig,
} from './config-keys/storage.ts';
export {
  type ConfigContext,
  type ConfigKey,
  type ConfigOf,
  type ConfigProblem,
  type ConfigTable,
  findKey,
  type InstanceKind,
  validateConfig,
  withDefaults,
} from './config-keys/table.ts';

const plainDevices: readonly DeviceTypeName[] = [
  'disk',
  'gpu',
  'infiniband',
  'pci',
  'proxy',
  'tpm',
  'unix-block',
  'unix-char',
  'unix-hotplug',
  'usb',
];

/** Every table there is, for documentation, completion and forms. */
export const allConfigTables: readonly ConfigTable[] = [
  serverConfig,
  instanceConfig,
  ...plainDevices.map(deviceConfig),
  ...(Object.keys(nicKeys) as NicTypeName[]).map(nicConfig),
  ...storageDrivers.map(storagePoolConfig),
  ...storageDrivers.map(storageVolumeConfig),
  ...networkTypes.map(networkConfig),
  projectConfig,
  imageProperties,
];

/** Answer of `GET /1.0/metadata/configuration`: tables by noun, rows by key. */
export function configurationMetadata(): { configs: Record<string, Record<string, Record<string, string>>> } {
  const configs: Record<string, Record<string, Record<string, string>>> = {};
  for (const table of allConfigTables) {
    configs[table.noun] = Object.fromEntries(table.keys.map((row) => [row.key, metadataOf(row)]));
  }
  return { configs };
}

function metadataOf(row: ConfigTable['keys'][number]): Record<string, string> {
  return {
    type: row.type.name,
    shortdesc: row.doc,
    ...(row.default === undefined ? {} : { defaultdesc: row.default }),
    ...(row.live === undefined ? {} : { liveupdate: 'yes' }),
    ...(row.scope === undefined ? {} : { scope: row.scope }),
    ...(row.only === undefined ? {} : { condition: row.only }),
    ...(row.condition === undefined ? {} : { condition: row.condition }),
    ...(row.required === undefined ? {} : { required: 'yes' }),
  };
}
