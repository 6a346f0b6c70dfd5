import * as v from '../values/index.ts';
import { type ConfigContext, type ConfigOf, type ConfigTable, key } from './table.ts';

const live = { live: true } as const;
const vm = { only: 'virtual-machine' } as const;
const container = { only: 'container' } as const;
const internal = { internal: true } as const;

const boot = [
  key('boot.autostart', v.bool, 'Start with the server; unset restores the last state.', live),
  key('boot.autostart.delay', v.integer, 'Seconds to wait after this instance before the next one starts.', {
    ...live,
    default: '0',
  }),
  key('boot.autostart.priority', v.integer, 'Order of starting; higher starts first.', { ...live, default: '0' }),
  key('boot.host_shutdown_timeout', v.integer, 'Seconds to wait for a clean stop at shutdown before force.', {
    ...live,
    default: '30',
  }),
  key('boot.stop.priority', v.integer, 'Order of stopping; higher stops first.', { ...live, default: '0' }),
  key(
    'cluster.evacuate',
    v.oneOf('auto', 'migrate', 'live-migrate', 'stop'),
    'What happens when its cluster member is evacuated.',
    { ...live, default: 'auto' },
  ),
];

const guest = [
  key('agent.nic_config', v.bool, 'Give interfaces in the guest the name and MTU of their devices.', {
    ...vm,
    default: 'false',
  }),
  key('cloud-init.network-config', v.anyText, 'Network configuration for cloud-init.', { default: 'DHCP on eth0' }),
  key('cloud-init.user-data', v.anyText, 'User data for cloud-init.', { default: '#cloud-config' }),
  key('cloud-init.vendor-data', v.anyText, 'Vendor data for cloud-init.', { default: '#cloud-config' }),
  key('environment.*', v.singleLine, 'Environment variable of the guest and of commands run in it.', live),
  key('linux.kernel_modules', v.anyText, 'Kernel modules to load before the start, separated by commas.', {
    ...live,
    ...container,
  }),
  key('linux.sysctl.*', v.singleLine, 'Value of a sysctl inside the container.', container),
  key('user.*', v.anyText, 'Free text; `user.user-data` and the like feed older cloud-init images.', live),
];

const limits = [
  key('limits.cpu', v.cpuLimit, 'Number of CPUs, or the set of CPUs to use such as 0-3 or 1,3.', live),
  key(
    'limits.cpu.allowance',
    v.cpuAllowance,
    'CPU time: a share such as 50% under load, or a hard quota such as 25ms/100ms.',
    { ...live, ...container, default: '100%' },
  ),
  key('limits.cpu.priority', v.priority, 'Priority against others with the same share; 10 is highest.', {
    ...live,
    ...container,
    default: '10',
  }),
  key('limits.disk.priority', v.priority, 'Disk priority under load; 10 is highest.', { ...live, default: '5' }),
  key('limits.hugepages.1GB', v.size, 'Most bytes in huge pages of 1 GB.', { ...live, ...container }),
  key('limits.hugepages.1MB', v.size, 'Most bytes in huge pages of 1 MB.', { ...live, ...container }),
  key('limits.hugepages.2MB', v.size, 'Most bytes in huge pages of 2 MB.', { ...live, ...container }),
  key('limits.hugepages.64KB', v.size, 'Most bytes in huge pages of 64 KB.', { ...live, ...container }),
  key(
    'limits.kernel.*',
    v.singleLine,
    'Process limit (rlimit) by name, such as limits.kernel.nofile; soft:hard or one value.',
    container,
  ),
  key('limits.memory', v.memoryLimit, 'Memory: a size, or a share of the host such as 50%.', live),
  key(
    'limits.memory.enforce',
    v.oneOf('soft', 'hard'),
    'soft lets the guest exceed the limit while the host has memory.',
    { ...live, ...container, default: 'hard' },
  ),
  key('limits.memory.hugepages', v.bool, 'Back the guest with huge pages.', { ...vm, default: 'false' }),
  key('limits.memory.swap', v.bool, 'Let memory of the container be swapped out.', {
    ...live,
    ...container,
    default: 'true',
  }),
  key('limits.memory.swap.priority', v.priority, 'Willingness to keep out of swap; 10 is last to be swapped.', {
    ...live,
    ...container,
    default: '10',
  }),
  key('limits.network.priority', v.priority, 'Network priority under load; 10 is highest.', { ...live, default: '0' }),
  key('limits.processes', v.integer, 'Most processes in the container.', { ...live, ...container }),
];

const migration = [
  key('migration.incremental.memory', v.bool, 'Transfer memory in rounds to shorten the pause of a live migration.', {
    ...live,
    ...container,
    default: 'false',
  }),
  key('migration.incremental.memory.goal', v.uint32, 'Percent of memory in step before the container is paused.', {
    ...live,
    ...container,
    default: '70',
  }),
  key('migration.incremental.memory.iterations', v.uint32, 'Most rounds before the container is paused.', {
    ...live,
    ...container,
    default: '10',
  }),
  key('migration.stateful', v.bool, 'Allow stateful stop, snapshot and live migration.', { ...vm, default: 'false' }),
];

