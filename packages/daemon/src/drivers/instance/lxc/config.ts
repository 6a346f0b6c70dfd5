import { errors } from '../../../core/errors.ts';
import type { MountSpec, NicSpec, StartSpec, UnixDeviceSpec } from '../contract.ts';
import { type CgroupVersions, limitSettings } from './limits.ts';
import { hasControl, parseRawLxc } from './raw-lxc.ts';

/** What the host offers; found once by the driver's probe. */
export interface HostFacts {
  readonly cgroups: CgroupVersions;
  /** `generated`: liblxc makes a profile per guest; `none`: the kernel has no AppArmor. */
  readonly apparmor: 'generated' | 'unconfined' | 'none';
  /** Files of a running lxcfs, as paths below it (`proc/cpuinfo`, `sys/devices/system/cpu`); undefined without one. */
  readonly lxcfs: { readonly path: string; readonly entries: readonly string[] } | undefined;
}

/** Where the guest's runtime files are. */
export interface ConfigFiles {
  readonly log: string;
  readonly console: string;
  /** Undefined = no filter. */
  readonly seccomp: string | undefined;
  readonly postStopHook: string;
  /** Host side copies of unix devices, by device name. */
  readonly devices: Readonly<Record<string, string>>;
  /** Names of the guest's cgroups. */
  readonly cgroup: { readonly payload: string; readonly monitor: string };
}

/**
 * The complete liblxc configuration of a guest: no other file is included. Pure.
 * @throws bad-request naming the value that cannot be written as one configuration line.
 */
export function lxcConfig(spec: StartSpec, host: HostFacts, files: ConfigFiles): string {
  const lines = new ConfigLines();
  addBase(lines, spec, files);
  addIsolation(lines, spec, host, files);
  addMounts(lines, spec, host);
  addLimits(lines, spec, host);
  spec.nics.forEach((nic, index) => addNic(lines, nic, index));
  if (spec.nics.length === 0) {
    lines.add('lxc.net.0.type', 'empty');
    lines.add('lxc.net.0.flags', 'up');
  }
  for (const mount of spec.mounts) lines.add('lxc.mount.entry', mountEntry(mount));
  for (const device of spec.unixDevices) addUnixDevice(lines, { spec, host, files }, device);
  for (const { key, value } of parseRawLxc(spec.rawLxc)) lines.add(key, value);
  return lines.text();
}

class ConfigLines {
  readonly #lines: string[] = [];

  add(key: string, value: string | number): void {
    const text = String(value);
    if (hasControl(text)) throw errors.badRequest(`Invalid value for ${key}: control character`);
    if (!/^[A-Za-z0-9_.-]+$/.test(key)) throw errors.badRequest(`Invalid configuration key ${JSON.stringify(key)}`);
    this.#lines.push(`${key} = ${text}`);
  }

  text(): string {
    return `${this.#lines.join('\n')}\n`;
  }
}

function addBase(lines: ConfigLines, spec: StartSpec, files: ConfigFiles): void {
  lines.add('lxc.log.file', files.log);
  lines.add('lxc.log.level', 'error'); // every exec logs its warnings here too
  lines.add('lxc.console.buffer.size', 'auto');
  lines.add('lxc.console.size', 'auto');
  lines.add('lxc.console.logfile', files.console);
  lines.add('lxc.autodev', 1);
  lines.add('lxc.pty.max', 1024);
  lines.add('lxc.tty.max', 0);
  lines.add('lxc.arch', personality(spec.architecture));
  if (!/^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,62}[A-Za-z0-9])?$/.test(spec.hostname))
    throw errors.badRequest(`Invalid host name ${JSON.stringify(spec.hostname)}`);
  lines.add('lxc.uts.name', spec.hostname);
  lines.add('lxc.rootfs.path', `dir:${spec.rootfs.path}`);
  const rootOptions = [
    ...(spec.rootfs.ids === 'plain' && spec.idRange !== undefined ? ['idmap=container'] : []),
    ...(spec.rootfs.readOnly ? ['ro'] : []),
  ];
  if (rootOptions.length > 0) lines.add('lxc.rootfs.options', rootOptions.join(','));
  lines.add('lxc.cgroup.dir.container', files.cgroup.payload);
  lines.add('lxc.cgroup.dir.monitor', files.cgroup.monitor);
  lines.add('lxc.hook.version', 1);
  // liblxc hands the value to a shell; the argument keeps it from being read as a quoted string.
  if (files.postStopHook.includes("'")) throw errors.badRequest('The state folder path must not contain a quote');
  lines.add('lxc.hook.post-stop', `'${files.postStopHook}' stop`);
  for (const [name, value] of Object.entries(spec.environment)) addEnvironment(lines, name, value);
}

const PERSONALITIES_32 = ['i686', 'i586', 'i386', 'armv6l', 'armv7l', 'armv8l', 'ppc', 'mips'];

