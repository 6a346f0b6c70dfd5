// oxlint-disable max-lines-per-function -- a suite is one function
import { chmod, chown, lchown, lstat, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { volumeKey } from '../common/volume-names.ts';
import type { PoolRecovery, StoragePool } from '../contract.ts';
import { type ConformanceWorld, container, custom, image, manifestOf, OTHER } from './fixtures.ts';

/** A pool that tells what is on it when the records are lost. */
export function describeRecovery(world: ConformanceWorld): void {
  const { options, read, withRoot, write } = world;
  const root = container('default-lost');
  const volume = custom('default_lost');
  const disk = custom('default_lost-disk', 'block');
  const text = `name: lost\nodd: "\u2028 \t'"\n`;
  let pool: StoragePool;
  let recovery: PoolRecovery;

  /** The pool as a server sees it that has no records. */
  const lose = async (): Promise<void> => {
    const driver = world.target.newDriver();
    const config = await driver.reopen?.({ ...world.spec, config: {} });
    if (config === undefined) throw new Error('the driver cannot open a pool again');
    pool = driver.open({ ...world.spec, config });
    await pool.mount();
    recovery = recoveryOf(pool);
  };

  describe('recovery', () => {
    afterAll(async () => {
      for (const one of [root, volume, disk]) await world.pool.volumes.delete(one);
    });

    it('finds volumes and snapshots, and what was told of them', async () => {
      await world.pool.roots.createFromImage(root, image, options());
      await write(root, 'state', 'one');
      await world.pool.volumes.create(volume, { config: world.config });
      await world.pool.volumes.create(disk, { size: 4 * 1024 ** 2, config: world.config });
      await world.pool.snapshots.create(volume, 'a-b', { running: false });
      const before = recoveryOf(world.pool);
      await before.describe(undefined, new Map([['pool.yaml', 'pool']]));
      for (const one of [root, volume, disk]) {
        await before.describe(one, new Map([['backup.yaml', 'old']]));
        await before.describe(one, new Map([['backup.yaml', text + one.name]]));
      }
      await lose();
      const found = (await recovery.scan()).filter(({ volume: { name } }) => name.includes('lost'));
      expect(found.toSorted((a, b) => (volumeKey(a.volume) < volumeKey(b.volume) ? -1 : 1))).toEqual([
        { volume: root, snapshots: [] },
        { volume, snapshots: ['a-b'] },
        // Where no file tells, a description has to.
        { volume: { ...disk, contentType: expect.stringMatching(/block|filesystem/) }, snapshots: [] },
      ]);
      expect(await recovery.read(undefined, 'pool.yaml')).toBe('pool');
      for (const one of [volume, disk]) expect(await recovery.read(one, 'backup.yaml')).toBe(text + one.name);
      expect(await told(recovery, root, 'backup.yaml')).toBe(text + root.name);
      expect(await told(recovery, root, 'metadata.yaml')).toBeUndefined();
      expect(await readdir(await world.pool.volumes.mount(volume))).not.toContain('backup.yaml');
      await world.pool.volumes.unmount(volume);
      expect(await read(root, 'state')).toBe('one');
    });

    it('keeps what is told of a mounted root in its snapshots too', async () => {
      const { path } = await world.pool.roots.mount(root, options());
      const files = new Map([
        ['backup.yaml', 'then'],
        ['templates/job', 'text'],
      ]);
      await recoveryOf(world.pool).describe(root, files);
      expect(await readdir(path)).not.toContain('backup.yaml');
      expect((await stat(join(dirname(path), 'backup.yaml'))).mode & 0o7777).toBe(0o400);
      await world.pool.snapshots.create(root, 's0', { running: true });
      await recoveryOf(world.pool).describe(root, new Map([['backup.yaml', 'now']]));
      await world.pool.roots.unmount(root);
      await lose();
      const at = { ...root, snapshot: 's0' };
      const kept = world.target.layout !== 'own'; // else a snapshot has no folder around its root
      expect(await recovery.read(at, 'backup.yaml')).toBe(kept ? 'then' : undefined);
      expect(await recovery.read(at, 'templates/job')).toBe(kept ? 'text' : undefined);
      expect(await recovery.read(root, 'backup.yaml')).toBe('now');
      await expect(recovery.read(at, '../../outside')).rejects.toMatchObject({ code: 'bad-request' });
    });

    it('follows no link in place of a file', async () => {
      const victim = join(dirname(world.spec.path), 'victim');
      await writeFile(victim, 'precious');
      const { path } = await world.pool.roots.mount(root, options());
      for (const name of ['backup.yaml', 'templates']) {
        await rm(join(dirname(path), name), { recursive: true });
        await symlink(name === 'templates' ? dirname(victim) : victim, join(dirname(path), name));
      }
      expect(await recoveryOf(world.pool).read(root, 'backup.yaml')).toBeUndefined();
      expect(await recoveryOf(world.pool).read(root, 'templates/victim')).toBeUndefined();
      const files = new Map([
        ['backup.yaml', 'own'],
        ['templates/victim', 'own'],
      ]);
      await recoveryOf(world.pool).describe(root, files);
      expect(await readFile(victim, 'utf8')).toBe('precious');
      expect((await lstat(join(dirname(path), 'templates'))).isDirectory()).toBe(true);
      await world.pool.roots.unmount(root);
      await rm(victim);
    });

    it('forgets what is gone, and minds nothing that is not there', async () => {
      const before = recoveryOf(world.pool);
      await before.forget(volume);
      expect(await before.read(volume, 'backup.yaml')).toBeUndefined();
      await before.forget(volume);
      await before.forget(custom('default_never'));
      await before.describe(container('never'), new Map([['backup.yaml', 'x']]));
      expect((await before.scan()).filter(({ volume: { name } }) => name === 'never')).toEqual([]);
      await before.forget(container('never'));
      expect(await before.read(container('never'), 'backup.yaml')).toBeUndefined();
    });

    it('gives files guest ids where they carry those of a host', async () => {
      const shifted = container('shifted');
      if (world.target.layout === 'own') return; // no server has laid out a root like that
      await world.pool.roots.createFromImage(shifted, image, options());
      const shift = async (by: number) =>
        withRoot(shifted, async (path) => {
          const done = new Set<number>();
          for (const entry of ['', ...(await readdir(path, { recursive: true }))]) {
            const { uid, gid, mode, ino } = await lstat(join(path, entry));
            if (done.has(ino)) continue;
            done.add(ino);
            await lchown(join(path, entry), uid + by, gid + by);
            if ((mode & 0o170000) === 0o100000) await chmod(join(path, entry), mode & 0o7777);
          }
          await writeFile(join(path, 'state'), String(by));
          await chown(join(path, 'state'), by, by);
        });
      const expected = await withRoot(shifted, (path) => manifestOf(path));
      await shift(OTHER.base);
      await world.pool.snapshots.create(shifted, 's0', { running: false });
      await withRoot(shifted, (path) => writeFile(join(path, 'state'), 'later'));
      await recoveryOf(world.pool).describe(shifted, new Map([['backup.yaml', 'kept']]));
      const ranges = { idRange: OTHER, snapshots: new Map([['s0', OTHER]]), nesting: false };
      await recoveryOf(world.pool).adopt(shifted, ranges);
      await recoveryOf(world.pool).adopt(shifted, ranges); // of no effect
      const states = async () =>
        withRoot(shifted, async (path) => [
          await readFile(join(path, 'state'), 'utf8'),
          (await lstat(join(path, 'state'))).uid,
          (await manifestOf(path)).filter((line) => !line.startsWith('state ')),
        ]);
      expect(await states()).toEqual(['later', 0, expected]);
      expect(await world.pool.snapshots.list(shifted)).toEqual(['s0']);
      await world.pool.snapshots.restore(shifted, 's0');
      expect(await states()).toEqual([String(OTHER.base), 0, expected]);
      expect((await recoveryOf(world.pool).scan()).map(({ volume: { name } }) => name)).not.toContain(
        'keelson.adopting',
      );
      await world.pool.volumes.delete(shifted);
    });
  });
}

function recoveryOf({ recovery }: StoragePool): PoolRecovery {
  if (recovery === undefined) throw new Error('the pool keeps nothing for recovery');
  return recovery;
}

async function told(recovery: PoolRecovery, volume: ReturnType<typeof container>, name: string) {
  const files = await recovery.files?.(volume);
  return files === undefined ? recovery.read(volume, name) : files.get(name);
}