const nvidia = [
  key('nvidia.driver.capabilities', v.anyText, 'Driver parts the container gets, separated by commas.', {
    ...container,
    default: 'compute,utility',
  }),
  key('nvidia.require.cuda', v.anyText, 'Version of CUDA the container needs.', container),
  key('nvidia.require.driver', v.anyText, 'Version of the driver the container needs.', container),
  key('nvidia.runtime', v.bool, "Pass the host's NVIDIA and CUDA libraries in.", { ...container, default: 'false' }),
];

const raw = [
  key('raw.apparmor', v.anyText, 'Rules added to the generated AppArmor profile.', live),
  key('raw.idmap', v.anyText, 'Ids of the host shown inside, such as `both 1000 1000`.', container),
  key('raw.lxc', v.rawLxc, "Lines added to the container's LXC configuration.", container),
  key('raw.qemu', v.anyText, 'Arguments added to the QEMU command line.', vm),
  key('raw.qemu.conf', v.anyText, 'Sections that override the generated QEMU configuration.', vm),
  key('raw.seccomp', v.anyText, 'Seccomp policy that replaces the generated one.', container),
];

const security = [
  key('security.agent.metrics', v.bool, 'Ask the guest agent for state and metrics.', { ...vm, default: 'true' }),
  key('security.devlxd', v.bool, 'Offer the guest API under /dev/lxd.', { default: 'true' }),
  key('security.devlxd.images', v.bool, 'Let the guest read images through /dev/lxd.', {
    ...container,
    default: 'false',
  }),
  key('security.idmap.base', v.uint32, 'First host id of the map, instead of a chosen one.', container),
  key('security.idmap.isolated', v.bool, 'Use a map that no other container shares.', {
    ...container,
    default: 'false',
  }),
  key('security.idmap.size', v.uint32, 'Number of ids in the map.', container),
  key('security.nesting', v.bool, 'Allow containers inside the container.', {
    ...live,
    ...container,
    default: 'false',
  }),
  key('security.privileged', v.bool, 'Run without a user namespace: root inside is root on the host.', {
    ...container,
    default: 'false',
  }),
  key('security.protection.delete', v.bool, 'Refuse deletion.', { ...live, default: 'false' }),
  key('security.protection.shift', v.bool, 'Refuse to change owners of files in the root at start.', {
    ...live,
    ...container,
    default: 'false',
  }),
  key('security.secureboot', v.bool, 'Boot with UEFI secure boot.', { ...vm, default: 'true' }),
];

const syscalls = [
  key('security.syscalls.allow', v.anyText, 'System calls to allow, one a line; everything else is denied.', container),
  key('security.syscalls.blacklist', v.anyText, 'Older name of security.syscalls.deny.', container),
  key('security.syscalls.blacklist_compat', v.bool, 'Older name of security.syscalls.deny_compat.', {
    ...container,
    default: 'false',
  }),
  key('security.syscalls.blacklist_default', v.bool, 'Older name of security.syscalls.deny_default.', {
    ...container,
    default: 'true',
  }),
  key('security.syscalls.deny', v.anyText, 'System calls to deny, one a line.', container),
  key('security.syscalls.deny_compat', v.bool, 'Deny 32-bit system calls on 64-bit machines.', {
    ...container,
    default: 'false',
  }),
  key('security.syscalls.deny_default', v.bool, 'Deny the usual dangerous system calls.', {
    ...container,
    default: 'true',
  }),
  key('security.syscalls.intercept.bpf', v.bool, 'Handle the bpf system call for the container.', {
    ...container,
    default: 'false',
  }),
  key('security.syscalls.intercept.bpf.devices', v.bool, 'Allow device cgroup programs through the handled bpf call.', {
    ...container,
    default: 'false',
  }),
  key('security.syscalls.intercept.mknod', v.bool, 'Handle mknod for harmless devices.', {
    ...container,
    default: 'false',
  }),
  key('security.syscalls.intercept.mount', v.bool, 'Handle mount for the listed file systems.', {
    ...container,
    default: 'false',
  }),
  key(
    'security.syscalls.intercept.mount.allowed',
    v.anyText,
    'File systems the container may mount, separated by commas.',
    { ...live, ...container },
  ),
  key(
    'security.syscalls.intercept.mount.fuse',
    v.anyText,
    'File systems to mount through a FUSE program, such as ext4=fuse2fs.',
    { ...live, ...container },
  ),
  key('security.syscalls.intercept.mount.shift', v.bool, 'Map owners on handled mounts.', {
    ...live,
    ...container,
    default: 'false',
  }),
  key('security.syscalls.intercept.sched_setscheduler', v.bool, 'Handle changes of the scheduling class.', {
    ...container,
    default: 'false',
  }),
  key('security.syscalls.intercept.setxattr', v.bool, 'Handle setting of a harmless set of extended attributes.', {
    ...container,
    default: 'false',
  }),
  key('security.syscalls.whitelist', v.anyText, 'Older name of security.syscalls.allow.', container),
];

