// oxlint-disable max-lines-per-function -- a suite is one function
import { execFileSync } from 'node:child_process';
import {
  chmod,
  chown,
  link,
  lstat,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { IdRange, PoolSpec, RootOptions, StorageDriver, StoragePool, VolumeRef } from './contract.ts';

export interface ConformanceTarget {
  /** A driver of its own, as a daemon that just started has one. */
  readonly newDriver: () => StorageDriver;
  /** Pool definition; `folder` is scratch space on the file system under test. */
  readonly spec: (folder: string) => PoolSpec;
  /** Where scratch folders are made; default the system's temporary folder. */
  readonly base?: string;
  /** What the services say of every volume; default nothing. */
  readonly volumeConfig?: Readonly<Record<string, string>>;
  /** `newest`: a snapshot with later ones is not restored while they are there. Default `any`. */
  readonly restores?: 'any' | 'newest';
}

const RANGE: IdRange = { base: 1_000_000, size: 65_536 };
const OTHER: IdRange = { base: 2_000_000, size: 65_536 };
const container = (name: string): VolumeRef => ({ type: 'container', name, contentType: 'filesystem' });
const image: VolumeRef = { type: 'image', name: 'a'.repeat(64), contentType: 'filesystem' };
const custom = (name: string, contentType: VolumeRef['contentType'] = 'filesystem'): VolumeRef => ({
  type: 'custom',
  name,
  contentType,
});

/** What every storage driver promises; run it as root on a real file system. */
export function describeStorageDriver(name: string, target: ConformanceTarget): void {
  describe(`storage driver ${name}`, () => {
    const config = target.volumeConfig ?? {};
    const options = (idRange: IdRange | undefined = RANGE, nesting = false): RootOptions => ({
      idRange,
      clone: 'auto',
      nesting,
      config,
    });
    let folder: string;
    let spec: PoolSpec;
    let pool: StoragePool;

    /** The pool as a daemon sees it that was killed and started again. */
    const reopen = async () => {
      pool = target.newDriver().open(spec);
      await pool.mount();
      await pool.recover([]);
    };

    beforeAll(async () => {
      folder = await mkdtemp(join(target.base ?? tmpdir(), 'storage-conformance-'));
      const asked = target.spec(folder);
      const driver = target.newDriver();
      spec = { ...asked, config: await driver.prepare(asked) };
      await driver.create(spec);
      pool = driver.open(spec);
      await pool.mount();
      await pool.volumes.createFilled(image, fillImage, { config });
    });
    afterAll(async () => {
      await pool?.destroy();
      await rm(folder, { recursive: true, force: true });
    });

    const withRoot = async <T>(
      volume: VolumeRef,
      use: (path: string, base: number) => Promise<T>,
      how = options(),
    ): Promise<T> => {
      const { path, ids } = await pool.roots.mount(volume, how);
      try {
        return await use(path, ids === 'shifted' ? (how.idRange?.base ?? 0) : 0);
      } finally {
        await pool.roots.unmount(volume);
      }
    };
    const read = (volume: VolumeRef, file: string) => withRoot(volume, (path) => readFile(join(path, file), 'utf8'));
    const write = (volume: VolumeRef, file: string, text: string) =>
      withRoot(volume, async (path, base) => {
        await writeFile(join(path, file), text);
        await chown(join(path, file), base, base);
      });

    it('says what it can do', async () => {
      expect(await target.newDriver().probe()).toMatchObject({ supported: true });
      const { space } = await pool.resources();
      expect(space.total).toBeGreaterThan(space.used);
      expect(space.used).toBeGreaterThan(0);
    });

    it('clones an image with the ids of the range', async () => {
      await pool.roots.createFromImage(container('c1'), image, options());
      await expect(pool.roots.createFromImage(container('c1'), image, options())).rejects.toMatchObject({
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
      expect(await readFile(join(await pool.volumes.mount(image), 'rootfs/etc/hostname'), 'utf8')).toBe('image');
    });

    it('mounts once, however often it is asked', async () => {
      const first = await pool.roots.mount(container('c1'), options());
      expect(await pool.roots.mount(container('c1'), options())).toEqual(first);
      await pool.roots.unmount(container('c1'));
      await pool.roots.unmount(container('c1'));
      expect(mountsBelow(join(spec.path, 'containers'))).toEqual([]);
    });

    it('keeps other users of the host out', async () => {
      for (const path of ['custom', 'images', 'virtual-machines'])
        expect((await stat(join(spec.path, path))).mode & 0o077).toBe(0);
      expect((await stat(join(spec.path, 'containers'))).mode & 0o066).toBe(0);
      expect((await stat(join(spec.path, 'containers/c1'))).mode & 0o077).toBe(0);
    });

    it('keeps the files when the id range changes', async () => {
      await pool.roots.createFromImage(container('ids'), image, options());
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
      await pool.volumes.delete(container('ids'));
    });

    it('fills a root with guest ids', async () => {
      await pool.roots.createFilled(container('filled'), options(), async (path) => {
        await writeFile(join(path, 'file'), 'x');
        await chown(join(path, 'file'), 7, 8);
      });
      await withRoot(container('filled'), async (path, base) => {
        expect(await stat(join(path, 'file'))).toMatchObject({ uid: base + 7, gid: base + 8 });
        expect(await stat(path)).toMatchObject({ uid: base });
      });
      await pool.volumes.delete(container('filled'));
      await pool.roots.createFilled(container('empty'), options());
      expect(await withRoot(container('empty'), (path) => readdir(path))).toEqual([]);
      await pool.volumes.delete(container('empty'));
    });

    it('leaves nothing behind when a fill fails', async () => {
      const failing = async (path: string) => {
        await writeFile(join(path, 'half'), 'x');
        throw new Error('truncated');
      };
      await expect(pool.roots.createFilled(container('half'), options(), failing)).rejects.toThrow('truncated');
      await expect(pool.volumes.createFilled(custom('half'), failing, { config })).rejects.toThrow('truncated');
      expect(await pool.volumes.exists(container('half'))).toBe(false);
      expect(await pool.volumes.exists(custom('half'))).toBe(false);
    });

    it('gives a nesting guest a root that can hold overlays', async () => {
      await pool.roots.createFromImage(container('nest'), image, options(RANGE, true));
      await withRoot(
        container('nest'),
        async (path, base) => {
          expect(await stat(join(path, 'etc/hostname'))).toMatchObject({ uid: base + 1 });
          expect(mountsBelow(path).map(({ type }) => type)).not.toContain('overlay');
        },
        options(RANGE, true),
      );
      await pool.snapshots.create(container('nest'), 's0', { running: false });
      await write(container('nest'), 'after', 'x');
      await pool.snapshots.restore(container('nest'), 's0');
      expect(await withRoot(container('nest'), (path) => readdir(path))).not.toContain('after');
      await pool.volumes.delete(container('nest'));
    });

    it('gives a guest that nests from now on such a root, with all it had', async () => {
      const volume = container('later');
      await pool.roots.createFromImage(volume, image, options());
      await write(volume, 'state', 'one');
      await pool.snapshots.create(volume, 's0', { running: false });
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
      await pool.snapshots.restore(volume, 's0');
      expect(await withRoot(volume, (path) => readFile(join(path, 'state'), 'utf8'), nesting)).toBe('one');
      await pool.volumes.delete(volume);
    });

    describe('root snapshots', () => {
      const volume = container('snap');

      it('keep what was there', async () => {
        await pool.roots.createFromImage(volume, image, options());
        await write(volume, 'state', 'one');
        await pool.snapshots.create(volume, 's1', { running: false });
        await expect(pool.snapshots.create(volume, 's1', { running: false })).rejects.toMatchObject({
          code: 'conflict',
        });
        await write(volume, 'state', 'two');
        await withRoot(volume, (path) => rm(join(path, 'etc'), { recursive: true }));
        await pool.snapshots.create(volume, 's2', { running: false });
        expect(await pool.snapshots.list(volume)).toEqual(['s1', 's2']);
        const { path } = await pool.snapshots.mount(volume, 's1', options());
        expect(await readFile(join(path, 'state'), 'utf8')).toBe('one');
        await expect(writeFile(join(path, 'state'), 'x')).rejects.toMatchObject({ code: 'EROFS' });
        await pool.snapshots.unmount(volume, 's1');
      });

      it('copy a root that is in use', async () => {
        const { path } = await pool.roots.mount(volume, options());
        await writeFile(join(path, 'state'), 'live');
        await rm(join(path, 'srv'), { recursive: true });
        await mkdir(join(path, 'srv'));
        await writeFile(join(path, 'srv/fresh'), 'x');
        await pool.snapshots.create(volume, 'live', { running: true });
        await writeFile(join(path, 'state'), 'later');
        expect(await readFile(join(path, 'state'), 'utf8')).toBe('later');
        await pool.roots.unmount(volume);
      });

      it('come back, each to its own content', async () => {
        await pool.snapshots.restore(volume, 'live');
        expect(await read(volume, 'state')).toBe('live');
        expect(await withRoot(volume, (path) => readdir(join(path, 'srv')))).toEqual(['fresh']);
        if (target.restores === 'newest') {
          await expect(pool.snapshots.restore(volume, 's1')).rejects.toMatchObject({ code: 'bad-request' });
          return;
        }
        await pool.snapshots.restore(volume, 's1');
        expect(await read(volume, 'state')).toBe('one');
        expect(await read(volume, 'etc/hostname')).toBe('image');
        await pool.snapshots.restore(volume, 's2');
        expect(await read(volume, 'state')).toBe('two');
        expect(await withRoot(volume, (path) => readdir(path))).not.toContain('etc');
      });

      it('are renamed, deleted and survive a restart', async () => {
        await pool.snapshots.rename(volume, 's1', 'first');
        await pool.snapshots.delete(volume, 's2');
        await pool.snapshots.delete(volume, 's2');
        await reopen();
        expect(await pool.snapshots.list(volume)).toEqual(['first', 'live']);
        if (target.restores === 'newest') await pool.snapshots.delete(volume, 'live');
        await pool.snapshots.restore(volume, 'first');
        expect(await read(volume, 'state')).toBe('one');
        await expect(pool.snapshots.restore(volume, 'gone')).rejects.toMatchObject({ code: 'not-found' });
      });

      it('go along with a copy when asked', async () => {
        const copy = container('copy');
        await write(volume, 'state', 'newest');
        await pool.roots.copy(volume, copy, { ...options(OTHER), snapshots: ['first'] });
        await withRoot(
          copy,
          async (path, base) => {
            expect(await readFile(join(path, 'state'), 'utf8')).toBe('newest');
            expect(await stat(join(path, 'state'))).toMatchObject({ uid: base });
          },
          options(OTHER),
        );
        expect(await pool.snapshots.list(copy)).toEqual(['first']);
        await pool.snapshots.restore(copy, 'first');
        expect(await withRoot(copy, (path) => readFile(join(path, 'state'), 'utf8'), options(OTHER))).toBe('one');
        expect(await read(volume, 'state')).toBe('newest');
        await pool.roots.copy({ ...volume, snapshot: 'first' }, container('copy2'), options());
        expect(await read(container('copy2'), 'state')).toBe('one');
      });

      it('outlive the root they were copied from', async () => {
        await pool.volumes.delete(volume);
        await reopen();
        expect(await withRoot(container('copy'), (path) => readFile(join(path, 'state'), 'utf8'), options(OTHER))).toBe(
          'one',
        );
        await pool.volumes.rename(container('copy'), 'renamed');
        await reopen();
        expect(await pool.snapshots.list(container('renamed'))).toEqual(['first']);
        await pool.volumes.delete(container('renamed'));
        await pool.volumes.delete(container('copy2'));
      });

      it('may be many', { timeout: 900_000 }, async () => {
        const many = container('many');
        await pool.roots.createFromImage(many, image, options());
        for (let number = 0; number < 40; number++) {
          await write(many, 'count', String(number));
          await pool.snapshots.create(many, `s${number}`, { running: false });
        }
        expect(await read(many, 'etc/hostname')).toBe('image');
        for (let number = 8; number < 40 && target.restores === 'newest'; number++)
          await pool.snapshots.delete(many, `s${number}`);
        await pool.snapshots.restore(many, 's7');
        expect(await read(many, 'count')).toBe('7');
        await pool.volumes.delete(many);
      });
    });

    it('names the image a root stands on', async () => {
      await pool.roots.createFromImage(container('stands'), image, options());
      const named = await pool.roots.imageOf(container('stands'));
      expect([undefined, image.name]).toContain(named);
      await pool.volumes.delete(container('stands'));
      expect(await pool.roots.imageOf(container('stands'))).toBeUndefined();
    });

    describe('custom volumes', () => {
      it('keep owners, modes, links and attributes through copies and snapshots', async () => {
        await pool.volumes.create(custom('v1'), { config });
        await expect(pool.volumes.create(custom('v1'), { config })).rejects.toMatchObject({ code: 'conflict' });
        const path = await pool.volumes.mount(custom('v1'));
        await fillTree(path);
        const before = await manifestOf(path);
        await pool.snapshots.create(custom('v1'), 's0', { running: false });
        await rm(join(path, 'etc'), { recursive: true });
        await pool.volumes.copy({ ...custom('v1'), snapshot: 's0' }, custom('v2'), { config });
        expect(await manifestOf(await pool.volumes.mount(custom('v2')))).toEqual(before);
        await pool.volumes.unmount(custom('v1'));
        await pool.snapshots.restore(custom('v1'), 's0');
        expect(await manifestOf(await pool.volumes.mount(custom('v1')))).toEqual(before);
        await pool.volumes.unmount(custom('v1'));
        await pool.volumes.unmount(custom('v2'));
      });

      it('are renamed with their snapshots and deleted', async () => {
        await pool.volumes.rename(custom('v1'), 'v1-new');
        await pool.volumes.rename(custom('v1'), 'v1-new');
        expect(await pool.snapshots.list(custom('v1-new'))).toEqual(['s0']);
        await pool.snapshots.rename(custom('v1-new'), 's0', 's1');
        await pool.volumes.copy(custom('v1-new'), custom('v3'), { snapshots: ['s1'], config });
        expect(await pool.snapshots.list(custom('v3'))).toEqual(['s1']);
        for (const volume of ['v1-new', 'v2', 'v3']) await pool.volumes.delete(custom(volume));
        await pool.volumes.delete(custom('v3'));
        expect(await pool.volumes.exists(custom('v3'))).toBe(false);
        expect(await pool.snapshots.list(custom('v3'))).toEqual([]);
      });

      it('may be blocks', async () => {
        const block = custom('disk', 'block');
        await pool.volumes.create(block, { size: 16 * 1024 * 1024, config });
        const path = await pool.volumes.mount(block);
        expect(await sizeAt(path)).toBe(16 * 1024 * 1024);
        await pool.quota?.set(block, 32 * 1024 * 1024);
        expect(await sizeAt(path)).toBe(32 * 1024 * 1024);
        await expect(pool.quota?.set(block, 1024)).rejects.toMatchObject({ code: 'bad-request' });
        await pool.volumes.delete(block);
      });

      it.each(['..', '.', 'a/b', ''])('cannot be called %j', async (bad) => {
        await expect(pool.volumes.create(custom(bad), { config })).rejects.toMatchObject({ code: 'bad-request' });
      });
    });

    it('leaves no mount and no scratch', async () => {
      await pool.volumes.delete(container('c1'));
      await reopen();
      expect(mountsBelow(`${spec.path}/`)).toEqual([]);
      expect(await readdir(join(spec.path, 'staging'))).toEqual([]);
      expect((await readdir(join(spec.path, 'containers'))).sort()).toEqual([]);
    });

    it('is mounted again after it was unmounted', async () => {
      await pool.roots.createFromImage(container('again'), image, options());
      await pool.unmount();
      await reopen();
      expect(await read(container('again'), 'etc/hostname')).toBe('image');
    });
  });
}

/** Bytes of a file or a block device. */
async function sizeAt(path: string): Promise<number> {
  const found = await stat(path);
  if (!found.isBlockDevice()) return found.size;
  return Number(execFileSync('blockdev', ['--getsize64', path], { encoding: 'utf8' }));
}

async function fillImage(folder: string): Promise<void> {
  await mkdir(join(folder, 'rootfs'));
  await fillTree(join(folder, 'rootfs'));
  await chmod(join(folder, 'rootfs'), 0o755);
}

/** A small tree with everything a copy can lose. */
export async function fillTree(root: string): Promise<void> {
  await mkdir(join(root, 'etc'));
  await writeFile(join(root, 'etc/hostname'), 'image');
  await chown(join(root, 'etc/hostname'), 1, 2);
  await mkdir(join(root, 'bin'));
  await writeFile(join(root, 'bin/tool'), '#!');
  await chmod(join(root, 'bin/tool'), 0o4755);
  await link(join(root, 'bin/tool'), join(root, 'bin/tool2'));
  await symlink('/etc/hostname', join(root, 'bin/link'));
  await mkdir(join(root, 'srv'));
  const sparse = await open(join(root, 'srv/data'), 'w');
  await sparse.truncate(1024 * 1024);
  await sparse.close();
  execFileSync('setfattr', ['-n', 'user.note', '-v', 'kept', join(root, 'etc/hostname')]);
}

/** Everything a copy can lose, line by line. */
export async function manifestOf(root: string): Promise<string[]> {
  const lines: string[] = [];
  for (const entry of (await readdir(root, { recursive: true })).sort()) {
    const found = await lstat(join(root, entry));
    const { mode, uid, gid, nlink, blocks } = found;
    const size = found.isDirectory() ? 0 : found.size; // a folder's is the file system's own affair
    lines.push([entry, mode.toString(8), uid, gid, size, nlink, size > 0 && blocks === 0 ? 'sparse' : ''].join(' '));
  }
  const note = execFileSync('getfattr', [
    '--absolute-names',
    '--only-values',
    '-n',
    'user.note',
    join(root, 'etc/hostname'),
  ]);
  return [...lines, note.toString()];
}

function mountsBelow(prefix: string): { target: string; type: string }[] {
  return execFileSync('findmnt', ['--list', '--noheadings', '--output', 'TARGET,FSTYPE'], { encoding: 'utf8' })
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .map(([target = '', type = '']) => ({ target, type }))
    .filter(({ target }) => target.startsWith(prefix));
}
