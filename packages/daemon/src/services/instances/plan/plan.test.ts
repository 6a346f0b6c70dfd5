import { describe, expect, it } from 'vitest';
import { planBoot, planShutdown } from './boot-order.ts';
import { changedOf, keepProtected, planChange } from './changes.ts';
import { checkSupported, diffDevices, planMount, planUnixDevice, startOrder } from './devices.ts';
import { execEnvironment } from './exec-environment.ts';
import { expandConfig, expandDevices, rootDisk } from './expand.ts';
import { idMapText, parseIdMap, planIdMap } from './idmap.ts';
import { typeLimits } from './instance-types.ts';
import { planLimits } from './limits.ts';
import { checkInstanceName, generateName } from './names.ts';
import { nextSnapshotName } from './snapshot-names.ts';
import { generateHwaddr, settleNics, withoutVolatile } from './volatile.ts';

const HOST = { base: 100_000, size: 1_000_000 };
const ROOT = { type: 'disk', path: '/', pool: 'p' };
const entropy = { uuid: () => 'u', hex: (length: number) => 'abcdef0123456789'.repeat(4).slice(0, length) };

describe('expansion', () => {
  it('lets later profiles and the instance win, and sorts keys', () => {
    const profiles = [
      { config: { b: '1', a: '1' }, devices: { eth0: { type: 'nic' } } },
      { config: { b: '2' }, devices: { eth0: { type: 'nic', name: 'x' } } },
    ];
    expect(Object.entries(expandConfig({ c: '3' }, profiles))).toEqual([
      ['a', '1'],
      ['b', '2'],
      ['c', '3'],
    ]);
    expect(expandDevices({ eth0: { type: 'none' } }, profiles)).toEqual({ eth0: { type: 'none' } });
  });

  it('finds the one root disk', () => {
    expect(rootDisk({ root: ROOT, data: { ...ROOT, source: '/x' } }).name).toBe('root');
    expect(() => rootDisk({})).toThrow('No root device could be found');
    expect(() => rootDisk({ a: ROOT, b: ROOT })).toThrow('More than one root device found');
  });
});

describe('names', () => {
  it.each(['c1', 'a', 'A-b', 'x'.repeat(63)])('accepts %s', (name) => {
    expect(() => checkInstanceName(name)).not.toThrow();
  });
  it.each([
    ['', 'Name must be 1-63 characters long'],
    ['x'.repeat(64), 'Name must be 1-63 characters long'],
    ['9a', 'Name must not start with a number'],
    ['-a', 'Name must not start with "-" character'],
    ['a-', 'Name must not end with "-" character'],
    ['a_b', 'Name can only contain alphanumeric and hyphen characters'],
    ['a.b', 'Name can only contain alphanumeric and hyphen characters'],
    ['ä', 'Name can only contain alphanumeric and hyphen characters'],
  ])('refuses %s', (name, problem) => {
    expect(() => checkInstanceName(name)).toThrow(`Invalid instance name: ${problem}`);
  });
  it('generates one nobody has', () => {
    const first = generateName(
      () => false,
      () => 0,
    );
    expect(
      generateName(
        (name) => name === first,
        () => 0,
      ),
    ).toBe(`${first}-1`);
    expect(() => checkInstanceName(first)).not.toThrow();
  });
});