const snapshots = [
  key('snapshots.expiry', v.expiry, 'Time after which snapshots are deleted, such as 1M 2H 3d 4w 5m 6y.', live),
  key('snapshots.pattern', v.anyText, 'Name of snapshots: a number for %d, the time for {{ creation_date }}.', {
    ...live,
    default: 'snap%d',
  }),
  key('snapshots.schedule', v.schedule, 'When to take snapshots: a cron expression, or aliases such as @daily.', live),
  key('snapshots.schedule.stopped', v.bool, 'Take scheduled snapshots of a stopped instance too.', {
    ...live,
    default: 'false',
  }),
];

const volatile = [
  key('image.*', v.anyText, 'Properties of the image the instance was made from.', internal),
  key('volatile.*.apply_quota', v.anyText, 'Size to give the disk at the next start.', internal),
  key('volatile.*.ceph_rbd', v.anyText, 'Block device of a Ceph disk.', internal),
  key('volatile.*.driver', v.anyText, 'Host driver a device had before.', internal),
  key('volatile.*.host_name', v.anyText, 'Interface on the host.', internal),
  key('volatile.*.hwaddr', v.anyText, 'MAC address chosen for the device.', internal),
  key('volatile.*.last_state.created', v.anyText, 'Whether the host interface was made for the device.', internal),
  key('volatile.*.last_state.hwaddr', v.anyText, 'MAC address the host interface had.', internal),
  key('volatile.*.last_state.mtu', v.anyText, 'MTU the host interface had.', internal),
  key('volatile.*.last_state.ip_addresses', v.anyText, 'Addresses the device had last.', internal),
  key('volatile.*.last_state.pci.driver', v.anyText, 'Driver of the PCI device before.', internal),
  key('volatile.*.last_state.pci.parent', v.anyText, 'Host device of the PCI device.', internal),
  key('volatile.*.last_state.pci.slot.name', v.anyText, 'Slot of the PCI device.', internal),
  key('volatile.*.last_state.vf.hwaddr', v.anyText, 'MAC address of the virtual function before.', internal),
  key('volatile.*.last_state.vf.id', v.anyText, 'Number of the virtual function.', internal),
  key('volatile.*.last_state.vf.parent', v.anyText, 'Host device of the virtual function.', internal),
  key('volatile.*.last_state.vf.spoofcheck', v.anyText, 'Spoof check of the virtual function before.', internal),
  key('volatile.*.last_state.vf.vlan', v.anyText, 'VLAN of the virtual function before.', internal),
  key('volatile.*.mig.uuid', v.anyText, 'MIG instance of a GPU.', internal),
  key('volatile.*.name', v.anyText, 'Interface in the guest.', internal),
  key('volatile.*.uuid', v.anyText, 'Identity of the device.', internal),
  key('volatile.*.vgpu.uuid', v.anyText, 'Virtual GPU made for the device.', internal),
  key('volatile.apply_nvram', v.anyText, 'Renew the firmware variables at the next start.', { ...internal, ...vm }),
  key('volatile.apply_template', v.anyText, 'Templates to apply at the next start.', internal),
  key('volatile.base_image', v.anyText, 'Fingerprint of the image the instance was made from.', internal),
  key('volatile.cloud-init.instance-id', v.uuid, 'Instance id shown to cloud-init.', internal),
  key('volatile.evacuate.origin', v.anyText, 'Member the instance was evacuated from.', internal),
  key('volatile.idmap.base', v.anyText, 'First host id of the map.', { ...internal, ...container }),
  key('volatile.idmap.current', v.anyText, 'Map in use.', { ...internal, ...container }),
  key('volatile.idmap.next', v.anyText, 'Map of the next start.', { ...internal, ...container }),
  key('volatile.last_state.idmap', v.anyText, 'Map the files of the root have on disk.', { ...internal, ...container }),
  key('volatile.last_state.power', v.anyText, 'State when the server last stopped.', internal),
  key('volatile.uuid', v.uuid, 'Identity of the instance, across servers.', internal),
  key('volatile.vsock_id', v.integer, 'Number of the instance on the vsock.', internal),
];

const unknown = (name: string): string => `Unknown configuration key: ${name}`;
const invalid = (_name: string, _value: string, problem: string): string => problem;

const keys = [
  ...boot,
  ...guest,
  ...limits,
  ...migration,
  ...nvidia,
  ...raw,
  ...security,
  ...syscalls,
  ...snapshots,
  ...volatile,
];

/** Config of an instance or a profile, with completion. */
export type InstanceConfig = ConfigOf<(typeof keys)[number]>;

/** Config of instances, and of profiles with the context `profileContext`. */
export const instanceConfig: ConfigTable = {
  noun: 'instance',
  keys,
  unknown,
  invalid,
};

/** Profiles serve both instance types, and hold no state of an instance. */
export const profileContext: ConfigContext = {
  refused: {
    'volatile.': 'Volatile keys can only be set on instances',
    'image.': 'Image keys can only be set on instances',
  },
};
