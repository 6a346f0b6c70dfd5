import { describe, expect, it } from 'vitest';
import { isKeelsonError } from '../../../core/errors.ts';
import type { MountSpec, NicSpec, StartSpec, UnixDeviceSpec } from '../contract.ts';
import { type ConfigFiles, fstabField, type HostFacts, lxcConfig } from './config.ts';
import { noLimits as limits } from './no-limits.test-data.ts';

const spec = (changes: Partial<StartSpec> = {}): StartSpec => ({
  key: 'c1',
  project: 'default',
  name: 'c1',
  rootfs: { path: '/pool/c1/rootfs', ids: 'shifted', readOnly: false },
  idRange: { base: 1_000_000, size: 65_536 },
  hostname: 'c1',
  architecture: 'x86_64',
  environment: {},
  nics: [],
  mounts: [],
  unixDevices: [],
  limits,
  nesting: false,
  privileged: false,
  security: {},
  rawLxc: '',
  logDir: '/log',
  ...changes,
});

const host: HostFacts = {
  cgroups: { cpu: 1, cpuset: 1, memory: 1, pids: 1, blkio: 1, devices: 1 },
  apparmor: 'none',
  lxcfs: undefined,
};

const files: ConfigFiles = {
  log: '/log/lxc.log',
  console: '/log/console.log',
  seccomp: '/lxc/c1/seccomp',
  postStopHook: '/lxc/.keelson/post-stop',
  devices: { u1: '/lxc/c1/devices/unix.u1' },
  cgroup: { payload: 'k.payload.c1', monitor: 'k.monitor.c1' },
};

const lines = (changes: Partial<StartSpec> = {}, facts: HostFacts = host): string[] =>
  lxcConfig(spec(changes), facts, files).trimEnd().split('\n');

const nic: NicSpec = {
  device: 'eth0',
  name: 'eth0',
  kind: 'veth',
  link: 'br0',
  hostName: 'veth1234',
  hwaddr: '00:16:3e:00:00:01',
  mtu: undefined,
};

const mount: MountSpec = {
  device: 'd1',
  source: '/srv/data',
  target: '/mnt/data',
  readOnly: false,
  optional: false,
  recursive: false,
  shift: false,
  options: [],
};

const unixDevice: UnixDeviceSpec = {
  device: 'u1',
  kind: 'char',
  target: '/dev/thing',
  major: 10,
  minor: 3,
  mode: 0o660,
  uid: 0,
  gid: 0,
};

