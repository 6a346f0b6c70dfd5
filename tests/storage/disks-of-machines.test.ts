import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtemp, open, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { type CephCluster, named, startCeph } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { randomIds } from '../../packages/daemon/src/core/ids.ts';
import { silentLog } from '../../packages/daemon/src/core/log.ts';
import { CephDriver } from '../../packages/daemon/src/drivers/storage/ceph/driver.ts';
import type {
  RootOptions,
  StorageDriver,
  StoragePool,
  VolumeRef,
} from '../../packages/daemon/src/drivers/storage/contract.ts';
import { copyFile, copyTree, mirrorTree } from '../../packages/daemon/src/host/files.ts';
import { contentSize } from '../../packages/daemon/src/host/tools/block-fs.ts';
import { RootTransfer } from '../../packages/daemon/src/services/storage/root-transfer.ts';
import { driverNamed } from './drivers.ts';
import { probeRbd } from './rbd.ts';

const MIB = 1024 * 1024;
/** Of a disk; most of it is holes. */
const SIZE = 24 * MIB;

const options: RootOptions = { idRange: undefined, clone: 'auto', nesting: false };
const disk = (name: string): VolumeRef => ({ type: 'virtual-machine', name, contentType: 'block' });

const transfer = new RootTransfer({
  copyTree: (source, target, { mirror, signal }) =>
    mirror ? mirrorTree(source, target, signal) : copyTree(source, target, { signal }),
  copyFile,
  contentSize,
  ids: randomIds,
});

/** Pools of the drivers by their names, all of them made when the tests begin. */
function poolsOf(drivers: () => Readonly<Record<string, StorageDriver>>): Map<string, StoragePool> {
  const pools = new Map<string, StoragePool>();
  const folders: string[] = [];
  beforeAll(async () => {
    for (const [name, driver] of Object.entries(drivers())) {
      const folder = await mkdtemp(join(tmpdir(), `disks-${name}-`));
      folders.push(folder);
      const config = {
        dir: {},
        btrfs: { size: '512MiB' },
        ceph: { 'ceph.osd.pg_num': '4', 'ceph.osd.pool_name': basename(folder) },
      }[name];
      const path = join(folder, 'storage-pools/p');
      const asked = { name: 'p', config: config ?? {}, path, loopFile: join(folder, 'disks/p.img') };
      const spec = { ...asked, config: await driver.prepare(asked) };
      await driver.create(spec);
      const pool = driver.open(spec);
      await pool.mount();
      pools.set(name, pool);
    }
  }, 120_000);
  afterAll(async () => {
    for (const pool of pools.values()) await pool.destroy();
    for (const folder of folders) await rm(folder, { recursive: true, force: true });
  }, 180_000);
  return pools;
}

const at = (pools: Map<string, StoragePool>, name: string): StoragePool => {
  const pool = pools.get(name);
  if (pool === undefined) throw new Error(`no pool ${name}`);
  return pool;
};

async function withDisk<T>(pool: StoragePool, volume: VolumeRef, use: (file: string) => Promise<T>): Promise<T> {
  const { path } = await pool.roots.mount(volume, options);
  try {
    return await use(join(path, 'root.img'));
  } finally {
    await pool.roots.unmount(volume);
  }
}

const contentOf = (pool: StoragePool, volume: VolumeRef): Promise<Buffer> =>
  withDisk(pool, volume, (file) => readFile(file));

async function contentOfSnapshot(pool: StoragePool, volume: VolumeRef, snapshot: string): Promise<Buffer> {
  const { path } = await pool.snapshots.mount(volume, snapshot, options);
  try {
    return await readFile(join(path, 'root.img'));
  } finally {
    await pool.snapshots.unmount(volume, snapshot);
  }
}

/** A disk with a snapshot `s0`; a block that was random then is zero now, and another one was written. */
async function makeDisk(pool: StoragePool, volume: VolumeRef): Promise<void> {
  await pool.roots.createFilled(volume, { ...options, config: { size: String(SIZE) } }, async (folder) => {
    const file = join(folder, 'root.img');
    await writeFile(file, randomBytes(3 * MIB));
    await truncate(file, SIZE);
  });
  await pool.snapshots.create(volume, 's0', { running: false });
  await withDisk(pool, volume, async (file) => {
    await using handle = await open(file, 'r+');
    await handle.write(Buffer.alloc(MIB), 0, MIB, MIB);
    await handle.write(randomBytes(MIB), 0, MIB, 12 * MIB + 12_345);
    await handle.sync();
  });
}

