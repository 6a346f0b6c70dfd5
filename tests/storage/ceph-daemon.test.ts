import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Server, StoragePool } from '@keelson/api';
import {
  type CephCluster,
  findLeftovers,
  named,
  podmanImage,
  type TestDaemon,
  tinyImage,
  until,
} from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { PoolSpec } from '../../packages/daemon/src/drivers/storage/contract.ts';
import { cephDriver, disk } from './ceph-pool.ts';
import { CephWorld } from './ceph-world.ts';
import { cgroupsIn, PODMAN_WORKS, USE_PODMAN } from './podman.ts';
import { probeRbd } from './rbd.ts';

const probe = await probeRbd();

describe.skipIf(!probe.ok)(named('a daemon with a ceph pool', probe), { timeout: 240_000 }, () => {
  let world: CephWorld;
  let cluster: CephCluster;
  let daemon: TestDaemon;

  beforeAll(async () => {
    world = await CephWorld.open();
    ({ cluster, daemon } = world);
  }, 180_000);
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
  }, 120_000);

  const lxc = (...args: string[]) => world.lxc(...args);
  const ok = (...args: string[]) => world.ok(...args);
  const pool = async () => (await daemon.request<StoragePool>('GET', '/1.0/storage-pools/rbd')).body.metadata;
  const images = async () => JSON.parse(await cluster.rbd('ls', '--format', 'json', 'rbd')) as string[];
  const failure = async (body: object) => {
    const answer = await daemon.request('POST', '/1.0/storage-pools', { driver: 'ceph', ...body });
    return [answer.body.error_code, answer.body.error];
  };

  it('makes the OSD pool and says so', async () => {
    const { body } = await daemon.request<Server>('GET', '/1.0');
    expect(body.metadata.environment.storage_supported_drivers.map(({ Name }) => Name)).toContain('ceph');
    const config = ['ceph.osd.pg_num=4', 'volume.size=320MiB', 'volume.block.filesystem=xfs'];
    await ok('storage', 'create', 'rbd', 'ceph', ...config);
    expect((await pool()).config).toEqual({
      source: 'rbd',
      'ceph.cluster_name': 'ceph',
      'ceph.osd.pg_num': '4',
      'ceph.osd.pool_name': 'rbd',
      'ceph.user.name': 'admin',
      'volatile.pool.pristine': 'true',
      'volume.block.filesystem': 'xfs',
      'volume.size': '320MiB',
    });
    expect(await images()).toEqual(['lxd_rbd']);
    await until('sizes', async () => (await daemon.request('GET', '/1.0/storage-pools/rbd/resources')).status === 200, {
      timeoutMs: 60_000,
    });
    const taken = [400, "Pool 'rbd' in cluster 'ceph' seems to be in use by another LXD instance"];
    expect(await failure({ name: 'second', config: { 'ceph.osd.pool_name': 'rbd' } })).toEqual(taken);
    expect(await failure({ name: 'second', config: { source: 'a', 'ceph.osd.pool_name': 'b' } })).toEqual([
      400,
      'Invalid value for option "source": it must match ceph.osd.pool_name',
    ]);
    expect(await failure({ name: 'second', config: { 'ceph.osd.data_pool_name': 'none' } })).toEqual([
      400,
      'Invalid value for option "ceph.osd.data_pool_name": OSD pool "none" doesn\'t exist',
    ]);
    for (const [key, value] of [
      ['ceph.rbd.features', `--log-file=${join(daemon.stateDir, 'written')}`],
      ['ceph.user.name', '--keyring=/x'],
      ['ceph.cluster_name', '../../tmp/x'],
      ['ceph.osd.pool_name', '-x'],
    ] as const)
      expect(await failure({ name: 'second', config: { [key]: value } }), key).toMatchObject([
        400,
        expect.stringContaining(value),
      ]);
    expect(existsSync(join(daemon.stateDir, 'written'))).toBe(false);
    expect(await failure({ name: 'second', config: { 'ceph.user.name': 'bob' } })).toEqual([
      503,
      `There is no keyring of the user "bob" for the Ceph cluster of "${cluster.conf}"`,
    ]);
  });

  it('runs instances on clones of the image', { timeout: 240_000 }, async () => {
    const { metadata, rootfs } = await tinyImage();
    await ok('image', 'import', metadata, rootfs, '--alias', 'tiny');
    await ok('profile', 'device', 'add', 'default', 'root', 'disk', 'path=/', 'pool=rbd');
    await ok('launch', 'tiny', 'c1');
    await ok('exec', 'c1', '--', 'sh', '-c', 'echo one > /state');
    await ok('snapshot', 'c1', 's0');
    await ok('exec', 'c1', '--', 'sh', '-c', 'echo two > /state');
    await ok('copy', 'c1', 'c2', '--instance-only');
    await ok('start', 'c2');
    expect(await ok('exec', 'c2', '--', 'cat', '/state')).toBe('two\n');
    await ok('stop', 'c1', '--force');
    await ok('restore', 'c1', 's0');
    await ok('start', 'c1');
    expect(await ok('exec', 'c1', '--', 'cat', '/state')).toBe('one\n');
    const [image] = (await images()).filter((name) => name.startsWith('image_'));
    expect(image).toMatch(/^image_[0-9a-f]{64}_xfs$/);
    const { parent } = JSON.parse(await cluster.rbd('info', '--format', 'json', 'rbd/container_c1'));
    expect(parent).toMatchObject({ image, snapshot: 'readonly' });
  });

  it('grows a root while its guest runs, and holds to its size', { timeout: 120_000 }, async () => {
    const size = async () => Number((await ok('exec', 'c1', '--', 'df', '-k', '/')).split('\n')[1]?.split(/\s+/)[1]);
    const before = await size();
    await ok('config', 'device', 'override', 'c1', 'root', 'size=448MiB');
    expect(await size()).toBeGreaterThan(before * 1.2);
    const full = await lxc('exec', 'c1', '--', 'dd', 'if=/dev/zero', 'of=/large', 'bs=1M', 'count=512');
    expect(full).toMatchObject({ code: 1, stderr: expect.stringMatching(/no space left/i) });
  });

  it('keeps guests running over its own restart', { timeout: 120_000 }, async () => {
    await daemon.restart();
    expect(await ok('exec', 'c2', '--', 'cat', '/state')).toBe('two\n');
    await ok('exec', 'c2', '--', 'sh', '-c', 'echo three > /state; sync');
  });

  it('tells the key of its user to nobody', () => {
    const [, key = ''] =
      /key = (\S+)/.exec(readFileSync(join(cluster.folder, 'ceph.client.admin.keyring'), 'utf8')) ?? [];
    expect(key.length).toBeGreaterThan(20);
    const commands = readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .flatMap((pid) => {
        try {
          return [readFileSync(`/proc/${pid}/cmdline`, 'utf8'), readFileSync(`/proc/${pid}/environ`, 'latin1')];
        } catch {
          return []; // it has ended
        }
      });
    expect(commands.some((text) => text.includes('container_c2'))).toBe(true);
    expect(commands.filter((text) => text.includes(key))).toEqual([]);
    expect(daemon.logs).not.toContain(key);
  });

  it('keeps what was deleted while clones stand on it, and not longer', { timeout: 120_000 }, async () => {
    await ok('image', 'delete', 'tiny');
    expect((await images()).filter((name) => name.startsWith('zombie_image_'))).toHaveLength(1);
    await ok('delete', 'c1', '--force');
    await ok('exec', 'c2', '--', 'cat', '/state');
    await ok('delete', 'c2', '--force');
    await until('the zombies', async () => (await images()).length === 1);
    expect(await images()).toEqual(['lxd_rbd']);
    const { mounts, loops, processes } = await daemon.leftovers();
    expect([mounts, loops, [...processes.values()]]).toEqual([[], [], []]);
  });

  it('has guests whose podman stores its images as overlays', { timeout: 600_000 }, async () => {
    const { metadata, rootfs } = await podmanImage();
    await ok('storage', 'set', 'rbd', 'volume.size', '1GiB');
    await ok('image', 'import', metadata, rootfs, '--alias', 'podman');
    await ok('launch', 'podman', 'n1', '-c', 'security.nesting=true');
    const inside = (script: string) => ok('exec', 'n1', '--env', 'HOME=/root', '--', 'sh', '-c', script);
    await cgroupsIn(inside);
    expect(await inside(USE_PODMAN)).toBe(PODMAN_WORKS);
    await ok('delete', '--force', 'n1');
    await ok('image', 'delete', 'podman');
    await ok('storage', 'set', 'rbd', 'volume.size', '320MiB');
  });

  it('is unavailable while the cluster is away, and comes back', { timeout: 240_000 }, async () => {
    await ok('storage', 'volume', 'create', 'rbd', 'v');
    await daemon.stop();
    cluster.freeze();
    onTestFinished(() => cluster.thaw());
    await daemon.start();
    expect((await pool()).status).toBe('Unavailable');
    const answer = await daemon.request('POST', '/1.0/storage-pools/rbd/volumes/custom', { name: 'w' });
    expect(answer.body).toMatchObject({
      error_code: 503,
      error: `Storage pool "rbd" is unavailable: The Ceph cluster of "${cluster.conf}" does not answer`,
    });
    cluster.thaw();
    const create = () => daemon.request('POST', '/1.0/storage-pools/rbd/volumes/custom', { name: 'w' });
    await until('the pool', async () => (await create()).status === 200, { timeoutMs: 120_000 });
    expect((await pool()).status).toBe('Created');
    for (const name of ['v', 'w']) await ok('storage', 'volume', 'delete', 'rbd', name);
  });

  describe('options of pools', () => {
    const newDriver = () => cephDriver(cluster);
    const asked = (name: string, config: Record<string, string>): PoolSpec => {
      const path = join(daemon.stateDir, 'elsewhere', name);
      return { name, config: { 'ceph.osd.pg_num': '4', ...config }, path, loopFile: `${path}.img` };
    };
    const made = async (spec: PoolSpec) => {
      const ready = { ...spec, config: await newDriver().prepare(spec) };
      await newDriver().create(ready);
      return newDriver().open(ready);
    };
    const info = async (image: string) => JSON.parse(await cluster.rbd('info', '--format', 'json', image));

    it('name the user, the features, the pool of the data', { timeout: 120_000 }, async () => {
      const keyring = join(cluster.folder, 'ceph.client.lxd.keyring');
      const caps = ['mon', 'allow *', 'osd', 'allow *', 'mgr', 'allow *'];
      await cluster.ceph('auth', 'get-or-create', 'client.lxd', ...caps, '-o', keyring);
      await cluster.ceph('osd', 'pool', 'create', 'data', '4');
      const features = 'layering,striping,exclusive-lock';
      const pool = await made(
        asked('opts', {
          'ceph.user.name': 'lxd',
          'ceph.rbd.features': features,
          'ceph.osd.data_pool_name': 'data',
          'ceph.rbd.clone_copy': 'false',
          'ceph.rbd.du': 'false',
        }),
      );
      await pool.volumes.create(disk('v'), { size: 16 * 1024 ** 2 });
      expect(await info('opts/custom_v.block')).toMatchObject({
        size: 16 * 1024 ** 2,
        data_pool: 'data',
        features: expect.arrayContaining(['layering', 'exclusive-lock', 'data-pool']),
      });
      expect(await pool.volumes.usage(disk('v'))).toBeUndefined();
      await pool.volumes.copy(disk('v'), disk('w'));
      expect(await info('opts/custom_w.block')).not.toHaveProperty('parent');
      await pool.update({ ...pool.spec.config, 'ceph.rbd.clone_copy': 'true', 'ceph.rbd.du': 'true' });
      expect(await pool.volumes.usage(disk('v'))).toBe(0);
      await pool.volumes.copy(disk('v'), disk('x'));
      expect(await info('opts/custom_x.block')).toMatchObject({ parent: { image: 'custom_v.block' } });
      await pool.snapshots.create(disk('v'), 's0', { running: false });
      await pool.volumes.copy({ ...disk('v'), snapshot: 's0' }, disk('y'));
      await pool.snapshots.delete(disk('v'), 's0');
      expect(await pool.snapshots.list(disk('v'))).toEqual([]);
      await pool.volumes.delete(disk('v'));
      const list = async () => JSON.parse(await cluster.rbd('ls', '--format', 'json', 'opts')) as string[];
      expect(await list()).toContain('zombie_custom_v.block');
      for (const name of ['w', 'x', 'y']) await pool.volumes.delete(disk(name));
      expect(await list()).toEqual(['lxd_opts']);
      await expect(pool.update({ ...pool.spec.config, 'ceph.user.name': 'admin' })).rejects.toThrow(
        'Invalid option "ceph.user.name": it cannot change while the pool is there',
      );

      const again = asked('again', { 'ceph.osd.pool_name': 'opts' });
      await expect(newDriver().prepare(again)).rejects.toThrow('seems to be in use by another LXD instance');
      const shared = await made({ ...again, config: { ...again.config, 'ceph.osd.force_reuse': 'true' } });
      await shared.destroy();
      expect(await list()).toEqual(['lxd_opts']);
      await pool.destroy();
      expect(JSON.parse(await cluster.ceph('osd', 'pool', 'ls', '--format', 'json'))).not.toContain('opts');
    });
  });

  it('leaves an OSD pool that was there before, with what is not its own', { timeout: 120_000 }, async () => {
    await cluster.ceph('osd', 'pool', 'create', 'theirs', '4');
    await cluster.rbd('create', '--size', '8M', 'theirs/precious');
    const driver = cephDriver(cluster);
    const path = join(daemon.stateDir, 'elsewhere');
    const asked = { name: 'x', config: { source: 'theirs' }, path, loopFile: `${path}.img` };
    const spec = { ...asked, config: await driver.prepare(asked) };
    expect(spec.config).toMatchObject({ 'ceph.osd.pg_num': '4', 'volatile.pool.pristine': 'false' });
    await driver.create(spec);
    await driver.open(spec).volumes.create(disk('v'), { size: 1024 ** 2 });
    await driver.open(spec).destroy();
    expect(JSON.parse(await cluster.rbd('ls', '--format', 'json', 'theirs'))).toEqual(['precious']);
  });

  it('goes with its OSD pool', async () => {
    await ok('profile', 'device', 'remove', 'default', 'root');
    await ok('storage', 'delete', 'rbd');
    expect(JSON.parse(await cluster.ceph('osd', 'pool', 'ls', '--format', 'json'))).not.toContain('rbd');
    const { mounts } = await findLeftovers(join(daemon.stateDir, 'storage-pools'));
    expect(mounts).toEqual([]);
  });
});