function personality(architecture: string): string {
  return PERSONALITIES_32.includes(architecture) ? 'linux32' : 'linux64';
}

function addEnvironment(lines: ConfigLines, name: string, value: string): void {
  if (name === '' || /[=\s]/.test(name) || hasControl(name))
    throw errors.badRequest(`Invalid environment variable name ${JSON.stringify(name)}`);
  if (hasControl(value.replaceAll('\t', '')))
    throw errors.badRequest(`Invalid value of environment variable ${name}: it must be one line`);
  lines.add('lxc.environment', `${name}=${value.replaceAll('\t', ' ')}`);
}

/** Devices a guest that shares the host's user ids may open; an unprivileged one is held by its user namespace. */
const DEVICES = ['c 136:* rwm', 'c 1:3 rwm', 'c 1:5 rwm', 'c 1:7 rwm', 'c 1:8 rwm', 'c 1:9 rwm', 'c 5:0 rwm'].concat([
  ...['c 5:1 rwm', 'c 5:2 rwm', 'c 10:229 rwm', 'c 10:200 rwm'],
]);

function addIsolation(lines: ConfigLines, spec: StartSpec, host: HostFacts, files: ConfigFiles): void {
  const range = spec.privileged ? undefined : spec.idRange;
  if (!spec.privileged && range === undefined)
    throw errors.badRequest(`Instance "${spec.name}" is not privileged and has no id range`);
  if (range !== undefined) {
    lines.add('lxc.idmap', `u 0 ${range.base} ${range.size}`);
    lines.add('lxc.idmap', `g 0 ${range.base} ${range.size}`);
  } else {
    lines.add('lxc.cap.drop', 'sys_time sys_module sys_rawio mac_admin mac_override');
    addDevicePolicy(lines, host.cgroups.devices ?? 2, ['b *:* m', 'c *:* m', ...DEVICES]);
  }
  if (files.seccomp !== undefined) lines.add('lxc.seccomp.profile', files.seccomp);
  if (host.apparmor !== 'none') {
    lines.add('lxc.apparmor.profile', host.apparmor);
    if (host.apparmor === 'generated' && spec.nesting) lines.add('lxc.apparmor.allow_nesting', 1);
  }
}

function addDevicePolicy(lines: ConfigLines, version: 1 | 2, allowed: readonly string[]): void {
  const prefix = deviceKey(version);
  lines.add(`${prefix}.deny`, 'a');
  for (const rule of allowed) lines.add(`${prefix}.allow`, rule);
}

const deviceKey = (version: 1 | 2): string => (version === 1 ? 'lxc.cgroup.devices' : 'lxc.cgroup2.devices');

/** Kernel folders every guest sees where the host has them. */
const SHARED_FOLDERS = [
  'proc/sys/fs/binfmt_misc',
  'sys/fs/fuse/connections',
  'sys/fs/pstore',
  'sys/kernel/debug',
  'sys/kernel/security',
  'sys/kernel/tracing',
];

/** Files that would let a guest without a user namespace reach the host's memory or reset it. */
const MASKED_FILES = ['proc/kcore', 'proc/sysrq-trigger', 'proc/timer_list', 'proc/sched_debug'];

function addMounts(lines: ConfigLines, spec: StartSpec, host: HostFacts): void {
  const free = !spec.privileged || spec.nesting;
  lines.add('lxc.mount.auto', free ? 'proc:rw sys:rw cgroup:mixed' : 'proc:mixed sys:mixed cgroup:mixed');
  if (spec.privileged) lines.add('lxc.mount.entry', 'mqueue dev/mqueue mqueue rw,relatime,create=dir,optional 0 0');
  for (const file of ['dev/fuse', 'dev/net/tun'])
    lines.add('lxc.mount.entry', `/${file} ${file} none bind,create=file,optional 0 0`);
  for (const folder of SHARED_FOLDERS)
    lines.add('lxc.mount.entry', `/${folder} ${folder} none rbind,create=dir,optional 0 0`);
  if (spec.nesting) {
    // The kernel lets a nested user namespace mount its own proc and sys only while uncovered ones are in sight.
    lines.add('lxc.mount.entry', 'proc dev/.lxc/proc proc create=dir,optional 0 0');
    lines.add('lxc.mount.entry', 'sys dev/.lxc/sys sysfs create=dir,optional 0 0');
  } else if (spec.privileged) {
    for (const file of MASKED_FILES) lines.add('lxc.mount.entry', `/dev/null ${file} none bind,optional 0 0`);
  }
  if (host.lxcfs !== undefined) {
    const base = fstabField(host.lxcfs.path);
    for (const entry of host.lxcfs.entries)
      lines.add('lxc.mount.entry', `${base}/${entry} ${entry} none bind,optional 0 0`);
  }
}

