// oxlint-disable max-lines-per-function -- a suite is one function
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type ConformanceWorld, container, image, OTHER } from './fixtures.ts';

/** Snapshots of instance roots. */
export function describeRootSnapshots(world: ConformanceWorld): void {
  const { options, read, reopen, withRoot, write } = world;

  describe('root snapshots', () => {
    const volume = container('snap');

    it('keep what was there', async () => {
      await world.pool.roots.createFromImage(volume, image, options());
      await write(volume, 'state', 'one');
      await world.pool.snapshots.create(volume, 's1', { running: false });
      await expect(world.pool.snapshots.create(volume, 's1', { running: false })).rejects.toMatchObject({
        code: 'conflict',
      });
      await write(volume, 'state', 'two');
      await withRoot(volume, (path) => rm(join(path, 'etc'), { recursive: true }));
      await world.pool.snapshots.create(volume, 's2', { running: false });
      expect(await world.pool.snapshots.list(volume)).toEqual(['s1', 's2']);
      const { path } = await world.pool.snapshots.mount(volume, 's1', options());
      expect(await readFile(join(path, 'state'), 'utf8')).toBe('one');
      await expect(writeFile(join(path, 'state'), 'x')).rejects.toMatchObject({ code: 'EROFS' });
      await world.pool.snapshots.unmount(volume, 's1');
    });

    it('copy a root that is in use', async () => {
      const { path } = await world.pool.roots.mount(volume, options());
      await writeFile(join(path, 'state'), 'live');
      await rm(join(path, 'srv'), { recursive: true });
      await mkdir(join(path, 'srv'));
      await writeFile(join(path, 'srv/fresh'), 'x');
      await world.pool.snapshots.create(volume, 'live', { running: true });
      await writeFile(join(path, 'state'), 'later');
      expect(await readFile(join(path, 'state'), 'utf8')).toBe('later');
      await world.pool.roots.unmount(volume);
    });

    it('come back, each to its own content', async () => {
      await world.pool.snapshots.restore(volume, 'live');
      expect(await read(volume, 'state')).toBe('live');
      expect(await withRoot(volume, (path) => readdir(join(path, 'srv')))).toEqual(['fresh']);
      if (world.target.restores === 'newest') {
        await expect(world.pool.snapshots.restore(volume, 's1')).rejects.toMatchObject({ code: 'bad-request' });
        return;
      }
      await world.pool.snapshots.restore(volume, 's1');
      expect(await read(volume, 'state')).toBe('one');
      expect(await read(volume, 'etc/hostname')).toBe('image');
      await world.pool.snapshots.restore(volume, 's2');
      expect(await read(volume, 'state')).toBe('two');
      expect(await withRoot(volume, (path) => readdir(path))).not.toContain('etc');
    });

    it('are renamed, deleted and survive a restart', async () => {
      await world.pool.snapshots.rename(volume, 's1', 'first');
      await world.pool.snapshots.delete(volume, 's2');
      await world.pool.snapshots.delete(volume, 's2');
      await reopen();
      expect(await world.pool.snapshots.list(volume)).toEqual(['first', 'live']);
      if (world.target.restores === 'newest') await world.pool.snapshots.delete(volume, 'live');
      await world.pool.snapshots.restore(volume, 'first');
      expect(await read(volume, 'state')).toBe('one');
      await expect(world.pool.snapshots.restore(volume, 'gone')).rejects.toMatchObject({ code: 'not-found' });
    });

    it('go along with a copy when asked', async () => {
      const copy = container('copy');
      await write(volume, 'state', 'newest');
      await world.pool.roots.copy(volume, copy, { ...options(OTHER), snapshots: ['first'] });
      await withRoot(
        copy,
        async (path, base) => {
          expect(await readFile(join(path, 'state'), 'utf8')).toBe('newest');
          expect(await stat(join(path, 'state'))).toMatchObject({ uid: base });
        },
        options(OTHER),
      );
      expect(await world.pool.snapshots.list(copy)).toEqual(['first']);
      await world.pool.snapshots.restore(copy, 'first');
      expect(await withRoot(copy, (path) => readFile(join(path, 'state'), 'utf8'), options(OTHER))).toBe('one');
      expect(await read(volume, 'state')).toBe('newest');
      await world.pool.roots.copy({ ...volume, snapshot: 'first' }, container('copy2'), options());
      expect(await read(container('copy2'), 'state')).toBe('one');
    });

    it('outlive the root they were copied from', async () => {
      await world.pool.volumes.delete(volume);
      await reopen();
      expect(await withRoot(container('copy'), (path) => readFile(join(path, 'state'), 'utf8'), options(OTHER))).toBe(
        'one',
      );
      await world.pool.volumes.rename(container('copy'), 'renamed');
      await reopen();
      expect(await world.pool.snapshots.list(container('renamed'))).toEqual(['first']);
      await world.pool.volumes.delete(container('renamed'));
      await world.pool.volumes.delete(container('copy2'));
    });

    it('may be many', { timeout: 900_000 }, async () => {
      const many = container('many');
      const { many: count = 40 } = world.target;
      await world.pool.roots.createFromImage(many, image, options());
      for (let number = 0; number < count; number++) {
        await write(many, 'count', String(number));
        await world.pool.snapshots.create(many, `s${number}`, { running: false });
      }
      expect(await read(many, 'etc/hostname')).toBe('image');
      for (let number = 8; number < count && world.target.restores === 'newest'; number++)
        await world.pool.snapshots.delete(many, `s${number}`);
      await world.pool.snapshots.restore(many, 's7');
      expect(await read(many, 'count')).toBe('7');
      await world.pool.volumes.delete(many);
    });
  });
}
