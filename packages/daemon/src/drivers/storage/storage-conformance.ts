import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ConformanceTarget, ConformanceWorld, container, image, mountsBelow } from './conformance/fixtures.ts';
import { describeRecovery } from './conformance/recovery.ts';
import { describeRootSnapshots } from './conformance/root-snapshots.ts';
import { describeRoots } from './conformance/roots.ts';
import { describeVolumes } from './conformance/volumes.ts';

/** What every storage driver promises; run it as root on a real file system. */
export function describeStorageDriver(name: string, target: ConformanceTarget): void {
  describe(`storage driver ${name}`, () => {
    const world = new ConformanceWorld(target);
    const { options, read, reopen } = world;

    beforeAll(() => world.open());
    afterAll(() => world.close());

    it('says what it can do', { timeout: 90_000 }, async () => {
      expect(await world.target.newDriver().probe()).toMatchObject({ supported: true });
      const space = async () => (await world.pool.resources()).space;
      // A cluster counts what it holds every few seconds only.
      await expect.poll(async () => (await space()).used, { timeout: 60_000, interval: 500 }).toBeGreaterThan(0);
      const { total, used } = await space();
      expect(total).toBeGreaterThan(used);
    });

    describeRoots(world);
    describeRootSnapshots(world);
    describeVolumes(world);
    describeRecovery(world);

    it('leaves no mount and no scratch', async () => {
      await world.pool.volumes.delete(container('c1'));
      await reopen();
      expect(mountsBelow(`${world.spec.path}/`)).toEqual([]);
      expect(await readdir(join(world.spec.path, 'staging'))).toEqual([]);
      expect((await readdir(join(world.spec.path, 'containers'))).sort()).toEqual([]);
    });

    it('is mounted again after it was unmounted', async () => {
      await world.pool.roots.createFromImage(container('again'), image, options());
      await world.pool.unmount();
      await reopen();
      expect(await read(container('again'), 'etc/hostname')).toBe('image');
    });
  });
}