function addLimits(lines: ConfigLines, spec: StartSpec, host: HostFacts): void {
  for (const { version, file, value } of limitSettings(spec.limits, host.cgroups))
    lines.add(`${version === 1 ? 'lxc.cgroup' : 'lxc.cgroup2'}.${file}`, value);
  for (const [name, value] of Object.entries(spec.limits.kernel)) {
    if (!/^[a-z]+$/.test(name)) throw errors.badRequest(`Invalid resource limit name ${JSON.stringify(name)}`);
    if (!/^(\d+|unlimited)(:(\d+|unlimited))?$/.test(value))
      throw errors.badRequest(`Invalid value of limits.kernel.${name}: ${JSON.stringify(value)}`);
    lines.add(`lxc.prlimit.${name}`, value);
  }
  for (const [name, value] of Object.entries(spec.sysctls ?? {})) {
    if (!/^[a-z0-9_][a-z0-9_.-]*$/i.test(name)) throw errors.badRequest(`Invalid sysctl name ${JSON.stringify(name)}`);
    lines.add(`lxc.sysctl.${name}`, value);
  }
}

const INTERFACE = /^[A-Za-z0-9_.-]{1,15}$/;

/** @throws bad-request when a name or address would not be one for the kernel. */
export function checkNic(nic: NicSpec): void {
  const names = { name: nic.name, link: nic.link, ...(nic.kind === 'veth' ? { hostName: nic.hostName } : {}) };
  for (const [field, value] of Object.entries(names))
    if (!INTERFACE.test(value) || value === '.' || value === '..')
      throw errors.badRequest(`Invalid ${field} ${JSON.stringify(value)} of nic "${nic.device}"`);
  if (nic.hwaddr !== '' && !/^([0-9a-f]{2}:){5}[0-9a-f]{2}$/i.test(nic.hwaddr))
    throw errors.badRequest(`Invalid hwaddr ${JSON.stringify(nic.hwaddr)} of nic "${nic.device}"`);
}

function addNic(lines: ConfigLines, nic: NicSpec, index: number): void {
  checkNic(nic);
  const add = (key: string, value: string | number) => lines.add(`lxc.net.${index}.${key}`, value);
  add('type', nic.kind);
  add('flags', 'up');
  add('link', nic.link);
  add('name', nic.name);
  if (nic.kind === 'veth') add('veth.pair', nic.hostName);
  if (nic.kind === 'macvlan') add('macvlan.mode', 'bridge');
  if (nic.kind === 'ipvlan') add('ipvlan.mode', 'l3s');
  if (nic.hwaddr !== '' && nic.kind !== 'ipvlan') add('hwaddr', nic.hwaddr);
  if (nic.mtu !== undefined) add('mtu', nic.mtu);
}

function mountEntry(mount: MountSpec): string {
  const target = relativeTarget(mount.target, mount.device);
  for (const option of mount.options)
    if (!/^[A-Za-z0-9_.:=+/-]+$/.test(option))
      throw errors.badRequest(`Invalid mount option ${JSON.stringify(option)} of device "${mount.device}"`);
  const options = [
    mount.recursive ? 'rbind' : 'bind',
    mount.readOnly ? 'ro' : undefined,
    mount.optional ? 'optional' : undefined,
    mount.kind === 'file' ? 'create=file' : 'create=dir',
    mount.shift ? 'idmap=container' : undefined,
    ...mount.options,
  ];
  const text = options.filter((option) => option !== undefined).join(',');
  return `${fstabField(mount.source)} ${fstabField(target)} none ${text} 0 0`;
}

/** liblxc resolves a relative target inside the guest's root. */
function relativeTarget(target: string, device: string): string {
  const parts = target.split('/').filter((part) => part !== '' && part !== '.');
  if (!target.startsWith('/') || parts.length === 0 || parts.includes('..'))
    throw errors.badRequest(`Invalid path ${JSON.stringify(target)} of device "${device}"`);
  return parts.join('/');
}

/** A field of a mount entry, whose separators are blanks. */
export function fstabField(text: string): string {
  if (hasControl(text.replaceAll('\t', ''))) throw errors.badRequest(`Invalid path ${JSON.stringify(text)}`);
  return text.replace(/[\\ \t]/g, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`);
}

function addUnixDevice(
  lines: ConfigLines,
  context: { spec: StartSpec; host: HostFacts; files: ConfigFiles },
  device: UnixDeviceSpec,
): void {
  const source = context.files.devices[device.device];
  if (source === undefined) throw errors.internal(`No device file was made for "${device.device}"`);
  const target = relativeTarget(device.target, device.device);
  lines.add('lxc.mount.entry', `${fstabField(source)} ${fstabField(target)} none bind,create=file 0 0`);
  if (context.spec.privileged) lines.add(`${deviceKey(context.host.cgroups.devices ?? 2)}.allow`, deviceRule(device));
}

/** Rule of the device cgroup that lets a guest open this device. */
export function deviceRule(device: UnixDeviceSpec): string {
  return `${device.kind === 'char' ? 'c' : 'b'} ${device.major}:${device.minor} rwm`;
}