describe('id maps', () => {
  it('gives the whole range, none when privileged', () => {
    expect(planIdMap({ config: {}, host: HOST, taken: [] })).toEqual(HOST);
    expect(planIdMap({ config: { 'security.privileged': 'true' }, host: HOST, taken: [] })).toBeUndefined();
  });
  it('gives isolated instances ranges of their own', () => {
    const config = { 'security.idmap.isolated': 'true' };
    const first = planIdMap({ config, host: HOST, taken: [] });
    expect(first).toEqual({ base: 165_536, size: 65_536 });
    const second = planIdMap({ config, host: HOST, taken: first === undefined ? [] : [first] });
    expect(second).toEqual({ base: 231_072, size: 65_536 });
    expect(planIdMap({ config, host: HOST, taken: [], current: second })).toEqual(second);
    expect(
      planIdMap({
        config: { ...config, 'security.idmap.size': '1000', 'security.idmap.base': '200000' },
        host: HOST,
        taken: [],
      }),
    ).toEqual({ base: 200_000, size: 1000 });
  });
  it('fills gaps and says when there is none', () => {
    const config = { 'security.idmap.isolated': 'true', 'security.idmap.size': '100000' };
    const taken = [{ base: 300_000, size: 100_000 }];
    expect(planIdMap({ config, host: HOST, taken })).toEqual({ base: 165_536, size: 100_000 });
    expect(() => planIdMap({ config, host: { base: 0, size: 100_000 }, taken: [] })).toThrow(
      'Not enough uid/gid available',
    );
    expect(() => planIdMap({ config: { ...config, 'security.idmap.base': '5' }, host: HOST, taken })).toThrow(
      'not inside',
    );
  });
  it('writes maps as LXD does and reads them back', () => {
    expect(idMapText({ base: 100_000, size: 65_536 })).toBe(
      '[{"Isuid":true,"Isgid":false,"Hostid":100000,"Nsid":0,"Maprange":65536},{"Isuid":false,"Isgid":true,"Hostid":100000,"Nsid":0,"Maprange":65536}]',
    );
    expect(parseIdMap(idMapText(HOST))).toEqual(HOST);
    expect([undefined, '', '[]', 'x', '[{}]'].map(parseIdMap)).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });
});

describe('limits', () => {
  const host = { cpus: [0, 1, 2, 3], memory: 1000 };
  const plan = (config: Record<string, string>, cpuLoad = new Map<number, number>(), currentCpus?: number[]) =>
    planLimits({ config, host, cpuLoad, currentCpus });
  it('pins a count to the least loaded CPUs', () => {
    expect(
      plan(
        { 'limits.cpu': '2' },
        new Map([
          [0, 2],
          [2, 1],
        ]),
      ).cpus,
    ).toEqual([1, 3]);
    expect(plan({ 'limits.cpu': '2' }, new Map(), [2, 3]).cpus).toEqual([2, 3]);
    expect(plan({ 'limits.cpu': '99' }).cpus).toEqual([0, 1, 2, 3]);
    expect(plan({ 'limits.cpu': '1-2' }).cpus).toEqual([1, 2]);
    expect(plan({}).cpus).toBeUndefined();
    expect(() => plan({ 'limits.cpu': '8-9' })).toThrow('exists on this host');
    expect(() => plan({ 'limits.cpu': '0' })).toThrow('Invalid CPU limit syntax');
  });
  it('reads memory, processes, shares and quotas', () => {
    expect(plan({ 'limits.memory': '64MiB' }).memory).toBe(64 * 1024 ** 2);
    expect(plan({ 'limits.memory': '50%' }).memory).toBe(500);
    expect(plan({ 'limits.memory.enforce': 'soft', 'limits.memory.swap': 'false' })).toMatchObject({
      memoryEnforce: 'soft',
      memorySwap: false,
    });
    expect(plan({ 'limits.processes': '7' }).processes).toBe(7);
    expect(plan({ 'limits.cpu.allowance': '50%' }).cpuAllowance).toEqual({ percent: 50 });
    expect(plan({ 'limits.cpu.allowance': '25ms/100ms' }).cpuAllowance).toEqual({ quota: 25_000, period: 100_000 });
    expect(plan({ 'limits.kernel.nofile': '100', 'limits.kernel.core': '1:unlimited' }).kernel).toEqual({
      nofile: '100:100',
      core: '1:unlimited',
    });
  });
});

