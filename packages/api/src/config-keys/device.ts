import { nicKeys, type NicTypeName } from './device-nic.ts';
import * as v from '../values/index.ts';
import { type ConfigKey, type ConfigOf, type ConfigTable, key } from './table.ts';

const vm = { only: 'virtual-machine' } as const;
const off = { default: 'false' } as const;
const on = { default: 'true' } as const;
const live = { live: true } as const;

const inDev: v.ValueType = {
  name: 'path below /dev',
  check: (value) =>
    value.startsWith('/dev/') && !value.split('/').includes('..') ? undefined : 'Path needs to be in /dev',
};
const bindSide: v.ValueType = {
  name: 'one of host, instance',
  check: (value) =>
    ['host', 'instance', 'guest', 'container'].includes(value)
      ? undefined
      : 'Invalid binding side given. Must be "host" or "instance"',
};
const proxyAddress: v.ValueType = {
  name: 'proxy address such as tcp:0.0.0.0:80 or unix:/run/x',
  check: (value) => {
    const split = value.indexOf(':');
    const protocol = split === -1 ? value : value.slice(0, split);
    if (!['tcp', 'udp', 'unix'].includes(protocol)) {
      return `Unknown protocol type ${v.quote(protocol)}`;
    }
    const rest = value.slice(split + 1);
    if (protocol === 'unix') {
      return /^[@/].+/s.test(rest) ? undefined : 'Invalid unix address';
    }
    return /:\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*$/.test(rest) ? undefined : 'Missing port in address';
  },
};
const propagation = v.oneOf('private', 'shared', 'slave', 'unbindable', 'rshared', 'rslave', 'runbindable', 'rprivate');

const owner = [
  key('gid', v.unixId, 'Group of the device in the instance.', { default: '0' }),
  key('mode', v.fileMode, 'Mode of the device in the instance.', { default: '0660' }),
  key('uid', v.unixId, 'Owner of the device in the instance.', { default: '0' }),
];

const disk = [
  key('boot.priority', v.uint32, 'Boot order; higher boots first.', vm),
  key('ceph.cluster_name', v.anyText, 'Name of the Ceph cluster of a Ceph source.', { default: 'ceph' }),
  key('ceph.user_name', v.anyText, 'Ceph user of a Ceph source.', { default: 'admin' }),
  key('limits.max', v.diskLimit, 'Limit of reading and of writing, as bytes per second or iops.', live),
  key('limits.read', v.diskLimit, 'Limit of reading, as bytes per second or iops.', live),
  key('limits.write', v.diskLimit, 'Limit of writing, as bytes per second or iops.', live),
  key('path', v.anyText, 'Where the disk is mounted in the instance; / is the root disk.'),
  key('pool', v.anyText, 'Storage pool of a root disk or volume.'),
  key('propagation', propagation, 'How mounts below the disk spread.', { default: 'private' }),
  key('raw.mount.options', v.singleLine, 'Mount options of the file system.'),
  key('readonly', v.bool, 'Refuse writing.', { ...off, ...live }),
  key('recursive', v.bool, 'Take mounts below the source along.', off),
  key('required', v.bool, 'Refuse to start without the source.', on),
  key('shift', v.bool, "Show owners through the instance's map.", off),
  key('size', v.size, 'Size of the root disk.', live),
  key('size.state', v.size, 'Size of the disk that keeps run-time state.', { ...live }),
  key('source', v.anyText, 'Host path, block device, volume name, or cloud-init:config, ceph:…, cephfs:….'),
];

const unixDevice = [
  ...owner,
  key('major', v.deviceNumber, 'Major number; that of the source unless given.'),
  key('minor', v.deviceNumber, 'Minor number; that of the source unless given.'),
  key('path', v.anyText, 'Path in the instance; that of the source unless given.'),
  key('required', v.bool, 'Refuse to start without the device.', on),
  key('source', inDev, 'Device on the host.'),
];

const proxy = [
  key('bind', bindSide, 'Side that listens.', { default: 'host' }),
  key('connect', proxyAddress, 'Where connections go, as protocol:address:port.', { required: true }),
  key('gid', v.unixId, 'Group of a listening unix socket.', { default: '0' }),
  key('listen', proxyAddress, 'Where connections are taken, as protocol:address:port.', { required: true }),
  key('mode', v.fileMode, 'Mode of a listening unix socket.', { default: '0644' }),
  key('nat', v.bool, 'Forward by NAT instead of a process; needs a fixed address.', off),
  key('proxy_protocol', v.bool, 'Tell the client address by the PROXY protocol.', off),
  key('security.gid', v.unixId, 'Group the proxy process drops to.', { default: '0' }),
  key('security.uid', v.unixId, 'User the proxy process drops to.', { default: '0' }),
  key('uid', v.unixId, 'Owner of a listening unix socket.', { default: '0' }),
];

