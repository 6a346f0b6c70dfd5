// oxlint-disable max-lines-per-function -- a suite is one function
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type ConformanceWorld, custom, fillTree, manifestOf, sizeAt } from './fixtures.ts';

/** Custom volumes of files and of blocks. */
export function describeVolumes(world: ConformanceWorld): void {
  const { config } = world;

  describe('custom volumes', () => {
    it('keep owners, modes, links and attributes through copies and snapshots', async () => {
      await world.pool.volumes.create(custom('v1'), { config });
      await expect(world.pool.volumes.create(custom('v1'), { config })).rejects.toMatchObject({ code: 'conflict' });
      const path = await world.pool.volumes.mount(custom('v1'));
      await fillTree(path);
      const before = await manifestOf(path);
      await world.pool.snapshots.create(custom('v1'), 's0', { running: false });
      await rm(join(path, 'etc'), { recursive: true });
      await world.pool.volumes.copy({ ...custom('v1'), snapshot: 's0' }, custom('v2'), { config });
      expect(await manifestOf(await world.pool.volumes.mount(custom('v2')))).toEqual(before);
      await world.pool.volumes.unmount(custom('v1'));
      await world.pool.snapshots.restore(custom('v1'), 's0');
      expect(await manifestOf(await world.pool.volumes.mount(custom('v1')))).toEqual(before);
      await world.pool.volumes.unmount(custom('v1'));
      await world.pool.volumes.unmount(custom('v2'));
    });

    it('are renamed with their snapshots and deleted', async () => {
      await world.pool.volumes.rename(custom('v1'), 'v1-new');
      await world.pool.volumes.rename(custom('v1'), 'v1-new');
      expect(await world.pool.snapshots.list(custom('v1-new'))).toEqual(['s0']);
      await world.pool.snapshots.rename(custom('v1-new'), 's0', 's1');
      await world.pool.volumes.copy(custom('v1-new'), custom('v3'), { snapshots: ['s1'], config });
      expect(await world.pool.snapshots.list(custom('v3'))).toEqual(['s1']);
      for (const volume of ['v1-new', 'v2', 'v3']) await world.pool.volumes.delete(custom(volume));
      await world.pool.volumes.delete(custom('v3'));
      expect(await world.pool.volumes.exists(custom('v3'))).toBe(false);
      expect(await world.pool.snapshots.list(custom('v3'))).toEqual([]);
    });

    it('may be blocks', async () => {
      const block = custom('disk', 'block');
      await world.pool.volumes.create(block, { size: 16 * 1024 * 1024, config });
      const path = await world.pool.volumes.mount(block);
      expect(await sizeAt(path)).toBe(16 * 1024 * 1024);
      await world.pool.quota?.set(block, 32 * 1024 * 1024);
      expect(await sizeAt(path)).toBe(32 * 1024 * 1024);
      await expect(world.pool.quota?.set(block, 1024)).rejects.toMatchObject({ code: 'bad-request' });
      await world.pool.volumes.delete(block);
    });

    it.each(['..', '.', 'a/b', ''])('cannot be called %j', async (bad) => {
      await expect(world.pool.volumes.create(custom(bad), { config })).rejects.toMatchObject({ code: 'bad-request' });
    });
  });
}