describe('volatile keys', () => {
  it('gives nics an address and a free name once', () => {
    const devices = { a: { type: 'nic', name: 'eth0' }, b: { type: 'nic' }, root: ROOT };
    const first = settleNics({}, {}, devices, entropy);
    expect(first).toEqual({
      'volatile.a.hwaddr': '00:16:3e:ab:cd:ef',
      'volatile.b.hwaddr': '00:16:3e:ab:cd:ef',
      'volatile.b.name': 'eth1',
    });
    expect(settleNics(first, devices, devices, entropy)).toEqual(first);
    expect(settleNics(first, devices, { a: devices.a }, entropy)).toEqual({ 'volatile.a.hwaddr': '00:16:3e:ab:cd:ef' });
    expect(settleNics(first, devices, { a: { ...devices.a, hwaddr: 'x' } }, entropy)).toEqual({});
  });
  it('makes addresses of guests', () => expect(generateHwaddr(entropy)).toBe('00:16:3e:ab:cd:ef'));
  it('leaves most behind when copied', () => {
    expect(withoutVolatile({ 'user.a': '1', 'volatile.uuid': 'u', 'volatile.base_image': 'f' })).toEqual({
      'user.a': '1',
      'volatile.base_image': 'f',
    });
  });
});

describe('devices', () => {
  it('starts nics first and mounts parents before children', () => {
    const devices = {
      z: { type: 'disk', path: '/a/b' },
      y: { type: 'disk', path: '/a' },
      c: { type: 'unix-char' },
      n: { type: 'nic' },
    };
    expect(startOrder(devices).map(([name]) => name)).toEqual(['n', 'y', 'z', 'c']);
  });
  it('plans mounts', () => {
    const device = {
      type: 'disk',
      path: 'mnt',
      readonly: 'true',
      required: 'false',
      'raw.mount.options': 'noexec,nodev',
    };
    expect(planMount('d', device, { path: '/src', shifted: true })).toEqual({
      device: 'd',
      source: '/src',
      target: '/mnt',
      readOnly: true,
      optional: true,
      recursive: false,
      shift: true,
      options: ['noexec', 'nodev'],
    }); // prettier-ignore
  });
  it('plans unix devices', () => {
    const node = { kind: 'char' as const, major: 1, minor: 3, mode: 0o666 };
    expect(planUnixDevice('d', { type: 'unix-char', path: '/dev/null' }, node)).toMatchObject({
      kind: 'char',
      major: 1,
      minor: 3,
      mode: 0o660,
      target: '/dev/null',
    });
    expect(
      planUnixDevice('d', { type: 'unix-char', path: '/dev/x', major: '5', minor: '6', mode: '0600' }, undefined),
    ).toMatchObject({ major: 5, minor: 6, mode: 0o600 });
    expect(planUnixDevice('d', { type: 'unix-char', path: '/dev/x', required: 'false' }, undefined)).toBeUndefined();
    expect(() => planUnixDevice('d', { type: 'unix-char', path: '/dev/x' }, undefined)).toThrow(
      "Required device path doesn't exist",
    );
    expect(() => planUnixDevice('d', { type: 'unix-block', path: '/dev/null' }, node)).toThrow('is not a block device');
  });
  it('refuses what it cannot do', () => expect(() => checkSupported('g', { type: 'gpu' })).toThrow('not supported'));
  it('finds differences', () => {
    const before = { a: { type: 'nic' }, b: { type: 'disk', path: '/x' }, c: { type: 'disk' } };
    const after = { b: { type: 'disk', path: '/y' }, c: { type: 'nic' }, d: { type: 'none' } };
    expect(diffDevices(before, after)).toEqual({ removed: ['a', 'c'], added: ['c', 'd'], updated: ['b'] });
  });
});