const ids = [
  key('productid', v.hardwareId, 'Product id to match.'),
  key('vendorid', v.hardwareId, 'Vendor id to match.'),
];

const gpu = [
  ...owner,
  ...ids,
  key('gputype', v.oneOf('physical', 'mdev', 'mig', 'sriov'), 'How the GPU is shared.', { default: 'physical' }),
  key('id', v.anyText, 'DRM card id to match.'),
  key('mdev', v.anyText, 'Mediated device profile, with gputype=mdev.', vm),
  key('mig.ci', v.uint32, 'MIG compute instance, with gputype=mig.'),
  key('mig.gi', v.uint32, 'MIG GPU instance, with gputype=mig.'),
  key('mig.uuid', v.anyText, 'MIG device, with gputype=mig.'),
  key('pci', v.pciAddress, 'PCI address to match.'),
];

const infiniband = [
  key('hwaddr', v.infinibandAddress, 'Address of the interface, full or its last 8 bytes.'),
  key('mtu', v.mtu, 'MTU of the interface.'),
  key('name', v.interfaceName, 'Interface in the instance.'),
  key('nictype', v.oneOf('physical', 'sriov'), 'How the interface is shared.', { required: true }),
  key('parent', v.anyText, 'Host interface.', { required: true }),
];

const tables = {
  disk,
  gpu,
  infiniband,
  none: [],
  pci: [key('address', v.pciAddress, 'PCI address on the host.', { required: true })],
  proxy,
  tpm: [
    key('path', v.anyText, 'Path in the container.'),
    key('pathrm', v.anyText, 'Path of the resource manager in the container.'),
  ],
  'unix-block': unixDevice,
  'unix-char': unixDevice,
  'unix-hotplug': [...owner, ...ids, key('required', v.bool, 'Refuse to start without the device.', off)],
  usb: [...owner, ...ids, key('required', v.bool, 'Refuse to start without the device.', off)],
} as const satisfies Readonly<Record<string, readonly ConfigKey[]>>;

/** Device types but `nic`, which splits by `nictype`. */
export type DeviceTypeName = keyof typeof tables;
export const deviceTypes: readonly (DeviceTypeName | 'nic')[] = [
  'none',
  'nic',
  'disk',
  'unix-char',
  'unix-block',
  'usb',
  'gpu',
  'infiniband',
  'proxy',
  'unix-hotplug',
  'tpm',
  'pci',
];

type DeviceRow = (typeof tables)[DeviceTypeName][number] | (typeof nicKeys)[NicTypeName][number];

/** A device as users write it, with completion of the options of all types. */
export type DeviceConfig = ConfigOf<DeviceRow> & {
  // The intersection keeps completion of the known types while any text is taken.
  type?: DeviceTypeName | 'nic' | (string & {});
};

function deviceTable(noun: string, keys: readonly ConfigKey[]): ConfigTable {
  return {
    noun: `device-${noun}`,
    keys: [key('type', v.anyText, 'Type of the device.'), ...keys],
    unknown: (name) => `Invalid device option ${v.quote(name)}`,
    invalid: (name, _value, problem) => `Invalid value for device option ${v.quote(name)}: ${problem}`,
  };
}

/** Options of a device of this type. */
export function deviceConfig(type: DeviceTypeName): ConfigTable {
  return deviceTable(type, tables[type]);
}

/** Options of a nic; `network` of the device decides the type when it is given, `nictype` otherwise. */
export function nicConfig(type: NicTypeName): ConfigTable {
  return deviceTable(`nic-${type}`, nicKeys[type]);
}

/** Table of a device as a user wrote it; undefined for an unknown type. `networkType` is that of its `network`. */
export function deviceTableOf(
  device: Readonly<Record<string, string>>,
  networkType?: NicTypeName,
): ConfigTable | undefined {
  const type = device['type'] ?? '';
  if (type === 'nic') {
    const nic = networkType ?? device['nictype'] ?? '';
    return Object.hasOwn(nicKeys, nic) ? nicConfig(nic as NicTypeName) : undefined;
  }
  return Object.hasOwn(tables, type) ? deviceConfig(type as DeviceTypeName) : undefined;
}