/** What every pair of pools must do. */
function describePair(pools: Map<string, StoragePool>, from: string, to: string): void {
  describe(`the disk of a virtual machine from ${from} to ${to}`, { timeout: 120_000 }, () => {
    const source = disk('machine');
    const target = disk(`from-${from}`);

    it('arrives with its snapshots, and its holes', async () => {
      const [here, there] = [at(pools, from), at(pools, to)];
      const stages = new Set<string>();
      const onProgress = ({ stage }: { readonly stage: string }) => void stages.add(stage);
      await transfer.copy({ from: here, source, to: there, target, snapshots: ['s0'] }, { ...options, onProgress });
      const [wanted, found] = [await contentOf(here, source), await contentOf(there, target)];
      expect(found.length).toBe(SIZE);
      expect(found.equals(wanted)).toBe(true);
      expect(await there.snapshots.list(target)).toEqual(['s0']);
      const [then, kept] = [await contentOfSnapshot(here, source, 's0'), await contentOfSnapshot(there, target, 's0')];
      expect(kept.equals(then)).toBe(true);
      expect(then.equals(wanted)).toBe(false);
      await withDisk(there, target, async (file) => {
        const found = await stat(file);
        if (found.isFile()) expect(found.blocks * 512).toBeLessThan(SIZE / 2);
      });
      expect((await there.volumes.usage(target)) ?? 0).toBeLessThan(SIZE);
      expect(await here.snapshots.list(source)).toEqual(['s0']);
      if (to === 'ceph') expect([...stages]).toEqual(['block']);
      await there.volumes.delete(target);
    });

    it('is larger where more was asked for', async () => {
      const [here, there] = [at(pools, from), at(pools, to)];
      const asked = { ...options, config: { size: String(SIZE + 4 * MIB) } };
      await transfer.copy(
        { from: here, source: { ...source, snapshot: 's0' }, to: there, target, snapshots: [] },
        asked,
      );
      const found = await contentOf(there, target);
      expect(found.subarray(0, SIZE).equals(await contentOfSnapshot(here, source, 's0'))).toBe(true);
      expect(found.length).toBe(SIZE + 4 * MIB);
      await there.volumes.delete(target);
    });

    it('leaves nothing when it is given up', async () => {
      const [here, there] = [at(pools, from), at(pools, to)];
      const stop = new AbortController();
      const copy = { from: here, source, to: there, target, snapshots: ['s0'] };
      const copying = transfer.copy(copy, { ...options, signal: stop.signal });
      stop.abort(new Error('given up'));
      await expect(copying).rejects.toThrow();
      expect(await there.volumes.exists(target)).toBe(false);
      expect(await here.snapshots.list(source)).toEqual(['s0']);
    });
  });
}

describe('between pools of files', () => {
  const pools = poolsOf(() => ({ dir: driverNamed('dir'), btrfs: driverNamed('btrfs') }));
  beforeAll(async () => {
    for (const pool of pools.values()) await makeDisk(pool, disk('machine'));
  });
  describePair(pools, 'dir', 'btrfs');
  describePair(pools, 'btrfs', 'dir');
});

const probe = await probeRbd();

describe.skipIf(!probe.ok)(named('between pools of files and of devices', probe), () => {
  let cluster: CephCluster | undefined;
  beforeAll(async () => {
    cluster = await startCeph();
  }, 120_000);
  afterAll(() => cluster?.[Symbol.asyncDispose](), 120_000);
  const pools = poolsOf(() => ({
    dir: driverNamed('dir'),
    btrfs: driverNamed('btrfs'),
    ceph: new CephDriver({ newId: () => randomUUID().slice(0, 13), log: silentLog, cephFolder: cluster?.folder ?? '' }),
  }));
  beforeAll(async () => {
    for (const pool of pools.values()) await makeDisk(pool, disk('machine'));
  }, 180_000);
  describePair(pools, 'dir', 'ceph');
  describePair(pools, 'ceph', 'btrfs');
});
