import { existsSync, mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { command } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RootOptions, StoragePool, VolumeRef } from '../../packages/daemon/src/drivers/storage/contract.ts';
import { describeStorageDriver } from '../../packages/daemon/src/drivers/storage/storage-conformance.ts';
import { driverNamed } from './drivers.ts';

const MIB = 1024 * 1024;
const image: VolumeRef = { type: 'image', name: 'a'.repeat(64), contentType: 'filesystem' };
const root = (name: string): VolumeRef => ({ type: 'container', name, contentType: 'filesystem' });
const options = (clone: RootOptions['clone']): RootOptions => ({ idRange: undefined, clone, nesting: false });

const missing = ['/sbin/mkfs.xfs', '/usr/sbin/mkfs.xfs'].some((path) => existsSync(path))
  ? ''
  : ' (skipped: no mkfs.xfs, install xfsprogs)';

describe.skipIf(missing !== '')(`on xfs${missing}`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'dir-xfs-'));
  const at = join(folder, 'mount');

  beforeAll(async () => {
    mkdirSync(at);
    await command('truncate', ['--size', '400M', join(folder, 'image')]);
    await command('mkfs.xfs', ['-q', '-m', 'reflink=1', join(folder, 'image')]);
    await command('mount', ['-o', 'loop', join(folder, 'image'), at]);
  });
  afterAll(async () => {
    await command('umount', [at], { anyExit: true });
    rmSync(folder, { recursive: true, force: true });
  });

  describeStorageDriver('dir', {
    newDriver: () => driverNamed('dir'),
    base: at,
    layout: 'own',
    spec: (scratch) => ({ name: 'p', config: {}, path: join(scratch, 'storage-pools/p'), loopFile: '' }),
  });

  describe('roots that share blocks', () => {
    let pool: StoragePool;

    const make = async (base: string): Promise<StoragePool> => {
      const driver = driverNamed('dir');
      const asked = { name: 'r', config: {}, path: join(base, 'storage-pools/r'), loopFile: '' };
      const spec = { ...asked, config: await driver.prepare(asked) };
      await driver.create(spec);
      const made = driver.open(spec);
      await made.mount();
      await made.volumes.createFilled(image, async (path) => {
        mkdirSync(join(path, 'rootfs'));
        writeFileSync(join(path, 'rootfs/big'), Buffer.alloc(20 * MIB, 7), { flush: true });
      });
      return made;
    };
    beforeAll(async () => {
      pool = await make(at);
    });
    afterAll(() => pool?.destroy());
    const used = async () => {
      await command('sync', ['-f', at]);
      const { bsize, blocks, bfree } = statfsSync(at);
      return bsize * (blocks - bfree);
    };

    it('take no space for what they share', async () => {
      const before = await used();
      for (let number = 0; number < 5; number++)
        await pool.roots.createFromImage(root(`c${number}`), image, options('reflink'));
      expect((await used()) - before).toBeLessThan(5 * MIB);
      await pool.roots.createFromImage(root('full'), image, options('copy'));
      expect((await used()) - before).toBeGreaterThan(19 * MIB);
      const { path, ids } = await pool.roots.mount(root('c1'), options('reflink'));
      expect(ids).toBe('plain');
      writeFileSync(join(path, 'big'), 'own');
      await pool.roots.unmount(root('c1'));
      const other = await pool.roots.mount(root('c2'), options('reflink'));
      expect((await command('stat', ['-c', '%s', join(other.path, 'big')])).stdout.trim()).toBe(String(20 * MIB));
      await pool.roots.unmount(root('c2'));
    });

    it('are shared in snapshots and copies too', async () => {
      const before = await used();
      await pool.snapshots.create(root('c3'), 's0', { running: false });
      await pool.roots.copy(root('c3'), root('copy'), { ...options('reflink'), snapshots: ['s0'] });
      await pool.snapshots.restore(root('c3'), 's0');
      expect((await used()) - before).toBeLessThan(5 * MIB);
    });

    it('are refused where the file system cannot', async () => {
      const plain = join(folder, 'ext4');
      mkdirSync(plain);
      await command('truncate', ['--size', '100M', `${plain}.image`]);
      await command('mkfs.ext4', ['-q', `${plain}.image`]);
      await command('mount', ['-o', 'loop', `${plain}.image`, plain]);
      try {
        const without = await make(plain);
        await expect(without.roots.createFromImage(root('c'), image, options('reflink'))).rejects.toMatchObject({
          code: 'bad-request',
          message: expect.stringContaining('share blocks'),
        });
        expect(await without.volumes.exists(root('c'))).toBe(false);
        await without.destroy();
      } finally {
        await command('umount', [plain]);
      }
    });
  });
});