describe('changes', () => {
  const of = (config: Record<string, string>, root: Record<string, string> = ROOT) => ({ config, devices: { root } });
  it('lists changed keys and what follows', () => {
    expect(changedOf({ a: '1', b: '' }, { a: '2' })).toEqual(['a']);
    expect(planChange(of({}), of({ 'limits.memory': '1GiB', 'security.privileged': 'true' }))).toMatchObject({
      limits: true,
      idMap: true,
      rootSize: null,
    });
    expect(planChange(of({}), of({}, { ...ROOT, size: '5GiB' })).rootSize).toBe('5GiB');
  });
  it('never moves or drops the root disk', () => {
    expect(() => planChange(of({}), of({}, { ...ROOT, pool: 'q' }))).toThrow(
      'Cannot update root disk device pool name to "q"',
    );
    expect(() => planChange(of({}), { config: {}, devices: {} })).toThrow('No root device could be found');
  });
  it('keeps id map keys from users', () => {
    expect(() => keepProtected({ 'volatile.idmap.base': '0' }, {})).toThrow("can't be deleted");
    expect(keepProtected({ 'volatile.idmap.base': '0' }, { 'volatile.idmap.base': '1', a: 'b' })).toEqual({
      'volatile.idmap.base': '0',
      a: 'b',
    });
    expect(keepProtected({}, { 'volatile.idmap.next': 'x' })).toEqual({});
  });
});

describe('boot', () => {
  const instance = (name: string, config: Record<string, string>, lastPower?: string) => ({
    name,
    config,
    lastPower,
    running: false,
  });
  it('starts by autostart, priority and last state', () => {
    const all = [
      instance('a', {}, 'RUNNING'),
      instance('b', { 'boot.autostart': 'true', 'boot.autostart.delay': '2' }),
      instance('c', { 'boot.autostart': 'true', 'boot.autostart.priority': '5' }),
      instance('d', { 'boot.autostart': 'false' }, 'RUNNING'),
      { ...instance('e', { 'boot.autostart': 'true' }), running: true },
    ];
    expect(planBoot(all, true).map((step) => [step.instance.name, step.delay])).toEqual([
      ['c', 0],
      ['a', 0],
      ['b', 2000],
    ]);
    expect(planBoot(all, false).map((step) => step.instance.name)).toEqual(['c', 'b']);
  });
  it('shuts down by priority', () => {
    const all = [instance('a', {}), instance('b', { 'boot.stop.priority': '1', 'boot.host_shutdown_timeout': '5' })];
    expect(planShutdown(all).map((group) => group.map((step) => [step.instance.name, step.timeout]))).toEqual([
      [['b', 5000]],
      [['a', 30_000]],
    ]);
  });
});

describe('commands and snapshots', () => {
  it('builds the environment', () => {
    expect(execEnvironment({ 'environment.A': '1', 'user.x': 'y' }, { B: '2', HOME: '/x' }, 0)).toEqual({
      HOME: '/x',
      USER: 'root',
      LANG: 'C.UTF-8',
      PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      A: '1',
      B: '2',
    }); // prettier-ignore
    expect(execEnvironment({}, {}, 1000)).not.toHaveProperty('HOME');
  });
  it('names snapshots', () => {
    const now = new Date('2026-11-22T04:05:06Z');
    expect(nextSnapshotName(undefined, ['snap0', 'snap7', 'other'], now)).toBe('snap8');
    expect(nextSnapshotName('x-%d-y', [], now)).toBe('x-0-y');
    expect(nextSnapshotName("{{ creation_date|date:'2006-01-02' }}", [], now)).toBe('2026-11-22');
    expect(nextSnapshotName('{{ creation_date|date:"2006-01-02" }}', ['2026-11-22'], now)).toBe('2026-11-22-0');
    expect(nextSnapshotName('{{ include "/etc/passwd" }}', [], now)).toBe('{{-include-"-etc-passwd"-}}');
  });
});

describe('instance types', () => {
  it('become limits', () => {
    expect(typeLimits('')).toEqual({});
    expect(typeLimits('c2-m0.5')).toEqual({ 'limits.cpu': '2', 'limits.memory': '512MiB' });
    expect(typeLimits('c1')).toEqual({ 'limits.cpu': '1' });
    expect(() => typeLimits('t2.micro')).toThrow("Provided instance type doesn't exist: t2.micro");
    expect(() => typeLimits('-')).toThrow("doesn't exist");
  });
});
