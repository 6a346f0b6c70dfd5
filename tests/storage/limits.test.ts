import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { InstanceState } from '@keelson/api';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { blockDeviceOf } from '../../packages/daemon/src/host/block-device.ts';
import { cgroupVersions } from '../../packages/daemon/src/drivers/instance/lxc/host-facts.ts';
import { Cgroup, readCgroupLayout } from '../../packages/daemon/src/host/cgroup.ts';
import { InstanceWorld } from '../instances/world.ts';

describe('limits of disks', () => {
  let world: InstanceWorld;
  let version: 1 | 2 | undefined;

  beforeAll(async () => {
    world = await InstanceWorld.open({ network: false });
    await world.daemon.run('POST', '/1.0/storage-pools', { name: 'b', driver: 'btrfs', config: { size: '512MiB' } });
    version = cgroupVersions(readCgroupLayout()).blkio;
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  const inside = (name: string, script: string): Promise<string> => world.ok('exec', name, '--', 'sh', '-c', script);
  const at = (...parts: string[]) => join(world.daemon.stateDir, 'storage-pools', ...parts);

  /** What the kernel limits for the guest, as `device what value`. */
  const throttles = async (name: string): Promise<string[]> => {
    const { body } = await world.daemon.request<InstanceState>('GET', `/1.0/instances/${name}/state`);
    const groups = readFileSync(`/proc/${body.metadata.pid}/cgroup`, 'utf8');
    const path =
      /^\d+:(?:[^:]*,)?blkio(?:,[^:]*)?:\/(.*)$/m.exec(groups)?.[1] ?? /^0::\/(.*)$/m.exec(groups)?.[1] ?? '';
    const group = new Cgroup(readCgroupLayout(), path.replace(/\/init\.scope$/, ''));
    if (version === 2) return ((await group.read('io', 'io.max')) ?? '').split('\n').filter((line) => line !== '');
    const found: string[] = [];
    for (const what of ['read_bps', 'read_iops', 'write_bps', 'write_iops']) {
      const text = (await group.read('blkio', `blkio.throttle.${what}_device`)) ?? '';
      for (const line of text.split('\n').filter((one) => one !== '')) found.push(`${what} ${line}`);
    }
    return found.sort();
  };

  it.each(['p', 'b'])(
    'are on the block device below the root and change while the guest runs, pool %s',
    async (pool) => {
      const device = await blockDeviceOf(at(pool));
      if (pool === 'b') expect(device).toMatch(/^7:\d+$/);
      await world.ok('init', 'tiny', 'c1', '-s', pool);
      await world.ok('config', 'device', 'set', 'c1', 'root', 'limits.read=10MB', 'limits.write=20iops');
      await world.ok('start', 'c1');
      const first = {
        1: [`read_bps ${device} 10000000`, `write_iops ${device} 20`],
        2: [`${device} rbps=10000000 wbps=max riops=max wiops=20`],
      };
      if (version !== undefined && device !== undefined) expect(await throttles('c1')).toEqual(first[version]);
      await world.ok('config', 'device', 'set', 'c1', 'root', 'limits.max=5MiB');
      const both = {
        1: [`read_bps ${device} 5242880`, `write_bps ${device} 5242880`],
        2: [`${device} rbps=5242880 wbps=5242880 riops=max wiops=max`],
      };
      if (version !== undefined && device !== undefined) expect(await throttles('c1')).toEqual(both[version]);
      for (const key of ['limits.max', 'limits.read', 'limits.write'])
        await world.ok('config', 'device', 'unset', 'c1', 'root', key);
      expect(await throttles('c1')).toEqual([]);
      expect((await world.lxc('config', 'device', 'set', 'c1', 'root', 'limits.read=fast')).code).not.toBe(0);
      await world.ok('delete', '--force', 'c1');
    },
  );

  it('are on the device below a custom volume, and hold', async ({ skip }) => {
    if (version === undefined) skip('the host has no block I/O controller');
    await world.ok('storage', 'volume', 'create', 'b', 'data');
    await world.ok('init', 'tiny', 'c2', '-s', 'p');
    await world.ok(
      'config',
      'device',
      'add',
      'c2',
      'data',
      'disk',
      'pool=b',
      'source=data',
      'path=/data',
      'limits.read=4MiB',
    );
    await world.ok('start', 'c2');
    expect((await throttles('c2')).join()).toContain(String(await blockDeviceOf(at('b'))));
    await inside('c2', 'dd if=/dev/zero of=/data/file bs=1M count=16 2>/dev/null; sync');
    const time = async () => {
      const started = performance.now();
      await inside('c2', 'dd if=/data/file of=/dev/null bs=1M iflag=direct 2>/dev/null');
      return performance.now() - started;
    };
    expect(await time()).toBeGreaterThan(2500);
    await world.ok('config', 'device', 'unset', 'c2', 'data', 'limits.read');
    expect(await throttles('c2')).toEqual([]);
    expect(await inside('c2', 'ls /data')).toBe('file\n');
    await world.ok('delete', '--force', 'c2');
    await world.ok('storage', 'volume', 'delete', 'b', 'data');
  });
});

describe('sizes', () => {
  let world: InstanceWorld;

  beforeAll(async () => {
    world = await InstanceWorld.open({ network: false });
    await world.daemon.run('POST', '/1.0/storage-pools', {
      name: 'b',
      driver: 'btrfs',
      config: { size: '512MiB', 'volume.size': '40MiB' },
    });
  });
  afterAll(() => world?.[Symbol.asyncDispose]());
  const inside = (name: string, script: string): Promise<string> => world.ok('exec', name, '--', 'sh', '-c', script);

  it('hold inside the guest and keep what was there; they grow and shrink while it runs', async () => {
    await world.ok('init', 'tiny', 'c1', '-s', 'b', '-d', 'root,size=30MiB');
    await world.ok('start', 'c1');
    const fill = (mib: number) =>
      inside('c1', `dd if=/dev/zero of=/root/big bs=1M count=${mib} conv=fsync 2>&1 | grep -c "quota exceeded"; true`);
    await inside('c1', 'echo kept > /root/old; sync');
    expect(await fill(60)).toBe('1\n');
    expect(await inside('c1', 'rm /root/big; sync; cat /root/old')).toBe('kept\n');
    await world.ok('config', 'device', 'set', 'c1', 'root', 'size=100MiB');
    expect(await fill(60)).toBe('0\n');
    await inside('c1', 'sync');
    const refused = await world.lxc('config', 'device', 'set', 'c1', 'root', 'size=20MiB');
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toMatch(/in use/);
    await inside('c1', 'rm /root/big; sync');
    await world.ok('config', 'device', 'set', 'c1', 'root', 'size=20MiB');
    expect(await fill(60)).toBe('1\n');
    expect(await inside('c1', 'cat /root/old')).toBe('kept\n');
    await world.ok('delete', '--force', 'c1');
  });

  it('of volumes come from the pool unless they have their own', async () => {
    await world.ok('storage', 'volume', 'create', 'b', 'default');
    await world.ok('storage', 'volume', 'create', 'b', 'own', 'size=10MiB');
    await world.ok('init', 'tiny', 'c2', '-s', 'p');
    for (const name of ['default', 'own'])
      await world.ok('config', 'device', 'add', 'c2', name, 'disk', 'pool=b', `source=${name}`, `path=/${name}`);
    await world.ok('start', 'c2');
    const fits = (name: string, mib: number) =>
      inside(
        'c2',
        `dd if=/dev/zero of=/${name}/big bs=1M count=${mib} conv=fsync 2>&1 | grep -c "quota exceeded"; rm -f /${name}/big; sync; true`,
      );
    expect(await fits('default', 25)).toBe('0\n');
    expect(await fits('default', 80)).toBe('1\n');
    expect(await fits('own', 25)).toBe('1\n');
    await world.ok('storage', 'volume', 'set', 'b', 'own', 'size=60MiB');
    expect(await fits('own', 25)).toBe('0\n');
    await world.ok('delete', '--force', 'c2');
    for (const name of ['default', 'own']) await world.ok('storage', 'volume', 'delete', 'b', name);
  });
});
