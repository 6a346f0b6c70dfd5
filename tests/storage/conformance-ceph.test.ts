import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CephCluster, command, findLeftovers, named, startCeph } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { silentLog } from '../../packages/daemon/src/core/log.ts';
import type { VolumeRef } from '../../packages/daemon/src/drivers/storage/contract.ts';
import { CephDriver } from '../../packages/daemon/src/drivers/storage/ceph/driver.ts';
import { describeStorageDriver } from '../../packages/daemon/src/drivers/storage/storage-conformance.ts';
import { probeRbd } from './rbd.ts';

const probe = await probeRbd();

describe.skipIf(!probe.ok)(named('ceph on a real Ceph', probe), () => {
  let cluster: CephCluster;
  beforeAll(async () => {
    cluster = await startCeph();
  }, 120_000);
  afterAll(() => cluster?.[Symbol.asyncDispose](), 60_000);

  describeStorageDriver('ceph', {
    newDriver: () =>
      new CephDriver({ newId: () => randomUUID().slice(0, 13), log: silentLog, cephFolder: cluster.folder }),
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
    const folder = mkdtempSync(join(tmpdir(), 'ceph-torn-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const newDriver = () =>
      new CephDriver({ newId: () => randomUUID().slice(0, 13), log: silentLog, cephFolder: cluster.folder });
    const path = join(folder, 'storage-pools/torn');
    const asked = { name: 'torn', config: { 'ceph.osd.pg_num': '4' }, path, loopFile: join(folder, 'x') };
    const spec = { ...asked, config: await newDriver().prepare(asked) };
    await newDriver().create(spec);
    const pool = newDriver().open(spec);
    const volume: VolumeRef = { type: 'custom', name: 'v', contentType: 'block' };
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
    writeFileSync(join(path, 'staging/frozen-x'), '{"image":"custom_v.block","snapshot":"zombie_snapshot_x"}');
    writeFileSync(join(path, 'staging/restore-x'), JSON.stringify({ volume, snapshot: 's0' }));
    mkdirSync(join(path, 'staging/new_y'));
    const again = newDriver().open(spec);
    await again.mount();
    await again.recover([]);
    expect(readdirSync(join(path, 'staging'))).toEqual([]);
    expect(JSON.parse(await cluster.rbd('ls', '--format', 'json', 'torn'))).toEqual(['custom_v.block', 'lxd_torn']);
    const left: { name: string }[] = JSON.parse(
      await cluster.rbd('snap', 'ls', '--format', 'json', 'torn/custom_v.block'),
    );
    expect(left.map(({ name }) => name)).toEqual(['snapshot_s0']);
    const content = readFileSync(await again.volumes.mount(volume));
    expect(content.equals(Buffer.alloc(1024 ** 2))).toBe(true);
    await again.destroy();
    expect((await findLeftovers(folder)).loops).toEqual([]);
  });
});
