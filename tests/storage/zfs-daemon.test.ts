import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Server, StoragePool } from '@keelson/api';
import { command, named, startDaemon, type TestDaemon, tinyImage, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { driverNamed } from './drivers.ts';

const { supported, reason = '', capabilities } = await driverNamed('zfs').probe();
const GIB = 1024 ** 3;

describe.skipIf(!supported)(named('a daemon with a zfs pool', { ok: supported, reason }), () => {
  let daemon: TestDaemon;
  const zpool = `keelson-daemon-${process.pid}`;

  beforeAll(async () => {
    daemon = await startDaemon({ readyTimeoutMs: 300_000 });
  });
  afterAll(async () => {
    await daemon?.[Symbol.asyncDispose]();
    await command('zpool', ['destroy', '-f', zpool], { anyExit: true });
  });

  const lxc = (...args: string[]) =>
    command('lxc', args, { env: { LXD_DIR: daemon.stateDir }, anyExit: true, timeoutMs: 300_000 });
  const ok = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await lxc(...args);
    if (code !== 0) throw new Error(`lxc ${args.join(' ')}: ${code} ${stderr}\n${daemon.logs.slice(-4000)}`);
    return stdout.trim();
  };
  const sh = (instance: string, script: string) => ok('exec', instance, '--', 'sh', '-c', script);
  const datasets = async (below = '') =>
    (await command('zfs', ['list', '-Hr', '-o', 'name', `${zpool}${below}`])).stdout.trim().split('\n');
  const pool = async () => (await daemon.request<StoragePool>('GET', '/1.0/storage-pools/z')).body.metadata;
  const zpools = async () => (await command('zpool', ['list', '-H', '-o', 'name'])).stdout;

  it('makes the zpool and says so', async () => {
    const { body } = await daemon.request<Server>('GET', '/1.0');
    const driver = body.metadata.environment.storage_supported_drivers.find(({ Name }) => Name === 'zfs');
    expect(driver).toMatchObject({ Remote: false, Version: expect.stringMatching(/^\d+\.\d+\.\d+/) });
    await ok('storage', 'create', 'z', 'zfs', 'size=1GiB', `zfs.pool_name=${zpool}`);
    expect((await pool()).config).toEqual({
      size: '1GiB',
      source: join(daemon.stateDir, 'disks/z.img'),
      'zfs.pool_name': zpool,
    });
    const { metadata } = (await daemon.request<{ space: { total: number } }>('GET', '/1.0/storage-pools/z/resources'))
      .body;
    expect(metadata.space.total).toBeGreaterThan(GIB * 0.7);
    const second = await lxc('storage', 'create', 'y', 'zfs', `zfs.pool_name=${zpool}`);
    expect(second).toMatchObject({ code: 1, stderr: expect.stringContaining('already exists') });
  });

  it('runs instances on clones: snapshots, restores, copies', async () => {
    const { metadata, rootfs } = await tinyImage();
    await ok('image', 'import', metadata, rootfs, '--alias', 'tiny');
    await ok('profile', 'device', 'add', 'default', 'root', 'disk', 'path=/', 'pool=z');
    await ok('launch', 'tiny', 'c1');
    expect(await sh('c1', 'id -u; stat -c %u:%g /bin/busybox /home/tester')).toBe('0\n0:0\n1000:1000');
    await sh('c1', 'echo one > /state; chown 1000:1000 /state');
    await ok('snapshot', 'c1', 's0');
    await sh('c1', 'echo two > /state');
    await ok('restore', 'c1', 's0');
    expect(await sh('c1', 'cat /state')).toBe('one');
    await sh('c1', 'echo two > /state');
    await ok('copy', 'c1', 'c2', '--instance-only');
    await ok('copy', 'c1/s0', 'c3');
    await ok('copy', 'c1', 'c4');
    for (const name of ['c2', 'c3', 'c4']) await ok('start', name);
    expect(await sh('c2', 'cat /state; stat -c %u /state')).toBe('two\n1000');
    expect(await sh('c3', 'cat /state')).toBe('one');
    expect(await sh('c4', 'cat /state')).toBe('two');
    expect(await lxc('restore', 'c1', 's0')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('(from a copy)'),
    });
    expect(await sh('c1', 'cat /state')).toBe('two');
    await ok('rename', 'c1/s0', 'c1/s1');
    expect(await datasets('/containers')).toEqual(
      ['', '/c1', '/c2', '/c3', '/c4'].map((c) => `${zpool}/containers${c}`),
    );
    await ok('delete', 'c3', 'c4', '--force');
  });

  it('holds roots to their size while they run', async () => {
    const size = async () => Number((await sh('c2', 'df -k /')).split('\n').at(-1)?.split(/\s+/)[1]);
    await ok('config', 'device', 'override', 'c2', 'root', 'size=64MiB');
    // What the root shares with its image comes on top.
    expect(await size()).toBeLessThan(80 * 1024);
    const full = await lxc('exec', 'c2', '--', 'dd', 'if=/dev/urandom', 'of=/large', 'bs=1M', 'count=100');
    expect(full).toMatchObject({ code: 1, stderr: expect.stringMatching(/quota exceeded|no space left/i) });
    await sh('c2', 'rm /large');
    await ok('config', 'device', 'set', 'c2', 'root', 'size=128MiB');
    expect(await size()).toBeGreaterThan(100 * 1024);
  });

  it.skipIf(!capabilities.optimizedTransfer)('attaches custom volumes of both kinds (since 2.2)', async () => {
    await ok('storage', 'volume', 'create', 'z', 'data', 'size=32MiB');
    await ok('storage', 'volume', 'create', 'z', 'disk', '--type=block', 'size=16MiB');
    await ok('storage', 'volume', 'attach', 'z', 'data', 'c1', '/data');
    await sh('c1', 'echo kept > /data/file; chown 1000 /data/file');
    await ok('storage', 'volume', 'snapshot', 'z', 'data', 's0');
    await sh('c1', 'rm /data/file');
    await ok('storage', 'volume', 'detach', 'z', 'data', 'c1');
    await ok('storage', 'volume', 'restore', 'z', 'data', 's0');
    await ok('storage', 'volume', 'copy', 'z/data', 'z/copy');
    await ok('storage', 'volume', 'attach', 'z', 'copy', 'c2', '/data');
    expect(await sh('c2', 'cat /data/file; stat -c %u /data/file')).toBe('kept\n1000');
    await ok('storage', 'volume', 'set', 'z', 'disk', 'size=32MiB');
    await ok('storage', 'volume', 'snapshot', 'z', 'disk', 's0');
    await ok('storage', 'volume', 'copy', 'z/disk', 'z/disk2');
    await ok('storage', 'volume', 'detach', 'z', 'copy', 'c2');
    for (const name of ['disk2', 'disk', 'copy', 'data']) await ok('storage', 'volume', 'delete', 'z', name);
    expect(await datasets('/custom')).toEqual([`${zpool}/custom`]);
  });

  it('makes backups in the format of the pool, and takes them back', async () => {
    await ok('stop', 'c1', '--force');
    const file = join(daemon.stateDir, 'c1.tar');
    await ok('export', 'c1', file, '--optimized-storage', '--compression=none');
    expect(readFileSync(file).includes('container.bin')).toBe(capabilities.optimizedTransfer);
    await ok('import', file, 'c5');
    await ok('start', 'c5');
    expect(await sh('c5', 'cat /state')).toBe('two');
    await ok('delete', 'c5', '--force');
  });

  it('keeps guests running over its own restart, and grows', async () => {
    await daemon.restart();
    expect(await sh('c2', 'cat /state')).toBe('two');
    await ok('storage', 'set', 'z', 'size=1280MiB');
    expect(Number((await command('zpool', ['list', '-Hp', '-o', 'size', zpool])).stdout)).toBeGreaterThan(GIB);
  });

  it('keeps what was deleted while clones stand on it, and not longer', async () => {
    await ok('image', 'delete', 'tiny');
    await ok('delete', 'c1', '--force');
    expect((await datasets('/deleted/images')).length + (await datasets('/deleted/containers')).length).toBe(4);
    await sh('c2', 'cat /state');
    await ok('delete', 'c2', '--force');
    await until('what was deleted', async () => (await datasets('/deleted')).length === 5);
    for (const below of ['/containers', '/images']) expect(await datasets(below)).toEqual([`${zpool}${below}`]);
    expect((await daemon.leftovers()).mounts).toEqual([]);
  });

  it('exports the zpool with the end of all guests, finds it again, and is deleted with it', async () => {
    await daemon.stop();
    expect(await zpools()).toContain(zpool); // guests may go on running on it
    for (const wanted of ['false', 'true']) {
      await daemon.start();
      await ok('storage', 'set', 'z', `zfs.export=${wanted}`);
      expect(await daemon.shutDown()).toBe(0);
      expect((await zpools()).includes(zpool)).toBe(wanted === 'false');
    }
    await daemon.start();
    await ok('storage', 'volume', 'create', 'z', 'data');
    expect(await zpools()).toContain(zpool);
    await ok('storage', 'volume', 'delete', 'z', 'data');
    await ok('profile', 'device', 'remove', 'default', 'root');
    await ok('storage', 'delete', 'z');
    expect(await zpools()).not.toContain(zpool);
  });
});
