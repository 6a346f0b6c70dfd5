import * as v from '../values/index.ts';
import { type ConfigOf, type ConfigTable, key } from './table.ts';

const onOff = v.oneOf('block', 'allow');
const blocked = { live: true, default: 'block' } as const;
const live = { live: true } as const;
const pathList = v.listOf(v.absolutePath);

const idRanges: v.ValueType = v.listOf({
  name: 'id or id range',
  check: (value) => (/^\d{1,10}(-\d{1,10})?$/.test(value) ? undefined : `Invalid number ${v.quote(value)}`),
});

const uplinkSubnets: v.ValueType = v.listOf({
  name: 'uplink:subnet',
  check: (value) => {
    const split = value.indexOf(':');
    return split > 0 && v.parseCidr(value.slice(split + 1))?.isNetwork === true
      ? undefined
      : `Subnet ${v.quote(value)} invalid, must be in the format of "<uplink network>:<subnet>"`;
  },
});

const keys = [
  key('backups.compression_algorithm', v.compression, 'Compression of new backups.', { ...live, checkEmpty: true }),
  key('features.images', v.bool, 'Own images and aliases, apart from the default project.', { default: 'false' }),
  key('features.networks', v.bool, 'Own networks, apart from the default project.', { default: 'false' }),
  key('features.profiles', v.bool, 'Own profiles, apart from the default project.', { default: 'false' }),
  key('features.storage.volumes', v.bool, 'Own storage volumes, apart from the default project.', { default: 'false' }),
  key('images.auto_update_cached', v.bool, 'Keep images that were cached on use up to date.', live),
  key('images.auto_update_interval', v.integer, 'Hours between looks for newer images; 0 never looks.', live),
  key('images.compression_algorithm', v.compression, 'Compression of new images.', { ...live, checkEmpty: true }),
  key('images.default_architecture', v.architecture, 'Architecture to take in a mixed cluster.', live),
  key('images.remote_cache_expiry', v.integer, 'Days after which an unused cached image is deleted.', live),
  key('limits.containers', v.uint32, 'Most containers.', live),
  key('limits.cpu', v.uint32, 'Most CPUs over all instances; each must then set limits.cpu.', live),
  key('limits.disk', v.size, 'Most disk space over all instances, volumes and images.', live),
  key('limits.instances', v.uint32, 'Most instances.', live),
  key('limits.memory', v.size, 'Most memory over all instances; each must then set limits.memory.', live),
  key('limits.networks', v.uint32, 'Most networks.', live),
  key('limits.processes', v.uint32, 'Most processes over all instances; each must then set limits.processes.', live),
  key('limits.virtual-machines', v.uint32, 'Most virtual machines.', live),
  key('restricted', v.bool, 'Enforce the restricted.* keys.', { ...live, default: 'false' }),
  key('restricted.backups', onOff, 'Making backups.', blocked),
  key('restricted.cluster.groups', v.anyText, 'Cluster groups instances may be placed on, separated by commas.', live),
  key('restricted.cluster.target', onOff, 'Choosing the cluster member of an instance.', blocked),
  key(
    'restricted.containers.interception',
    v.oneOf('allow', 'block', 'full'),
    'Interception of system calls.',
    blocked,
  ),
  key('restricted.containers.lowlevel', onOff, 'Low-level options of containers such as raw.lxc.', blocked),
  key('restricted.containers.nesting', onOff, 'security.nesting.', blocked),
  key(
    'restricted.containers.privilege',
    v.oneOf('allow', 'unprivileged', 'isolated'),
    'Least isolation of containers.',
    { ...live, default: 'unprivileged' },
  ),
  key('restricted.devices.disk', v.oneOf('block', 'allow', 'managed'), 'Disk devices other than the root disk.', {
    ...live,
    default: 'managed',
  }),
  key('restricted.devices.disk.paths', pathList, 'Host folders disk devices may come from, separated by commas.', live),
  key('restricted.devices.gpu', onOff, 'GPU devices.', blocked),
  key('restricted.devices.infiniband', onOff, 'InfiniBand devices.', blocked),
  key('restricted.devices.nic', v.oneOf('block', 'allow', 'managed'), 'Network devices.', {
    ...live,
    default: 'managed',
  }),
  key('restricted.devices.pci', onOff, 'PCI devices.', blocked),
  key('restricted.devices.proxy', onOff, 'Proxy devices.', blocked),
  key('restricted.devices.unix-block', onOff, 'Block devices.', blocked),
  key('restricted.devices.unix-char', onOff, 'Character devices.', blocked),
  key('restricted.devices.unix-hotplug', onOff, 'Hot-plugged devices.', blocked),
  key('restricted.devices.usb', onOff, 'USB devices.', blocked),
  key('restricted.idmap.gid', idRanges, 'Host groups raw.idmap may name.', live),
  key('restricted.idmap.uid', idRanges, 'Host users raw.idmap may name.', live),
  key('restricted.networks.access', v.anyText, 'Networks that may be used, separated by commas.', live),
  key('restricted.networks.subnets', uplinkSubnets, 'Subnets of uplinks the project may use, as uplink:subnet.', live),
  key('restricted.networks.uplinks', v.anyText, 'Networks that may serve as uplinks, separated by commas.', live),
  key('restricted.networks.zones', v.anyText, 'DNS zones that may be used, separated by commas.', live),
  key('restricted.snapshots', onOff, 'Making snapshots.', blocked),
  key(
    'restricted.virtual-machines.lowlevel',
    onOff,
    'Low-level options of virtual machines such as raw.qemu.',
    blocked,
  ),
  key('user.*', v.anyText, 'Free text.', live),
];

/** Config of a project, with completion. */
export type ProjectConfig = ConfigOf<(typeof keys)[number]>;

export const projectConfig: ConfigTable = {
  noun: 'project',
  keys,
  unknown: (name) => `Invalid project configuration key ${v.quote(name)}`,
  invalid: (name, _value, problem) => `Invalid project configuration key ${v.quote(name)} value: ${problem}`,
};
