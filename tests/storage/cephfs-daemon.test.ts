import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Server, StoragePool, StorageVolume } from '@keelson/api';
import {
  type CephCluster,
  command,
  findLeftovers,
  named,
  probeCeph,
  startDaemon,
  type TestDaemon,
  tinyImage,
  until,
} from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { CephWorld } from './ceph-world.ts';

const probe = probeCeph('ceph-fuse', 'lxc');
const C = '/1.0/storage-pools/shared/volumes/custom';

describe.skipIf(!probe.ok)(named('a daemon with a cephfs pool', probe), { timeout: 240_000 }, () => {
  let world: CephWorld;
  let cluster: CephCluster;
  let daemon: TestDaemon;

  beforeAll(async () => {
    world = await CephWorld.open({ fileSystem: true });
    ({ cluster, daemon } = world);
    await daemon.run('POST', '/1.0/storage-pools', { name: 'local', driver: 'dir' });
  }, 180_000);
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
  }, 120_000);

  const lxc = (...args: string[]) => world.lxc(...args);
  const ok = (...args: string[]) => world.ok(...args);
  const path = (volume: string) => join(daemon.stateDir, 'storage-pools/shared/custom', `default_${volume}`);
  const pool = async () => (await daemon.request<StoragePool>('GET', '/1.0/storage-pools/shared')).body.metadata;
  const failure = async (method: string, url: string, body?: unknown) => {
    const answer = await daemon.request(method, url, body);
    return [answer.body.error_code, answer.body.error];
  };

  it('tells of the driver', async () => {
    const { body } = await daemon.request<Server>('GET', '/1.0');
    const found = body.metadata.environment.storage_supported_drivers.find(({ Name }) => Name === 'cephfs');
    expect(found).toMatchObject({ Name: 'cephfs', Remote: true, Version: expect.stringMatching(/^\d+\.\d+/) });
  });

  it('is made, shown and measured with lxc', async () => {
    await ok('storage', 'create', 'shared', 'cephfs', 'source=fs/one');
    expect(await pool()).toMatchObject({
      driver: 'cephfs',
      status: 'Created',
      used_by: null,
      config: { source: 'fs/one', 'cephfs.path': 'fs/one', 'cephfs.cluster_name': 'ceph', 'cephfs.user.name': 'admin' },
    });
    expect(await ok('storage', 'info', 'shared')).toContain('space used');
    expect(await failure('PATCH', '/1.0/storage-pools/shared', { config: { 'cephfs.user.name': 'x' } })).toEqual([
      400,
      'Invalid option "cephfs.user.name": it cannot change while the pool is there',
    ]);
    expect(await failure('POST', '/1.0/storage-pools', { name: 'x', driver: 'cephfs' })).toEqual([
      400,
      'Missing required source name/path',
    ]);
  });

  it('keeps file systems, and refuses the rest', async () => {
    await ok('storage', 'volume', 'create', 'shared', 'v', 'size=64MiB');
    expect(await failure('POST', C, { name: 'b', content_type: 'block' })).toEqual([
      400,
      'Storage driver "cephfs" has no volumes of content type "block": only file systems',
    ]);
    const devices = { root: { type: 'disk', path: '/', pool: 'shared' } };
    const body = { name: 'c0', source: { type: 'none' }, devices, profiles: [] };
    await expect(daemon.run('POST', '/1.0/instances', body)).rejects.toThrow(
      'Storage pool does not support instance type',
    );
    expect((await daemon.request<string[]>('GET', '/1.0/instances')).body.metadata).toEqual([]);
  });

  it('copies, moves and restores volumes between pools', async () => {
    writeFileSync(join(path('v'), 'state'), 'one');
    await ok('storage', 'volume', 'snapshot', 'shared', 'v', 's0');
    writeFileSync(join(path('v'), 'state'), 'two');
    await ok('storage', 'volume', 'copy', 'shared/v', 'local/w');
    const copied = join(daemon.stateDir, 'storage-pools/local/custom/default_w');
    expect(readFileSync(join(copied, 'state'), 'utf8')).toBe('two');
    await ok('storage', 'volume', 'move', 'local/w', 'shared/back');
    expect(readFileSync(join(path('back'), 'state'), 'utf8')).toBe('two');
    await ok('storage', 'volume', 'restore', 'shared', 'back', 's0');
    expect(readFileSync(join(path('back'), 'state'), 'utf8')).toBe('one');
    await ok('storage', 'volume', 'rename', 'shared', 'back', 'again');
    expect(readdirSync(join(path('again'), '.snap'))).toEqual(['s0']);
    expect((await pool()).used_by).toEqual([`${C}/again`, `${C}/again/snapshots/s0`, `${C}/v`, `${C}/v/snapshots/s0`]);
    await ok('storage', 'volume', 'delete', 'shared', 'again');
  });

  it('gives one volume to several guests', async () => {
    const { metadata, rootfs } = await tinyImage();
    await ok('image', 'import', metadata, rootfs, '--alias', 'tiny');
    await ok('profile', 'device', 'add', 'default', 'root', 'disk', 'path=/', 'pool=local');
    for (const name of ['c1', 'c2']) {
      await ok('init', 'tiny', name);
      await ok('config', 'device', 'add', name, 'data', 'disk', 'pool=shared', 'source=v', 'path=/data');
    }
    const refused = await lxc('start', 'c1');
    expect(refused.code).toBe(1);
    expect(`${refused.stderr}${(await lxc('info', '--show-log', 'c1')).stdout}`).toContain(
      'mounts of the pool "shared" cannot show the ids of an instance; set security.unmapped=true on the volume',
    );
    await ok('storage', 'volume', 'set', 'shared', 'v', 'security.unmapped', 'true');
    await command('chmod', ['777', path('v')]);
    for (const name of ['c1', 'c2']) await ok('start', name);
    await ok('exec', 'c1', '--', 'sh', '-c', 'echo hello > /data/note');
    expect(await ok('exec', 'c2', '--', 'cat', '/data/note')).toBe('hello\n');
    const { body } = await daemon.request<StorageVolume>('GET', `${C}/v`);
    expect(body.metadata.used_by).toEqual(['/1.0/instances/c1', '/1.0/instances/c2']);
    const full = await lxc('exec', 'c1', '--', 'dd', 'if=/dev/zero', 'of=/data/large', 'bs=1M', 'count=96');
    expect(full).toMatchObject({ code: 1, stderr: expect.stringMatching(/quota exceeded/i) });
    for (const name of ['c1', 'c2']) await ok('delete', '--force', name);
  });

  it('comes back from its own files when the records are lost', { timeout: 120_000 }, async () => {
    await using other = await startDaemon({ env: { KEELSON_CEPH_DIR: cluster.folder } });
    const pools = [{ name: 'shared', driver: 'cephfs', config: { source: 'fs/one' } }];
    const answer = await other.request('POST', '/internal/recover/import', { pools });
    expect(answer.body.error).toBeFalsy();
    const before = (await daemon.request<StorageVolume>('GET', `${C}/v`)).body.metadata;
    const after = (await other.request<StorageVolume>('GET', `${C}/v`)).body.metadata;
    expect({ ...after, used_by: before.used_by }).toEqual(before);
    expect((await other.request<string[]>('GET', `${C}/v/snapshots`)).body.metadata).toEqual([`${C}/v/snapshots/s0`]);
    const wrong = [{ name: 'x', driver: 'cephfs', config: { source: 'fs/none' } }];
    expect((await other.request('POST', '/internal/recover/validate', { pools: wrong })).body.error).toContain(
      'There is no storage pool in "fs/none"',
    );
  });

  it('mounts again when the process of the mount is gone', async () => {
    const { processes } = await findLeftovers(join(daemon.stateDir, 'storage-pools/shared'));
    const [pid] = [...processes].find(([, line]) => line.startsWith('ceph-fuse')) ?? [];
    expect(pid).toBeDefined();
    process.kill(pid ?? 0, 'SIGKILL');
    await until('the end of the mount', () => !stillReadable(path('v')));
    // The metadata server waits for the lost client before it lets another one in.
    await until(
      'the pool',
      async () => (await lxc('storage', 'volume', 'snapshot', 'shared', 'v', 'after')).code === 0,
      {
        timeoutMs: 120_000,
      },
    );
    expect(readFileSync(join(path('v'), 'note'), 'utf8')).toBe('hello\n');
  });

  it('is unavailable while the cluster is away, wedges nothing, and comes back', { timeout: 240_000 }, async () => {
    cluster.freeze();
    onTestFinished(() => cluster.thaw());
    const asked = performance.now();
    const slow = daemon.request('GET', '/1.0/storage-pools/shared/resources');
    const others = [1, 2, 3, 4, 5, 6].map((n) => daemon.request('POST', `${C}/v/snapshots`, { name: `x${n}` }));
    // Whoever does not need the pool does not notice.
    await daemon.run('POST', '/1.0/storage-pools/local/volumes/custom', { name: 'here' });
    await daemon.run('DELETE', '/1.0/storage-pools/local/volumes/custom/here');
    expect(performance.now() - asked).toBeLessThan(9000);
    expect((await slow).body).toMatchObject({
      error_code: 503,
      error: 'CephFS "fs" does not answer; it is tried again at the next use',
    });
    await Promise.all(others);

    await daemon.kill();
    await daemon.start();
    expect((await pool()).status).toBe('Unavailable');
    expect((await daemon.request('GET', '/1.0/storage-pools/shared/resources')).status).toBe(503);
    await daemon.run('POST', '/1.0/storage-pools/local/volumes/custom', { name: 'here' });

    cluster.thaw();
    await until(
      'the pool',
      async () => (await daemon.request('GET', '/1.0/storage-pools/shared/resources')).status === 200,
      { timeoutMs: 120_000, intervalMs: 500 },
    );
    expect((await pool()).status).toBe('Created');
    expect(readFileSync(join(path('v'), 'note'), 'utf8')).toBe('hello\n');
  });

  it('goes without a trace', async () => {
    const snapshots = await daemon.request<string[]>('GET', `${C}/v/snapshots`);
    expect(snapshots.body.metadata).toContain(`${C}/v/snapshots/after`);
    expect(await failure('DELETE', '/1.0/storage-pools/shared')).toEqual([
      400,
      expect.stringMatching(/^The storage pool is currently in use: \/1\.0\//u),
    ]);
    await ok('storage', 'volume', 'delete', 'shared', 'v');
    await ok('storage', 'delete', 'shared');
    const { mounts } = await findLeftovers(join(daemon.stateDir, 'storage-pools/shared'));
    expect(mounts).toEqual([]);
    await until('the end of ceph-fuse', async () => {
      const { processes } = await findLeftovers(join(daemon.stateDir, 'storage-pools/shared'));
      return processes.size === 0;
    });
  });
});

/** Asked in a process of its own: the mount may hang. */
function stillReadable(path: string): boolean {
  try {
    execFileSync('ls', [path], { stdio: 'ignore', timeout: 10_000 });
    return true;
  } catch {
    return false;
  }
}
