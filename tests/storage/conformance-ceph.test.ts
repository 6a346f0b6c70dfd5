import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CephCluster, command, findLeftovers, named, startCeph } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { describeStorageDriver } from '../../packages/daemon/src/drivers/storage/storage-conformance.ts';
import { cephDriver, CephTestPool, disk } from './ceph-pool.ts';
import { probeRbd } from './rbd.ts';

const probe = await probeRbd();

describe.skipIf(!probe.ok)(named('ceph on a real Ceph', probe), { timeout: 240_000 }, () => {
  let cluster: CephCluster;
  beforeAll(async () => {
    cluster = await startCeph();
  }, 120_000);
  afterAll(() => cluster?.[Symbol.asyncDispose](), 60_000);

  describeStorageDriver('ceph', {
    newDriver: () => cephDriver(cluster),
    volumeConfig: { size: '256MiB' },
    many: 10,
    spec: (folder) => ({
      name: 'p',
      config: { 'ceph.osd.pg_num': '4', 'volume.size': '256MiB' },
      path: join(folder, 'storage-pools/p'),
      loopFile: join(folder, 'disks/p.img'),
    }),
  });

  it('drops what was half made, and finishes a restore that was cut off', { timeout: 120_000 }, async () => {
    await using at = await CephTestPool.make(cluster, 'torn');
    const { pool, path } = at;
    const volume = disk('v');
    await pool.volumes.create(volume, { size: 1024 ** 2 });
    await pool.snapshots.create(volume, 's0', { running: false });
    const device = await pool.volumes.mount(volume);
    await command('dd', ['if=/dev/urandom', `of=${device}`, 'bs=64k', 'count=1', 'conv=notrunc,fsync']);
    await pool.volumes.unmount(volume);
    // What a daemon leaves that is killed in the middle of a copy, of a mounted snapshot, and of a restore.
    await cluster.rbd('snap', 'create', '--no-progress', 'torn/custom_v.block@zombie_snapshot_x');
    await cluster.rbd('snap', 'protect', 'torn/custom_v.block@zombie_snapshot_x');
    await cluster.rbd('clone', 'torn/custom_v.block@zombie_snapshot_x', 'torn/new_x');
    await pool.snapshots.mount(volume, 's0', { idRange: undefined, clone: 'auto', nesting: false });
    // It grew since the snapshot, and the restore had made it small again.
    at.note('frozen-x', { image: 'custom_v.block', snapshot: 'zombie_snapshot_x' });
    at.note('restore-x', { volume, snapshot: 's0', size: 2 * 1024 ** 2 });
    mkdirSync(join(path, 'staging/new_y'));
    const again = await at.again();
    expect(at.staged()).toEqual([]);
    expect(await at.images()).toEqual(['custom_v.block']);
    expect(await at.snapshots('custom_v.block')).toEqual(['snapshot_s0']);
    const content = readFileSync(await again.volumes.mount(volume));
    expect(content.equals(Buffer.alloc(2 * 1024 ** 2))).toBe(true);
    await again.destroy();
    expect((await findLeftovers(path)).loops).toEqual([]);
  });
});
