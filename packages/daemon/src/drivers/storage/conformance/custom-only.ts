// oxlint-disable max-lines-per-function -- a suite is one function
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PoolSpec, RootOptions, StoragePool, VolumeRef } from '../contract.ts';
import { type ConformanceTarget, fillTree, manifestOf } from './fixtures.ts';

const plain: RootOptions = { idRange: undefined, clone: 'auto', nesting: false };
const custom = (name: string): VolumeRef => ({ type: 'custom', name, contentType: 'filesystem' });

/** What a driver promises that keeps custom file system volumes and nothing else. */
export function describeCustomVolumes(name: string, target: ConformanceTarget): void {
  describe(`custom volumes of ${name}`, () => {
    let folder: string;
    let spec: PoolSpec;
    let pool: StoragePool;

    /** The pool as a daemon sees it that was killed and started again. */
    const reopen = async () => {
      pool = target.newDriver().open(spec);
      await pool.mount();
      await pool.recover([]);
    };
    const write = async (volume: VolumeRef, file: string, text: string) => {
      await writeFile(join(await pool.volumes.mount(volume), file), text);
      await pool.volumes.unmount(volume);
    };
    const read = async (volume: VolumeRef, file: string) => {
      const text = await readFile(join(await pool.volumes.mount(volume), file), 'utf8');
      await pool.volumes.unmount(volume);
      return text;
    };

    beforeAll(async () => {
      folder = await mkdtemp(join(target.base ?? tmpdir(), 'custom-conformance-'));
      const asked = target.spec(folder);
      const driver = target.newDriver();
      spec = { ...asked, config: await driver.prepare(asked) };
      await driver.create(spec);
      pool = driver.open(spec);
      await pool.mount();
    }, 60_000);
    afterAll(async () => {
      await pool?.destroy();
      await rm(folder, { recursive: true, force: true });
    }, 60_000);

    it('are kept, and nothing else', async () => {
      expect(await target.newDriver().probe()).toMatchObject({ supported: true });
      const container: VolumeRef = { type: 'container', name: 'c1', contentType: 'filesystem' };
      const image: VolumeRef = { type: 'image', name: 'a'.repeat(64), contentType: 'filesystem' };
      await expect(pool.roots.createFilled(container, plain)).rejects.toMatchObject({ code: 'bad-request' });
      await expect(pool.roots.createFromImage(container, image, plain)).rejects.toMatchObject({ code: 'bad-request' });
      await expect(pool.volumes.createFilled(image, () => Promise.resolve())).rejects.toMatchObject({
        code: 'bad-request',
      });
      await expect(pool.volumes.create({ ...custom('b'), contentType: 'block' }, {})).rejects.toMatchObject({
        code: 'bad-request',
      });
      expect(await pool.roots.imageOf(container)).toBeUndefined();
    });

    it('keep other users of the host out', async () => {
      expect((await stat(join(spec.path, 'custom'))).mode & 0o077).toBe(0);
    });

    it('keep owners, modes, links and attributes through copies and snapshots', async () => {
      await pool.volumes.create(custom('v1'), {});
      await expect(pool.volumes.create(custom('v1'), {})).rejects.toMatchObject({ code: 'conflict' });
      const path = await pool.volumes.mount(custom('v1'));
      await fillTree(path);
      const before = await manifestOf(path);
      await pool.snapshots.create(custom('v1'), 's0', { running: false });
      await rm(join(path, 'etc'), { recursive: true });
      await pool.volumes.copy({ ...custom('v1'), snapshot: 's0' }, custom('v2'));
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
      await pool.snapshots.rename(custom('v1-new'), 's0', 's1');
      await pool.volumes.copy(custom('v1-new'), custom('v3'), { snapshots: ['s1'] });
      expect(await pool.snapshots.list(custom('v3'))).toEqual(['s1']);
      await expect(pool.volumes.rename(custom('v3'), 'v2')).rejects.toMatchObject({ code: 'conflict' });
      for (const volume of ['v1-new', 'v2', 'v3']) await pool.volumes.delete(custom(volume));
      await pool.volumes.delete(custom('v3'));
      expect(await pool.volumes.exists(custom('v3'))).toBe(false);
      expect(await pool.snapshots.list(custom('v3'))).toEqual([]);
    });

    it('have snapshots that keep what was there, each its own', async () => {
      const volume = custom('shots');
      await pool.volumes.create(volume, {});
      for (const state of ['one', 'two']) {
        await write(volume, 'state', state);
        await pool.snapshots.create(volume, state, { running: true });
      }
      await write(volume, 'later', 'x');
      await expect(pool.snapshots.create(volume, 'two', { running: false })).rejects.toMatchObject({
        code: 'conflict',
      });
      const { path } = await pool.snapshots.mount(volume, 'one', plain);
      expect(await readFile(join(path, 'state'), 'utf8')).toBe('one');
      await expect(writeFile(join(path, 'state'), 'x')).rejects.toMatchObject({ code: 'EROFS' });
      await pool.snapshots.unmount(volume, 'one');
      await reopen();
      await pool.snapshots.restore(volume, 'one');
      expect(await read(volume, 'state')).toBe('one');
      await pool.snapshots.restore(volume, 'two');
      expect(await read(volume, 'state')).toBe('two');
      expect(await readdir(await pool.volumes.mount(volume))).toEqual(['state']);
      await expect(pool.snapshots.restore(volume, 'gone')).rejects.toMatchObject({ code: 'not-found' });
      await pool.snapshots.delete(volume, 'one');
      await pool.snapshots.delete(volume, 'one');
      expect(await pool.snapshots.list(volume)).toEqual(['two']);
      await pool.volumes.delete(volume);
    });

    it('take every snapshot along, each with its content', async () => {
      const volume = custom('along');
      await pool.volumes.create(volume, {});
      await write(volume, 'state', 'one');
      await pool.snapshots.create(volume, 's1', { running: false });
      await write(volume, 'state', 'two');
      await write(volume, 'more', 'x');
      await pool.snapshots.create(volume, 's2', { running: false });
      await write(volume, 'state', 'three');
      await pool.volumes.copy(volume, custom('copy'), { snapshots: ['s1', 's2'], live: true });
      await pool.volumes.delete(volume);
      await reopen();
      expect(await read(custom('copy'), 'state')).toBe('three');
      await pool.snapshots.restore(custom('copy'), 's1');
      expect(await readdir(await pool.volumes.mount(custom('copy')))).toEqual(['state']);
      expect(await read(custom('copy'), 'state')).toBe('one');
      await pool.volumes.delete(custom('copy'));
    });

    it('leave nothing behind when a fill fails', async () => {
      const failing = async (path: string) => {
        await writeFile(join(path, 'half'), 'x');
        throw new Error('truncated');
      };
      await expect(pool.volumes.createFilled(custom('half'), failing)).rejects.toThrow('truncated');
      expect(await pool.volumes.exists(custom('half'))).toBe(false);
    });

    it.each(['..', '.', 'a/b', ''])('cannot be called %j', async (bad) => {
      await expect(pool.volumes.create(custom(bad), {})).rejects.toMatchObject({ code: 'bad-request' });
    });

    it('are there again after the pool was unmounted, without scratch', async () => {
      await pool.volumes.create(custom('again'), {});
      await write(custom('again'), 'file', 'text');
      await pool.unmount();
      expect(await readdir(spec.path)).toEqual([]);
      await reopen();
      expect(await read(custom('again'), 'file')).toBe('text');
      expect(await readdir(join(spec.path, 'staging'))).toEqual([]);
      expect(await readdir(join(spec.path, 'custom'))).toEqual(['again']);
    });
  });
}
