// oxlint-disable max-lines-per-function -- a suite is one function
import { chown, mkdir, mkdtemp, open, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { NativeTransfer, RootOptions, SnapshotRef, StoragePool, VolumeRef } from '../contract.ts';
import type { ConformanceTarget } from './fixtures.ts';

const options: RootOptions = { idRange: { base: 1_000_000, size: 65_536 }, clone: 'auto', nesting: false };
const MIB = 1024 * 1024;

/** What a driver with the capability `optimizedTransfer` promises: volumes travel between two pools as streams. */
export function describeNativeTransfer(name: string, target: ConformanceTarget): void {
  describe(`native transfer of ${name}`, () => {
    const folders: string[] = [];
    let here: StoragePool;
    let there: StoragePool;

    const make = async (): Promise<StoragePool> => {
      const folder = await mkdtemp(join(target.base ?? tmpdir(), 'transfer-conformance-'));
      const asked = target.spec(folder);
      const driver = target.newDriver();
      const spec = { ...asked, config: await driver.prepare(asked) };
      await driver.create(spec);
      folders.push(folder);
      const pool = driver.open(spec);
      await pool.mount();
      return pool;
    };
    beforeAll(async () => {
      here = await make();
      there = await make();
    });
    afterAll(async () => {
      await here?.destroy();
      await there?.destroy();
      for (const folder of folders) await rm(folder, { recursive: true, force: true });
    });

    /** The pool as a daemon sees it that was killed and started again. */
    const reopen = async (pool: StoragePool): Promise<StoragePool> => {
      const again = target.newDriver().open(pool.spec);
      await again.mount();
      await again.recover([]);
      return again;
    };
    const parts = async (source: VolumeRef | SnapshotRef, names: readonly (string | undefined)[], parent?: string) => {
      await using send = await transferOf(here).send(source, { running: false });
      const streams: Buffer[] = [];
      let before = parent;
      for (const part of names) {
        streams.push(await buffer(await send.open(part, before)));
        before = part;
      }
      return streams;
    };
    /** Both ends at once, as a migration has them. */
    const move = async (
      source: VolumeRef | SnapshotRef,
      to: VolumeRef,
      snapshots: readonly string[],
      how: { refresh?: boolean; parent?: string; running?: boolean; from?: StoragePool; into?: StoragePool } = {},
    ) => {
      const from = how.from ?? here;
      const into = how.into ?? there;
      await using send = await transferOf(from).send(source, { running: how.running ?? false });
      await using receive = await transferOf(into).receive(to, { refresh: how.refresh ?? false });
      let before = how.parent;
      for (const part of [...snapshots, undefined]) {
        await receive.accept(part, await send.open(part, before));
        for (const inside of (await send.inside?.(part)) ?? [])
          await receive.accept(part, await send.open(part, before, { inside: inside.path }), { inside });
        before = part;
      }
      await receive.commit();
    };
    const nothingLeft = async (pool: StoragePool, volume: VolumeRef) => {
      const again = await reopen(pool);
      expect(await again.volumes.exists(volume)).toBe(false);
      expect(await readdir(join(again.spec.path, 'staging'))).toEqual([]);
      expect(await readdir(join(again.spec.path, 'custom-snapshots'))).not.toContain(volume.name);
    };

    it('says what it can do', async () => {
      expect((await target.newDriver().probe()).capabilities.optimizedTransfer).toBe(true);
      expect(transferOf(here).format).toBe(name);
    });

    it('takes a volume with its snapshots, each to its own content', async () => {
      const volume = custom('v');
      await here.volumes.create(volume, { config: target.volumeConfig ?? {} });
      const path = await here.volumes.mount(volume);
      await writeFile(join(path, 'file'), 'one');
      await chown(join(path, 'file'), 7, 8);
      const big = await open(join(path, 'sparse'), 'w');
      await big.truncate(8 * MIB);
      await big.write(Buffer.alloc(MIB, 3), 0, MIB, 4 * MIB);
      await big.close();
      await here.snapshots.create(volume, 's1', { running: false });
      await writeFile(join(path, 'file'), 'two');
      await mkdir(join(path, 'folder'));
      await here.snapshots.create(volume, 's2', { running: false });
      await writeFile(join(path, 'file'), 'three');
      await move(volume, volume, ['s1', 's2']);
      const arrived = await there.volumes.mount(volume);
      expect(await readFile(join(arrived, 'file'), 'utf8')).toBe('three');
      expect(await stat(join(arrived, 'file'))).toMatchObject({ uid: 7, gid: 8 });
      const sparse = await stat(join(arrived, 'sparse'));
      expect(sparse.size).toBe(8 * MIB);
      expect(sparse.blocks * 512).toBeLessThan(2 * MIB);
      expect((await readFile(join(arrived, 'sparse'))).subarray(4 * MIB, 5 * MIB).equals(Buffer.alloc(MIB, 3))).toBe(
        true,
      );
      expect([...(await there.snapshots.list(volume))].sort()).toEqual(['s1', 's2']);
      await there.volumes.unmount(volume);
      if (target.restores !== 'newest') {
        await there.snapshots.restore(volume, 's1');
        expect(await readFile(join(await there.volumes.mount(volume), 'file'), 'utf8')).toBe('one');
        await there.volumes.unmount(volume);
      }
      await there.snapshots.restore(volume, 's2');
      expect(await readdir(await there.volumes.mount(volume))).toContain('folder');
      await there.volumes.unmount(volume);
    });

    it('sends only what changed, and brings an old copy up to date', async () => {
      const volume = custom('v');
      const path = await here.volumes.mount(volume);
      await writeFile(join(path, 'file'), 'four');
      await here.snapshots.create(volume, 's3', { running: false });
      const [whole] = await parts(volume, ['s3']);
      const [difference] = await parts(volume, ['s3'], 's2');
      expect(difference?.length).toBeLessThan((whole?.length ?? 0) / 10);
      await there.quota?.set(volume, 64 * MIB);
      await move(volume, volume, ['s3'], { refresh: true, parent: 's2' });
      const arrived = await there.volumes.mount(volume);
      expect(await readFile(join(arrived, 'file'), 'utf8')).toBe('four');
      expect([...(await there.snapshots.list(volume))].sort()).toEqual(['s1', 's2', 's3']);
      await there.volumes.unmount(volume);
      await move(volume, volume, [], { refresh: true, parent: 's3' });
    });

    it('takes several copies of one volume, each with its own later changes', async () => {
      const volume = custom('v');
      await move(volume, custom('second'), ['s1', 's2']);
      await move(volume, custom('second'), ['s3'], { refresh: true, parent: 's2' });
      await move(custom('second'), custom('back'), ['s1', 's3'], { from: there, into: here });
      const arrived = await here.volumes.mount(custom('back'));
      expect(await readFile(join(arrived, 'file'), 'utf8')).toBe('four');
      await writeFile(join(arrived, 'file'), 'changed');
      await here.snapshots.create(custom('back'), 's9', { running: false });
      await move(custom('back'), custom('second'), ['s9'], { refresh: true, parent: 's3' });
      const second = await there.volumes.mount(custom('second'));
      expect(await readFile(join(second, 'file'), 'utf8')).toBe('changed');
      await there.volumes.delete(custom('second'));
      await here.volumes.delete(custom('back'));
    });

    it('takes a snapshot as a volume of its own', async () => {
      await move({ ...custom('v'), snapshot: 's1' }, custom('only'), []);
      const arrived = await there.volumes.mount(custom('only'));
      expect(await readFile(join(arrived, 'file'), 'utf8')).toBe('one');
      await writeFile(join(arrived, 'file'), 'mine');
      expect(await there.snapshots.list(custom('only'))).toEqual([]);
      await there.volumes.delete(custom('only'));
    });

    it('takes a root that is in use', async () => {
      const root: VolumeRef = { type: 'container', name: 'c', contentType: 'filesystem' };
      await here.roots.createFilled(root, options, async (path) => writeFile(join(path, 'file'), 'fresh'));
      const { path, ids } = await here.roots.mount(root, options);
      await writeFile(join(path, 'live'), 'yes');
      const base = ids === 'shifted' ? 1_000_000 : 0;
      await chown(join(path, 'live'), base, base);
      await move(root, root, [], { running: true });
      await here.roots.unmount(root);
      const mounted = await there.roots.mount(root, options);
      expect(await readFile(join(mounted.path, 'live'), 'utf8')).toBe('yes');
      expect(await readFile(join(mounted.path, 'file'), 'utf8')).toBe('fresh');
      expect((await stat(join(mounted.path, 'live'))).uid).toBe(mounted.ids === 'shifted' ? 1_000_000 : 0);
      await there.roots.unmount(root);
      for (const pool of [here, there]) await pool.volumes.delete(root);
    });

    it('takes block volumes', async () => {
      const disk = custom('disk', 'block');
      await here.volumes.create(disk, { size: 16 * MIB });
      const file = await open(await here.volumes.mount(disk), 'r+');
      await file.write(Buffer.from('boot'), 0, 4, 8 * MIB);
      await file.close();
      await here.volumes.unmount(disk);
      await move(disk, disk, []);
      const content = await readFile(await there.volumes.mount(disk));
      expect(content.length).toBe(16 * MIB);
      expect(content.toString('latin1', 8 * MIB, 8 * MIB + 4)).toBe('boot');
      await there.volumes.unmount(disk);
      for (const pool of [here, there]) await pool.volumes.delete(disk);
    });

    it('refuses a name that is taken, and parts without their parent', async () => {
      await expect(transferOf(there).receive(custom('v'), { refresh: false })).rejects.toMatchObject({
        code: 'conflict',
      });
      const [difference] = await parts(custom('v'), ['s3'], 's2');
      await using receive = await transferOf(there).receive(custom('orphan'), { refresh: false });
      await expect(receive.accept('s3', Readable.from([difference]))).rejects.toMatchObject({ code: 'bad-request' });
    });

    it('leaves nothing of a stream that is cut, changed or no stream', async () => {
      const [whole] = await parts(custom('v'), ['s1']);
      if (whole === undefined) throw new Error('no stream');
      const bent = Buffer.from(whole);
      bent.fill(0x5a, bent.length - 600, bent.length - 500);
      const bad = {
        empty: Buffer.alloc(0),
        cut: whole.subarray(0, whole.length - 40),
        half: whole.subarray(0, Math.floor(whole.length / 2)),
        garbage: Buffer.alloc(100_000, 'x'),
        ...(target.checksums === false ? {} : { bent }),
        longer: Buffer.concat([whole, Buffer.from('more')]),
      };
      for (const [what, content] of Object.entries(bad)) {
        await using receive = await transferOf(there).receive(custom('bad'), { refresh: false });
        await expect(receive.accept('s1', Readable.from([content])), what).rejects.toMatchObject({
          code: 'bad-request',
        });
        await expect(receive.commit(), what).rejects.toMatchObject({ code: 'bad-request' });
      }
      await nothingLeft(there, custom('bad'));
    });

    it('leaves nothing when it is aborted in the middle', async () => {
      const stop = new AbortController();
      const [whole] = await parts(custom('v'), ['s1']);
      const endless = new PassThrough();
      endless.write(whole?.subarray(0, 200_000));
      await using receive = await transferOf(there).receive(custom('aborted'), { refresh: false });
      const accepted = receive.accept('s1', endless, { signal: stop.signal });
      setImmediate(() => stop.abort(new Error('given up')));
      await expect(accepted).rejects.toThrow('given up');
      await receive[Symbol.asyncDispose]();
      await nothingLeft(there, custom('aborted'));
      await using send = await transferOf(here).send(custom('v'), { running: true });
      const unread = await send.open('s1', undefined);
      unread.on('error', () => undefined);
      await send[Symbol.asyncDispose]();
      expect(unread.destroyed).toBe(true);
      await nothingLeft(here, custom('aborted'));
    });

    it('takes back what a killed daemon had received', async () => {
      const [first, second] = await parts(custom('v'), ['s1', undefined]);
      const receive = await transferOf(there).receive(custom('killed'), { refresh: false });
      await receive.accept('s1', Readable.from([first]));
      await receive.accept(undefined, Readable.from([second]));
      await nothingLeft(there, custom('killed'));
      await receive[Symbol.asyncDispose]();
      expect(await there.volumes.exists(custom('killed'))).toBe(false);
    });

    it('survives a source that is written to and cut meanwhile', async () => {
      const volume = custom('v');
      const path = await here.volumes.mount(volume);
      await using send = await transferOf(here).send(volume, { running: true });
      await writeFile(join(path, 'file'), 'late');
      await truncate(join(path, 'sparse'), 0);
      await using receive = await transferOf(there).receive(custom('frozen'), { refresh: false });
      await receive.accept(undefined, await send.open(undefined, undefined));
      await receive.commit();
      const arrived = await there.volumes.mount(custom('frozen'));
      expect(await readFile(join(arrived, 'file'), 'utf8')).toBe('four');
      expect((await stat(join(arrived, 'sparse'))).size).toBe(8 * MIB);
    });
  });
}

function custom(name: string, contentType: VolumeRef['contentType'] = 'filesystem'): VolumeRef {
  return { type: 'custom', name, contentType };
}

function transferOf({ transfer }: StoragePool): NativeTransfer {
  if (transfer === undefined) throw new Error('the pool has no native transfer');
  return transfer;
}
