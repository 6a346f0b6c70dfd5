import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CephCluster, command, named, probeCeph, startCeph, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { silentLog } from '../../packages/daemon/src/core/log.ts';
import { CephfsDriver } from '../../packages/daemon/src/drivers/storage/cephfs/driver.ts';
import type { PoolSpec, StoragePool, VolumeRef } from '../../packages/daemon/src/drivers/storage/contract.ts';
import { describeCustomVolumes } from '../../packages/daemon/src/drivers/storage/conformance/custom-only.ts';

const probe = probeCeph('ceph-fuse', 'setfattr', 'rsync');

describe.skipIf(!probe.ok)(named('cephfs on a real Ceph', probe), { timeout: 240_000 }, () => {
  let cluster: CephCluster;
  let folder: string;

  beforeAll(async () => {
    cluster = await startCeph({ fileSystem: true });
    folder = mkdtempSync(join(tmpdir(), 'cephfs-test-'));
  }, 120_000);
  afterAll(async () => {
    await cluster?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  }, 60_000);

  const newDriver = () =>
    new CephfsDriver({ newId: () => randomUUID().slice(0, 13), log: silentLog, cephFolder: cluster.folder });
  const spec = (name: string, source: string, config: Record<string, string> = {}): PoolSpec => ({
    name,
    config: { source, ...config },
    path: join(folder, 'storage-pools', name),
    loopFile: join(folder, 'disks', `${name}.img`),
  });
  const newPool = async (name: string): Promise<StoragePool> => {
    const driver = newDriver();
    const asked = spec(name, `fs/pools/${name}`);
    const ready = { ...asked, config: await driver.prepare(asked) };
    await driver.create(ready);
    return driver.open(ready);
  };
  const custom = (name: string): VolumeRef => ({ type: 'custom', name, contentType: 'filesystem' });

  describeCustomVolumes('cephfs', {
    newDriver,
    spec: (scratch) => ({ ...spec('conformance', 'fs/pools/conformance'), path: join(scratch, 'storage-pools/p') }),
  });

  describe('pools', () => {
    it('are made in a folder of the file system and leave nothing of it', async () => {
      const pool = await newPool('made');
      expect(pool.spec.config).toEqual({
        source: 'fs/pools/made',
        'cephfs.cluster_name': 'ceph',
        'cephfs.user.name': 'admin',
        'cephfs.path': 'fs/pools/made',
        'volatile.pool.pristine': 'true',
      });
      await until('sizes', async () => (await pool.resources()).space.total > 0, { timeoutMs: 60_000 });
      await expect(newDriver().prepare(spec('other', 'fs/pools/made'))).rejects.toMatchObject({
        code: 'bad-request',
        message: `Only empty CEPHFS paths can be used: "fs/pools/made" isn't empty`,
      });
      await expect(pool.update({ ...pool.spec.config, 'cephfs.user.name': 'x' })).rejects.toMatchObject({
        code: 'bad-request',
      });
      await pool.destroy();
      expect(await readdir(join(folder, 'storage-pools'))).toEqual([]);
      const driver = newDriver();
      const again = spec('made', 'fs/pools/made');
      await driver.prepare(again); // the folder is gone or empty
      expect(await readdir(join(folder, 'storage-pools'))).toEqual([]);
    });

    it.each([
      [{}, 'Missing required source name/path'],
      [{ source: 'fs/a', 'cephfs.path': 'fs/b' }, 'cephfs.path must match the source'],
      [{ source: 'nofs/a' }, "The requested 'nofs' CEPHFS doesn't exist"],
      [{ source: 'fs/../etc' }, 'Invalid source "fs/../etc": it must be the name of a CephFS and a folder in it'],
      [{ source: 'fs/a', 'cephfs.cluster_name': '../x' }, 'Invalid name of a Ceph cluster "../x"'],
      [{ source: 'fs/a', 'cephfs.user.name': 'a,b' }, 'Invalid name of a Ceph user "a,b"'],
      [{ source: 'fs/a', 'cephfs.user.name': 'bob' }, /no keyring of the user "bob"/],
      [{ source: 'fs/a', 'cephfs.cluster_name': 'other' }, /other.conf" of the Ceph cluster doesn't exist/],
    ])('refuse %j', async (config, message) => {
      const asked = { ...spec('bad', ''), config };
      await expect(newDriver().prepare(asked)).rejects.toThrow(message);
      await expect(stat(asked.path)).rejects.toMatchObject({ code: 'ENOENT' });
    });
  });

  describe('volumes', () => {
    let pool: StoragePool;
    beforeAll(async () => {
      pool = await newPool('volumes');
      await pool.volumes.create(custom('v1'), {});
    }, 240_000);
    afterAll(() => pool?.destroy(), 240_000);

    const fill = (path: string, file: string, mib: number) =>
      command('dd', ['if=/dev/zero', `of=${join(path, file)}`, 'bs=1M', `count=${mib}`, 'conv=fsync'], {
        anyExit: true,
      });

    it('have quotas that hold, shrink and go', async () => {
      await pool.quota?.set(custom('v1'), 8 * 1024 ** 2);
      const path = await pool.volumes.mount(custom('v1'));
      expect(await fill(path, 'large', 32)).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('quota exceeded'),
      });
      await rm(join(path, 'large'));
      expect(await fill(path, 'small', 4)).toMatchObject({ code: 0 });
      const used = 4 * 1024 ** 2;
      await until('the counters', async () => (await pool.volumes.usage(custom('v1'))) === used, { timeoutMs: 60_000 });
      await expect(pool.quota?.set(custom('v1'), 1024 ** 2)).rejects.toMatchObject({
        code: 'bad-request',
        message: `Cannot limit volume "v1" to 1048576 bytes: ${used} bytes are in use`,
      });
      await pool.quota?.set(custom('v1'), 5 * 1024 ** 2);
      expect(await fill(path, 'more', 16)).toMatchObject({ code: 1 });
      await pool.quota?.set(custom('v1'), undefined);
      expect(await fill(path, 'more', 16)).toMatchObject({ code: 0 });
    });

    it('keep their quota through a restore', async () => {
      await pool.volumes.create(custom('limited'), {});
      const path = await pool.volumes.mount(custom('limited'));
      await fill(path, 'one', 6);
      await pool.snapshots.create(custom('limited'), 's0', { running: false });
      await rm(join(path, 'one'));
      await fill(path, 'two', 6);
      await pool.quota?.set(custom('limited'), 8 * 1024 ** 2);
      await pool.snapshots.restore(custom('limited'), 's0');
      expect(await readdir(path)).toEqual(['one']);
      expect(await fill(path, 'three', 16)).toMatchObject({ code: 1 });
      await pool.volumes.delete(custom('limited'));
    });

    it('finish a restore that was cut off, and drop what was half made', async () => {
      const volume = custom('torn');
      await pool.volumes.create(volume, {});
      const path = await pool.volumes.mount(volume);
      await writeFile(join(path, 'state'), 'old');
      await pool.snapshots.create(volume, 's0', { running: false });
      await writeFile(join(path, 'state'), 'new');
      // What a daemon leaves that is killed in the middle of a restore and of a copy.
      await mkdir(join(path, '.snap/.own-1'));
      await writeFile(join(pool.spec.path, 'staging/restore-1'), JSON.stringify({ volume, snapshot: 's0' }));
      await mkdir(join(pool.spec.path, 'staging/half/.snap/s1'), { recursive: true });
      const again = newDriver().open(pool.spec);
      await again.mount();
      await again.recover([]);
      expect(await readFile(join(path, 'state'), 'utf8')).toBe('old');
      expect(await readdir(join(path, '.snap'))).toEqual(['s0']);
      expect(await readdir(join(pool.spec.path, 'staging'))).toEqual([]);
      await until('the trash', async () => (await readdir(join(pool.spec.path, 'trash'))).length === 0);
    });

    it('go with snapshots that a guest made inside', async () => {
      await pool.volumes.create(custom('nested'), {});
      const path = await pool.volumes.mount(custom('nested'));
      await mkdir(join(path, 'a/b'), { recursive: true });
      await mkdir(join(path, 'a/b/.snap/mine'));
      await pool.volumes.delete(custom('nested'));
      await until('the trash', async () => (await readdir(join(pool.spec.path, 'trash'))).length === 0);
    });

    it('refuse names of snapshots that CephFS cannot have', async () => {
      await expect(pool.snapshots.create(custom('v1'), '_x', { running: false })).rejects.toMatchObject({
        code: 'bad-request',
        message: 'Invalid snapshot name "_x": on CephFS it must not start with "_"',
      });
    });
  });
});
