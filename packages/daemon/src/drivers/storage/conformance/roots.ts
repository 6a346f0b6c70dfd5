// oxlint-disable max-lines-per-function -- a suite is one function
import { chown, readdir, readFile, readlink, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { type ConformanceWorld, container, custom, image, mountsBelow, OTHER, RANGE } from './fixtures.ts';

/** Clones, fills and mounts of instance roots. */
export function describeRoots(world: ConformanceWorld): void {
  const { config, options, read, reopen, withRoot, write } = world;

  it('clones an image with the ids of the range', async () => {
    await world.pool.roots.createFromImage(container('c1'), image, options());
    await expect(world.pool.roots.createFromImage(container('c1'), image, options())).rejects.toMatchObject({
      code: 'conflict',
    });
    await withRoot(container('c1'), async (path, base) => {
      expect(await stat(path)).toMatchObject({ uid: base, gid: base });
      expect((await stat(path)).mode & 0o7777).toBe(0o755);
      expect(await stat(join(path, 'etc/hostname'))).toMatchObject({ uid: base + 1, gid: base + 2 });
      expect((await stat(join(path, 'bin/tool'))).mode & 0o7777).toBe(0o4755);
      expect((await stat(join(path, 'bin/tool'))).nlink).toBe(2);
      expect(await readlink(join(path, 'bin/link'))).toBe('/etc/hostname');
      await writeFile(join(path, 'etc/hostname'), 'changed');
      await rename(join(path, 'srv'), join(path, 'moved'));
      await rm(join(path, 'bin'), { recursive: true });
    });
    expect(await read(container('c1'), 'etc/hostname')).toBe('changed');
    expect(await withRoot(container('c1'), async (path) => (await readdir(path)).sort())).toEqual(['etc', 'moved']);
    expect(await withRoot(container('c1'), async (path) => readdir(join(path, 'moved')))).toEqual(['data']);
    expect(await readFile(join(await world.pool.volumes.mount(image), 'rootfs/etc/hostname'), 'utf8')).toBe('image');
  });

  it('mounts once, however often it is asked', async () => {
    const first = await world.pool.roots.mount(container('c1'), options());
    expect(await world.pool.roots.mount(container('c1'), options())).toEqual(first);
    await world.pool.roots.unmount(container('c1'));
    await world.pool.roots.unmount(container('c1'));
    expect(mountsBelow(join(world.spec.path, 'containers'))).toEqual([]);
  });

  it('keeps other users of the host out', async () => {
    for (const path of ['custom', 'images', 'virtual-machines'])
      expect((await stat(join(world.spec.path, path))).mode & 0o077).toBe(0);
    expect((await stat(join(world.spec.path, 'containers'))).mode & 0o066).toBe(0);
    expect((await stat(join(world.spec.path, 'containers/c1'))).mode & 0o077).toBe(0);
  });

  it('keeps the files when the id range changes', async () => {
    await world.pool.roots.createFromImage(container('ids'), image, options());
    await write(container('ids'), 'mine', 'text');
    await withRoot(
      container('ids'),
      async (path, base) => {
        expect(await stat(join(path, 'mine'))).toMatchObject({ uid: base, gid: base });
        expect(await stat(join(path, 'etc/hostname'))).toMatchObject({ uid: base + 1 });
        await writeFile(join(path, 'other'), 'x');
        await chown(join(path, 'other'), base + 5, base + 5);
      },
      options(OTHER),
    );
    await withRoot(container('ids'), async (path, base) => {
      expect(await stat(join(path, 'other'))).toMatchObject({ uid: base + 5 });
      expect(await readFile(join(path, 'mine'), 'utf8')).toBe('text');
    });
    await world.pool.volumes.delete(container('ids'));
  });

  it('fills a root with guest ids', async () => {
    await world.pool.roots.createFilled(container('filled'), options(), async (path) => {
      await writeFile(join(path, 'file'), 'x');
      await chown(join(path, 'file'), 7, 8);
    });
    await withRoot(container('filled'), async (path, base) => {
      expect(await stat(join(path, 'file'))).toMatchObject({ uid: base + 7, gid: base + 8 });
      expect(await stat(path)).toMatchObject({ uid: base });
    });
    await world.pool.volumes.delete(container('filled'));
    await world.pool.roots.createFilled(container('empty'), options());
    expect(await withRoot(container('empty'), (path) => readdir(path))).toEqual([]);
    await world.pool.volumes.delete(container('empty'));
  });

  it('leaves nothing behind when a fill fails', async () => {
    const failing = async (path: string) => {
      await writeFile(join(path, 'half'), 'x');
      throw new Error('truncated');
    };
    await expect(world.pool.roots.createFilled(container('half'), options(), failing)).rejects.toThrow('truncated');
    await expect(world.pool.volumes.createFilled(custom('half'), failing, { config })).rejects.toThrow('truncated');
    expect(await world.pool.volumes.exists(container('half'))).toBe(false);
    expect(await world.pool.volumes.exists(custom('half'))).toBe(false);
  });

  it('gives a nesting guest a root that can hold overlays', async () => {
    await world.pool.roots.createFromImage(container('nest'), image, options(RANGE, true));
    await withRoot(
      container('nest'),
      async (path, base) => {
        expect(await stat(join(path, 'etc/hostname'))).toMatchObject({ uid: base + 1 });
        expect(mountsBelow(path).map(({ type }) => type)).not.toContain('overlay');
      },
      options(RANGE, true),
    );
    await world.pool.snapshots.create(container('nest'), 's0', { running: false });
    await write(container('nest'), 'after', 'x');
    await world.pool.snapshots.restore(container('nest'), 's0');
    expect(await withRoot(container('nest'), (path) => readdir(path))).not.toContain('after');
    await world.pool.volumes.delete(container('nest'));
  });

  it('gives a guest that nests from now on such a root, with all it had', async () => {
    const volume = container('later');
    await world.pool.roots.createFromImage(volume, image, options());
    await write(volume, 'state', 'one');
    await world.pool.snapshots.create(volume, 's0', { running: false });
    await write(volume, 'state', 'two');
    await withRoot(volume, (path) => rm(join(path, 'srv'), { recursive: true }));
    const nesting = options(RANGE, true);
    const look = () =>
      withRoot(
        volume,
        async (path, base) => {
          expect(mountsBelow(path).map(({ type }) => type)).not.toContain('overlay');
          expect(await stat(join(path, 'etc/hostname'))).toMatchObject({ uid: base + 1, gid: base + 2 });
          expect((await stat(join(path, 'bin/tool'))).nlink).toBe(2);
          expect((await readdir(path)).sort()).toEqual(['bin', 'etc', 'state']);
          return readFile(join(path, 'state'), 'utf8');
        },
        nesting,
      );
    expect(await look()).toBe('two');
    await reopen();
    expect(await look()).toBe('two');
    await world.pool.snapshots.restore(volume, 's0');
    expect(await withRoot(volume, (path) => readFile(join(path, 'state'), 'utf8'), nesting)).toBe('one');
    await world.pool.volumes.delete(volume);
  });

  it('names the image a root stands on', async () => {
    await world.pool.roots.createFromImage(container('stands'), image, options());
    const named = await world.pool.roots.imageOf(container('stands'));
    expect([undefined, image.name]).toContain(named);
    await world.pool.volumes.delete(container('stands'));
    expect(await world.pool.roots.imageOf(container('stands'))).toBeUndefined();
  });
}