describe('lxcConfig', () => {
  it('is complete and includes no other file', () => {
    const text = lines();
    expect(text).toEqual(
      expect.arrayContaining([
        'lxc.rootfs.path = dir:/pool/c1/rootfs',
        'lxc.idmap = u 0 1000000 65536',
        'lxc.idmap = g 0 1000000 65536',
        'lxc.mount.auto = proc:rw sys:rw cgroup:mixed',
        'lxc.seccomp.profile = /lxc/c1/seccomp',
        'lxc.net.0.type = empty',
        "lxc.hook.post-stop = '/lxc/.keelson/post-stop' stop",
        'lxc.cgroup.dir.container = k.payload.c1',
      ]),
    );
    expect(text.some((line) => line.startsWith('lxc.include') || line.startsWith('lxc.cap.drop'))).toBe(false);
    expect(text.some((line) => line.startsWith('lxc.apparmor'))).toBe(false);
  });

  it('lets liblxc map a root with plain ids', () => {
    const path = '/pool/c1';
    expect(lines({ rootfs: { path, ids: 'plain', readOnly: true } })).toContain(
      'lxc.rootfs.options = idmap=container,ro',
    );
    const privileged = { privileged: true, idRange: undefined };
    expect(
      lines({ rootfs: { path, ids: 'plain', readOnly: false }, ...privileged }).some((line) =>
        line.startsWith('lxc.rootfs.options'),
      ),
    ).toBe(false);
  });

  it('takes rights from a privileged guest', () => {
    const text = lines({ privileged: true });
    expect(text).toContain('lxc.cap.drop = sys_time sys_module sys_rawio mac_admin mac_override');
    expect(text).toContain('lxc.cgroup.devices.deny = a');
    expect(text).toContain('lxc.mount.auto = proc:mixed sys:mixed cgroup:mixed');
    expect(text).toContain('lxc.mount.entry = /dev/null proc/kcore none bind,optional 0 0');
    expect(text.some((line) => line.startsWith('lxc.idmap'))).toBe(false);
    const v2 = lines({ privileged: true }, { ...host, cgroups: { devices: 2 } });
    expect(v2).toContain('lxc.cgroup2.devices.deny = a');
    expect(() => lines({ idRange: undefined })).toThrow('no id range');
  });

  it('shows uncovered proc and sys to a nesting guest', () => {
    expect(lines({ nesting: true })).toContain('lxc.mount.entry = proc dev/.lxc/proc proc create=dir,optional 0 0');
    const text = lines({ nesting: true }, { ...host, apparmor: 'generated' });
    expect(text).toContain('lxc.apparmor.allow_nesting = 1');
  });

  it('mounts what lxcfs serves', () => {
    const facts = { ...host, lxcfs: { path: '/var/lib/lxcfs', entries: ['proc/meminfo'] } };
    expect(lines({}, facts)).toContain(
      'lxc.mount.entry = /var/lib/lxcfs/proc/meminfo proc/meminfo none bind,optional 0 0',
    );
  });

  it('plugs nics', () => {
    expect(
      lines({
        nics: [
          { ...nic, mtu: 1400 },
          { ...nic, kind: 'macvlan', link: 'eth7', name: 'eth1' },
        ],
      }),
    ).toEqual(
      expect.arrayContaining([
        ...['lxc.net.0.type = veth', 'lxc.net.0.link = br0', 'lxc.net.0.veth.pair = veth1234', 'lxc.net.0.mtu = 1400'],
        ...['lxc.net.1.type = macvlan', 'lxc.net.1.macvlan.mode = bridge', 'lxc.net.1.name = eth1'],
      ]),
    );
  });

  it('mounts devices with every special character in their paths', () => {
    const source = '/srv/a b\\c\td\'e"f#g=h';
    const text = lines({ mounts: [{ ...mount, source, readOnly: true, optional: true, shift: true, kind: 'file' }] });
    expect(text).toContain(
      'lxc.mount.entry = /srv/a\\040b\\134c\\011d\'e"f#g=h mnt/data none bind,ro,optional,create=file,idmap=container 0 0',
    );
    expect(lines({ unixDevices: [unixDevice] })).toContain(
      'lxc.mount.entry = /lxc/c1/devices/unix.u1 dev/thing none bind,create=file 0 0',
    );
    expect(lines({ unixDevices: [unixDevice], privileged: true })).toContain('lxc.cgroup.devices.allow = c 10:3 rwm');
  });

  it('writes limits for the hierarchy that drives them', () => {
    const changed = { ...limits, processes: 7, kernel: { nofile: '10:20' } };
    expect(lines({ limits: changed, sysctls: { 'net.ipv4.ip_forward': '1' } })).toEqual(
      expect.arrayContaining([
        ...['lxc.cgroup.pids.max = 7', 'lxc.prlimit.nofile = 10:20', 'lxc.sysctl.net.ipv4.ip_forward = 1'],
      ]),
    );
    expect(lines({ limits: changed }, { ...host, cgroups: { pids: 2 } })).toContain('lxc.cgroup2.pids.max = 7');
  });

  it('keeps quotes and equal signs of environment values, and appends raw.lxc last', () => {
    const text = lines({ environment: { A: '"x"=\'y\' # z' }, rawLxc: '# note\nlxc.init.cmd = /bin/sh\n' });
    expect(text).toContain('lxc.environment = A="x"=\'y\' # z');
    expect(text.at(-1)).toBe('lxc.init.cmd = /bin/sh');
  });

  const evil = 'x\nlxc.hook.pre-start = /bin/evil';
  const injections: Record<string, Partial<StartSpec>> = {
    'environment value': { environment: { A: evil } },
    'environment value with a return': { environment: { A: 'a\rb' } },
    'environment name': { environment: { [evil]: 'v' } },
    'environment name with an equal sign': { environment: { 'A=B': 'v' } },
    'host name': { hostname: evil },
    'host name with a blank': { hostname: 'a b' },
    'root path': { rootfs: { path: evil, ids: 'plain', readOnly: false } },
    'mount source': { mounts: [{ ...mount, source: `/${evil}` }] },
    'mount target': { mounts: [{ ...mount, target: `/${evil}` }] },
    'mount target with dots': { mounts: [{ ...mount, target: '/a/../../etc' }] },
    'mount target that is relative': { mounts: [{ ...mount, target: 'etc' }] },
    'mount target that is the root': { mounts: [{ ...mount, target: '//' }] },
    'mount option': { mounts: [{ ...mount, options: [evil] }] },
    'mount option with a blank': { mounts: [{ ...mount, options: ['ro 0 0'] }] },
    'nic name': { nics: [{ ...nic, name: evil }] },
    'nic link': { nics: [{ ...nic, link: 'a b' }] },
    'nic host name': { nics: [{ ...nic, hostName: 'much-too-long-name' }] },
    'nic address': { nics: [{ ...nic, hwaddr: evil }] },
    'unix device target': { unixDevices: [{ ...unixDevice, target: `/dev/${evil}` }] },
    'resource limit name': { limits: { ...limits, kernel: { [`nofile = 1\nlxc.x`]: '1' } } },
    'resource limit value': { limits: { ...limits, kernel: { nofile: evil } } },
    'sysctl name': { sysctls: { [evil]: '1' } },
    'sysctl value': { sysctls: { 'net.x': evil } },
    'disk limit': { limits: { ...limits, disks: [{ device: evil, readBps: 1 }] } },
    'raw.lxc key': { rawLxc: 'lxc.log.file = /etc/passwd' },
    'raw.lxc value': { rawLxc: 'lxc.init.cmd = /bin/sh\rlxc.log.file = x' },
  };
  it.each(Object.entries(injections))('refuses a bad %s', (_name, changes) => {
    let error: unknown;
    try {
      lines(changes);
    } catch (thrown) {
      error = thrown;
    }
    expect(isKeelsonError(error, 'bad-request')).toBe(true);
  });

  it('refuses a state folder that the hook line cannot hold', () => {
    expect(() => lxcConfig(spec(), host, { ...files, postStopHook: "/a'b/post-stop" })).toThrow('quote');
  });
});

describe('fstabField', () => {
  it('escapes what separates fields', () => {
    expect(fstabField('/a b\tc\\d')).toBe('/a\\040b\\011c\\134d');
    expect(() => fstabField('/a\nb')).toThrow('Invalid path');
  });
});
