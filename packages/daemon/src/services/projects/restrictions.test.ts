import { describe, expect, it } from 'vitest';
import { isKeelsonError } from '../../core/errors.ts';
import type { CountedInstance } from './project-limits.ts';
import { checkRestrictions, isBlocked } from './restrictions.ts';

type Config = Record<string, string>;

const container: CountedInstance = {
  name: 'c1',
  type: 'container',
  config: {},
  devices: { root: { type: 'disk', pool: 'p', path: '/' }, eth0: { type: 'nic', network: 'br0' } },
};

/** The text of what is forbidden; undefined when everything is allowed. */
function verdict(
  project: Config,
  change: { config?: Config; devices?: Record<string, Config>; type?: 'virtual-machine' },
) {
  const devices = { ...container.devices, ...change.devices };
  try {
    checkRestrictions({ name: 'p1', config: { restricted: 'true', ...project } }, { ...container, ...change, devices });
    return undefined;
  } catch (error) {
    expect(isKeelsonError(error, 'unauthorized')).toBe(true);
    return error instanceof Error ? error.message : undefined;
  }
}

describe('a restricted project', () => {
  it('lets an ordinary container be', () => {
    expect(
      verdict({}, { config: { 'limits.cpu': '1', 'security.idmap.isolated': 'true', 'user.x': 'y' } }),
    ).toBeUndefined();
  });

  it.each<[Config, string, Config]>([
    [{ 'security.nesting': 'true' }, 'Container nesting is forbidden', { 'restricted.containers.nesting': 'allow' }],
    [
      { 'security.privileged': '1' },
      'Privileged containers are forbidden',
      { 'restricted.containers.privilege': 'allow' },
    ],
    [{ 'raw.lxc': 'a=b' }, 'Use of low-level config "raw.lxc"', { 'restricted.containers.lowlevel': 'allow' }],
    [{ 'raw.apparmor': 'x' }, 'Use of low-level config "raw.apparmor"', { 'restricted.containers.lowlevel': 'allow' }],
    [
      { 'linux.kernel_modules': 'x' },
      'low-level config "linux.kernel_modules"',
      { 'restricted.containers.lowlevel': 'allow' },
    ],
    ...['security.idmap.base', 'security.idmap.size', 'security.devlxd.images'].map((key): [Config, string, Config] => [
      { [key]: '65536' },
      `Use of low-level config "${key}"`,
      { 'restricted.containers.lowlevel': 'allow' },
    ]),
    [
      { 'security.syscalls.intercept.mknod': 'yes' },
      'syscall interception is forbidden',
      { 'restricted.containers.interception': 'allow' },
    ],
    [
      { 'security.syscalls.intercept.mount': 'on' },
      'syscall interception is forbidden',
      { 'restricted.containers.interception': 'full' },
    ],
    [
      { 'raw.idmap': 'both 1000 0' },
      'low-level "raw.idmap" element 0',
      { 'restricted.idmap.uid': '1000', 'restricted.idmap.gid': '5,900-1100' },
    ],
  ])('forbids config %o, and allows it when told so', (config, text, rule) => {
    expect(verdict({}, { config })).toContain(text);
    expect(verdict(rule, { config })).toBeUndefined();
    expect(() => checkRestrictions({ name: 'p1', config: {} }, { ...container, config })).not.toThrow();
  });

  it('names value, key, object and project', () => {
    expect(verdict({}, { config: { 'security.nesting': 'true' } })).toBe(
      'Invalid value "true" for config "security.nesting" on container "c1" of project "p1": Container nesting is forbidden',
    );
    expect(verdict({}, { devices: { x: { type: 'gpu' } } })).toBe(
      'Invalid device "x" on container "c1" of project "p1": GPU devices are forbidden',
    );
  });

  it('does not let "allow" open dangerous interceptions, nor values that are off', () => {
    const allow = { 'restricted.containers.interception': 'allow' };
    expect(verdict(allow, { config: { 'security.syscalls.intercept.mount': 'true' } })).toContain('forbidden');
    expect(verdict({}, { config: { 'security.nesting': 'false', 'raw.lxc': '' } })).toBeUndefined();
  });

  it('can demand isolated containers', () => {
    const isolated = { 'restricted.containers.privilege': 'isolated' };
    expect(verdict(isolated, {})).toContain('Non-isolated containers are forbidden');
    expect(verdict(isolated, { config: { 'security.idmap.isolated': 'true' } })).toBeUndefined();
  });

  it('judges virtual machines by their own keys', () => {
    const machine = { type: 'virtual-machine' as const };
    expect(verdict({}, { ...machine, config: { 'security.nesting': 'true' } })).toBeUndefined();
    expect(verdict({}, { ...machine, config: { 'raw.qemu': '-x' } })).toContain('Use of low-level config "raw.qemu"');
    const rule = { 'restricted.virtual-machines.lowlevel': 'allow' };
    expect(verdict(rule, { ...machine, config: { 'raw.qemu': '-x' } })).toBeUndefined();
  });

  it.each(['gpu', 'infiniband', 'pci', 'proxy', 'unix-block', 'unix-char', 'unix-hotplug', 'usb'])(
    'forbids %s devices unless allowed',
    (type) => {
      expect(verdict({}, { devices: { x: { type } } })).toContain('devices are forbidden');
      expect(verdict({ [`restricted.devices.${type}`]: 'allow' }, { devices: { x: { type } } })).toBeUndefined();
    },
  );

  it('forbids a device type it does not know', () => {
    expect(verdict({}, { devices: { x: { type: 'brand-new' } } })).toContain('"brand-new" are forbidden');
  });

  it('lets disks of pools through, and host paths only below those named', () => {
    const host = (source: string) => ({ devices: { x: { type: 'disk', source, path: '/mnt' } } });
    expect(verdict({}, { devices: { x: { type: 'disk', pool: 'p', source: 'v', path: '/mnt' } } })).toBeUndefined();
    expect(verdict({}, host('/etc'))).toContain('Attaching disks not backed by a pool is forbidden');
    const paths = { 'restricted.devices.disk': 'allow', 'restricted.devices.disk.paths': '/srv/a,/srv/b/' };
    expect(['/srv/a', '/srv/a/x', '/srv/b/x'].map((source) => verdict(paths, host(source)))).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    for (const source of ['/srv', '/srv/ab', '/srv/a/../c', '/etc', 'srv/a', '/srv/a/./x/../..']) {
      expect(verdict(paths, host(source))).toContain('not allowed');
    }
    expect(
      verdict({ 'restricted.devices.disk': 'block' }, { devices: { x: { type: 'disk', pool: 'p', path: '/m' } } }),
    ).toContain('forbidden');
    expect(verdict({ 'restricted.devices.disk': 'block' }, {})).toBeUndefined();
  });

  it('lets nics of managed networks through, and only those it may use', () => {
    const nic = (device: Config) => ({ devices: { x: { type: 'nic', ...device } } });
    expect(verdict({}, nic({ nictype: 'bridged', parent: 'br0' }))).toContain(
      'Only managed network devices are allowed',
    );
    expect(verdict({ 'restricted.devices.nic': 'allow' }, nic({ nictype: 'bridged', parent: 'br0' }))).toBeUndefined();
    expect(verdict({ 'restricted.devices.nic': 'block' }, {})).toContain('Network devices are forbidden');
    expect(verdict({ 'restricted.networks.access': 'br0, br1' }, nic({ network: 'br2' }))).toContain(
      'Network not allowed',
    );
    expect(verdict({ 'restricted.networks.access': 'br0, br1' }, nic({ network: 'br1' }))).toBeUndefined();
  });

  it.each(['both 999-1001 0', 'uid 1000', 'gid 1', 'all 1', 'both', 'uid -1 0', 'uid 5-4 0'])(
    'forbids the id map %s',
    (line) => {
      const rules = { 'restricted.idmap.uid': '1-10', 'restricted.idmap.gid': '1000' };
      expect(verdict(rules, { config: { 'raw.idmap': `uid 5 0\n${line}` } })).toContain('element 1');
    },
  );

  it('blocks snapshots and backups unless allowed', () => {
    expect([isBlocked({}, 'snapshots'), isBlocked({ restricted: 'true' }, 'snapshots')]).toEqual([false, true]);
    expect(isBlocked({ restricted: 'true', 'restricted.backups': 'allow' }, 'backups')).toBe(false);
  });
});
