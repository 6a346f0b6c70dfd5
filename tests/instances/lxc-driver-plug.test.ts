import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { command, named, subnets, type TestSubnet, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { MountSpec, NicSpec, UnixDeviceSpec } from '../../packages/daemon/src/drivers/instance/contract.ts';
import { readCgroupLayout, Cgroup } from '../../packages/daemon/src/host/cgroup.ts';
import { LxcFiles } from '../../packages/daemon/src/drivers/instance/lxc/files.ts';
import { noLimits } from '../../packages/daemon/src/drivers/instance/lxc/no-limits.test-data.ts';
import { host, LxcHarness, ref } from './lxc-harness.ts';

describe.skipIf(!host.ok)(named('lxc driver: devices, limits and counters', host), () => {
  let lxc: LxcHarness;
  let subnet: TestSubnet;
  beforeAll(async () => {
    lxc = await LxcHarness.create();
    subnet = subnets.take();
    await command('ip', ['link', 'add', subnet.bridge, 'type', 'bridge']);
    await command('ip', ['link', 'set', subnet.bridge, 'up']);
  });
  afterAll(async () => {
    await lxc[Symbol.asyncDispose]();
    await subnet[Symbol.asyncDispose]();
  });

  const nic = (device: string, hwaddr: string): NicSpec => ({
    ...{ device, name: device, kind: 'veth', link: subnet.bridge, hostName: `${subnet.bridge}${device}`, hwaddr },
    mtu: 1400,
  });
  const mount = (source: string, target: string, changes: Partial<MountSpec> = {}): MountSpec => ({
    ...{ device: 'd1', source, target, readOnly: false, optional: false, recursive: false, shift: false, options: [] },
    ...changes,
  });
  const sh = async (name: string, script: string): Promise<string> =>
    (await lxc.exec(name, ['sh', '-c', script])).stdout.trim();

  it('plugs a nic at the start and another one later', async () => {
    const first = nic('eth0', '00:16:3e:00:00:01');
    const second = nic('eth1', '00:16:3e:00:00:02');
    await lxc.driver.start(lxc.spec('net', { nics: [first] }));
    await lxc.driver.attachNic(ref('net'), second);
    await sh('net', `ip link set eth1 up; ip addr add ${subnet.prefix}.9/24 dev eth1; ip addr add fd42::9/64 dev eth1`);
    const network = (await lxc.driver.metrics('net'))?.network;
    expect(Object.keys(network ?? {}).sort()).toEqual(['eth0', 'eth1', 'lo']);
    expect(network?.['eth0']).toMatchObject({ hwaddr: first.hwaddr, hostName: first.hostName, mtu: 1400, state: 'up' });
    expect(network?.['eth1']).toMatchObject({
      ...{ hwaddr: second.hwaddr, hostName: second.hostName, mtu: 1400, state: 'up', type: 'broadcast' },
      addresses: expect.arrayContaining([
        { family: 'inet', address: `${subnet.prefix}.9`, netmask: '24', scope: 'global' },
        { family: 'inet6', address: 'fd42::9', netmask: '64', scope: 'global' },
      ]),
    });
    expect(network?.['lo']).toMatchObject({ type: 'loopback', hwaddr: '' });
    expect(readFileSync(`/sys/class/net/${second.hostName}/master/uevent`, 'utf8')).toContain(subnet.bridge);
    await lxc.driver.detachNic(ref('net'), second);
    expect(await sh('net', 'ls /sys/class/net')).not.toContain('eth1');
    await expect(lxc.driver.attachNic(ref('net'), { ...second, name: 'eth0' })).rejects.toThrow('Cannot plug nic');
    expect(existsSync(`/sys/class/net/${second.hostName}`)).toBe(false);
    await lxc.driver.kill(ref('net'));
    expect(existsSync(`/sys/class/net/${first.hostName}`)).toBe(false);
  });

  it('takes only a host name that is free, or that a crash left behind', async () => {
    const taken = nic('eth5', '00:16:3e:00:00:05');
    await expect(lxc.driver.start(lxc.spec('name', { nics: [{ ...taken, hostName: subnet.bridge }] }))).rejects.toThrow(
      `"${subnet.bridge}" is in use`,
    );
    expect(existsSync(`/sys/class/net/${subnet.bridge}`)).toBe(true);
    await command('ip', ['link', 'add', taken.hostName, 'type', 'veth', 'peer', 'name', `${taken.hostName}p`]);
    await lxc.driver.start(lxc.spec('name', { nics: [taken] }));
    await lxc.driver.start(lxc.spec('other'));
    await expect(lxc.driver.attachNic(ref('other'), taken)).rejects.toThrow('is in use');
    expect(await sh('name', 'ls /sys/class/net')).toContain('eth5');
    await lxc.driver.kill(ref('other'));
    await lxc.driver.kill(ref('name'));
  });

  it('mounts folders and files at the start', async () => {
    const source = join(lxc.state, "share #1 \\ it's");
    mkdirSync(source);
    writeFileSync(join(source, 'file'), 'host\n');
    const mounts = [
      mount(source, '/mnt/a b/c', { readOnly: true }),
      mount(join(source, 'file'), '/etc/one-file', { device: 'd2' }),
      mount(source, '/mnt/shifted', { device: 'd3', shift: true }),
      mount('/no/such/source', '/mnt/none', { device: 'd4', optional: true }),
    ];
    await lxc.driver.start(lxc.spec('mnt', { mounts }));
    expect(await sh('mnt', 'cat "/mnt/a b/c/file" /etc/one-file')).toBe('host\nhost');
    expect((await lxc.exec('mnt', ['touch', '/mnt/a b/c/x'])).stderr).toContain('Read-only');
    expect(await sh('mnt', 'touch /mnt/shifted/new; stat -c %u:%g /mnt/shifted/new /mnt/shifted/file')).toBe(
      '0:0\n0:0',
    );
    await lxc.driver.kill(ref('mnt'));
  });

  it('mounts into a running guest, and again after its reboot', async () => {
    const source = join(lxc.state, 'live');
    mkdirSync(source);
    writeFileSync(join(source, 'file'), 'live\n');
    await lxc.driver.start(lxc.spec('hot'));
    await lxc.driver.attachMount(ref('hot'), mount(source, '/srv/new/deep', { shift: true }));
    await lxc.driver.attachMount(ref('hot'), mount(source, '/srv/ro', { device: 'd2', readOnly: true }));
    expect(await sh('hot', 'cat /srv/new/deep/file; stat -c %u /srv /srv/new /srv/new/deep/file')).toBe(
      'live\n0\n0\n0',
    );
    expect((await lxc.exec('hot', ['touch', '/srv/ro/x'])).stderr).toContain('Read-only');
    expect((await lxc.exec('hot', ['touch', '/srv/new/deep/x'])).code).toBe(0);
    await lxc.driver.detachMount(ref('hot'), mount(source, '/srv/ro', { device: 'd2' }));
    await lxc.exec('hot', ['reboot']);
    await until('the reboot', () => lxc.events.some((event) => event.key === 'hot' && event.type === 'rebooted'));
    expect(await sh('hot', 'cat /srv/new/deep/file; ls /srv/ro')).toBe('live');
    await lxc.driver.detachMount(ref('hot'), mount(source, '/srv/new/deep'));
    expect(await sh('hot', 'ls /srv/new/deep')).toBe('');
    await lxc.driver.detachMount(ref('hot'), mount(source, '/srv/new/deep'));
    await lxc.driver.kill(ref('hot'));
  });

  it('does not follow a link of the guest out of its root', async () => {
    const source = join(lxc.state, 'inside');
    mkdirSync(source);
    await lxc.driver.start(lxc.spec('link'));
    const outside = join(lxc.state, 'outside');
    mkdirSync(outside);
    await sh('link', `ln -s ${outside} /srv-link; ln -s /proc/1/root/../../.. /up`);
    await lxc.driver.attachMount(ref('link'), mount(source, '/srv-link/x')).catch(() => undefined);
    await lxc.driver.attachMount(ref('link'), mount(source, '/up/x')).catch(() => undefined);
    expect(existsSync(join(outside, 'x'))).toBe(false);
    expect(existsSync('/x')).toBe(false);
    await lxc.driver.kill(ref('link'));
  });

  it('gives unix devices, at the start and later', async () => {
    const device = (name: string, target: string): UnixDeviceSpec => ({
      ...{ device: name, kind: 'char', target, major: 1, minor: 5, mode: 0o640, uid: 5, gid: 6 },
    });
    for (const privileged of [false, true]) {
      const name = privileged ? 'devp' : 'dev';
      const changes = { unixDevices: [device('u1', '/dev/my-zero')], privileged };
      await lxc.driver.start(lxc.spec(name, privileged ? { ...changes, idRange: undefined } : changes));
      await lxc.driver.attachUnixDevice(ref(name), device('u2', '/dev/later'));
      const test = 'stat -c "%F %a %u:%g" /dev/my-zero /dev/later; head -c1 /dev/later | od -An -tx1';
      expect(await sh(name, test)).toBe('character special file 640 5:6\ncharacter special file 640 5:6\n 00');
      await lxc.driver.detachUnixDevice(ref(name), device('u2', '/dev/later'));
      expect(await sh(name, 'ls /dev/later 2>&1')).toContain('No such file');
      await lxc.driver.kill(ref(name));
    }
  });

  it('applies limits at the start and live', async () => {
    const limits = {
      ...noLimits,
      ...{ memory: 64 * 1024 * 1024, processes: 50, cpus: [0], cpuAllowance: { percent: 50 }, cpuPriority: 5 },
      kernel: { nofile: '1000:2000' },
    };
    await lxc.driver.start(lxc.spec('lim', { limits, sysctls: { 'net.ipv4.ip_forward': '1' } }));
    const payload = new Cgroup(readCgroupLayout(), new LxcFiles(lxc.lxcPath).payload('lim'));
    const v1 = payload.version('memory') === 1;
    const memory = () => payload.readNumber('memory', v1 ? 'memory.limit_in_bytes' : 'memory.max');
    const weight = () => payload.readNumber('cpu', v1 ? 'cpu.shares' : 'cpu.weight');
    expect(await memory()).toBe(limits.memory);
    expect(await weight()).toBe(v1 ? 507 : 45);
    expect(await payload.readNumber('pids', 'pids.max')).toBe(50);
    expect((await payload.read('cpuset', 'cpuset.cpus'))?.trim()).toBe('0');
    expect(await sh('lim', 'ulimit -Sn; ulimit -Hn; cat /proc/sys/net/ipv4/ip_forward')).toBe('1000\n2000\n1');
    await lxc.driver.updateLimits(ref('lim'), { ...limits, memory: 128 * 1024 * 1024, processes: undefined });
    expect(await memory()).toBe(128 * 1024 * 1024);
    expect((await payload.read('pids', 'pids.max'))?.trim()).toBe('max');
    await lxc.driver.updateLimits(ref('lim'), { ...noLimits, memory: 32 * 1024 * 1024 });
    expect(await memory()).toBe(32 * 1024 * 1024);
    await lxc.driver.updateLimits(ref('lim'), noLimits);
    expect((await memory()) ?? Number.MAX_SAFE_INTEGER).toBeGreaterThan(2 ** 50);
    expect(await weight()).toBe(v1 ? 1024 : 100);
    await lxc.driver.kill(ref('lim'));
  });
});
