import { mkdir, readdir, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { isMountPoint, unmountTree } from '../../../host/mounts.ts';
import { syncMounted } from '../../../host/tools/block-fs.ts';
import { usedBytes } from '../../../host/tools/rbd.ts';
import { settleCommands } from '../../../host/tools/rbd-orphans.ts';
import { removePoint, removePoints } from '../common/mount-points.ts';
import { sizedClone } from '../common/sized-clone.ts';
import { isSnapshot, snapshotsPath, volumeKey, volumePath } from '../common/volume-names.ts';
import type {
  CopyOptions,
  RootMount,
  RootOptions,
  Roots,
  SnapshotRef,
  Snapshots,
  VolumeOptions,
  VolumeRef,
  Volumes,
} from '../contract.ts';
import { clonesCopies, type Config, imageArguments, measuresUse, sizeIn } from './config.ts';
import type { CephContext } from './context.ts';
import { FrozenStates } from './frozen.ts';
import { CephJournal } from './journal.ts';
import { CephMaker } from './maker.ts';
import { CephMounter } from './mounter.ts';
import {
  IMAGE_SNAPSHOT,
  isBlock,
  isImageVolume,
  isPassing,
  snapshotName,
  userSnapshot,
  zombieSnapshot,
} from './names.ts';

/** Every volume is an RBD image; instance roots lie in `rootfs/` of theirs. */
export class CephVolumes implements Volumes {
  readonly #pool: CephContext;
  readonly mounter: CephMounter;
  readonly maker: CephMaker;
  readonly journal: CephJournal;
  readonly frozen: FrozenStates;

  constructor(pool: CephContext) {
    this.#pool = pool;
    this.mounter = new CephMounter(pool);
    this.maker = new CephMaker(pool, this.mounter);
    this.journal = new CephJournal(pool, this.mounter, this.maker);
    this.frozen = new FrozenStates(pool);
  }

  create(volume: VolumeRef, { size, config = {} }: { readonly size?: number } & VolumeOptions): Promise<void> {
    return this.#make(volume, size === undefined ? config : { ...config, size: String(size) });
  }

  createFilled(
    volume: VolumeRef,
    fill: (path: string) => Promise<void>,
    { config = {} }: VolumeOptions = {},
  ): Promise<void> {
    return this.#make(volume, config, fill);
  }

  /** `fill` undefined: empty. */
  createRoot(volume: VolumeRef, options: RootOptions, fill?: (path: string) => Promise<void>): Promise<void> {
    if (isBlock(volume)) return this.#make(volume, options.config ?? {}, fill);
    return this.#make(volume, options.config ?? {}, async (path) => {
      await mkdir(join(path, 'rootfs'), { mode: 0o755 });
      await fill?.(join(path, 'rootfs'));
    });
  }

  createFromImage(volume: VolumeRef, image: VolumeRef, options: RootOptions): Promise<void> {
    return sizedClone(this, [image, volume], options, sizeIn(options.config ?? {}));
  }

  copy(source: VolumeRef | SnapshotRef, target: VolumeRef, options: CopyOptions = {}): Promise<void> {
    const shared = source.type === 'image' ? [source] : [];
    const exclusive = source.type === 'image' ? [target] : [source, target];
    return this.#exclusive(
      exclusive,
      async () => {
        const { images } = this.#pool;
        const [from, to] = [this.mounter.image(source), this.mounter.image(target)];
        await this.#assertFree(target);
        const found = await images.snapshots(from);
        if (source.type !== 'image' && (await images.find(from)) === undefined)
          throw errors.notFound('Storage volume not found');
        const asked = isSnapshot(source) ? snapshotName(source.snapshot) : undefined;
        const known = source.type === 'image' ? IMAGE_SNAPSHOT : asked;
        if (known !== undefined && !found.some(({ name }) => name === known))
          throw errors.notFound('Storage volume snapshot not found');
        if (known !== undefined) return this.#copyFrozen({ image: from, snapshot: known }, to, source, options);
        await this.sync(source);
        const snapshot = zombieSnapshot(this.#pool.newId());
        await using _frozen = await this.frozen.take(from, snapshot);
        await this.#copyFrozen({ image: from, snapshot }, to, source, options);
      },
      shared,
    );
  }

  rename(volume: VolumeRef, newName: string): Promise<void> {
    const target = { ...volume, name: newName };
    return this.#exclusive([volume, target], async () => {
      const { images, lives } = this.#pool;
      const to = this.mounter.image(target);
      const there = (await images.find(to)) !== undefined;
      const found = await images.find(this.mounter.image(volume));
      if (found === undefined && there) return this.mounter.forget(volume);
      if (there) throw exists(newName);
      if (found === undefined) throw errors.notFound('Storage volume not found');
      await this.mounter.unmount(volume);
      await lives.rename(found, to);
      await this.mounter.forget(volume);
    });
  }

  delete(volume: VolumeRef): Promise<void> {
    const { lives, path, queue } = this.#pool;
    return queue.run({ exclusive: [volumeKey(volume)] }, async () => {
      const image = this.mounter.image(volume);
      await this.mounter.unmount(volume);
      for (const snapshot of await this.listSnapshots(volume)) await this.mounter.unmountView({ ...volume, snapshot });
      await lives.remove(image);
      await this.journal.forget(volume);
      await this.mounter.forget(volume);
      if (volume.type !== 'image') await removePoint(snapshotsPath(path, volume));
    });
  }

  async exists(volume: VolumeRef): Promise<boolean> {
    return (await this.#pool.images.find(this.mounter.image(volume))) !== undefined;
  }

  mount(volume: VolumeRef, options?: VolumeOptions): Promise<string> {
    return this.#exclusive([volume], () => this.mounter.mount(volume, options));
  }

  unmount(volume: VolumeRef): Promise<void> {
    return this.#exclusive([volume], () => this.mounter.unmount(volume));
  }

  mountRoot(volume: VolumeRef, options: RootOptions): Promise<RootMount> {
    return this.#exclusive([volume], () => this.mounter.mountRoot(volume, options));
  }

  /** Of a mounted file system what it says itself, else what the objects take, unless that is turned off. */
  async usage(volume: VolumeRef): Promise<number | undefined> {
    const path = volumePath(this.#pool.path, volume);
    if (!isBlock(volume) && isMountPoint(path)) {
      const { bsize, blocks, bfree } = await statfs(path);
      return bsize * (blocks - bfree);
    }
    return measuresUse(this.#pool.config()) ? usedBytes(this.#pool.place, this.mounter.image(volume)) : undefined;
  }

  resize(volume: VolumeRef, size: number | undefined): Promise<void> {
    if (size === undefined) return Promise.resolve(); // an image has a size, asked for or not
    return this.#exclusive([volume], () =>
      this.maker.resize(this.mounter.image(volume), volume, volumePath(this.#pool.path, volume), size),
    );
  }

  createSnapshot(volume: VolumeRef, snapshot: string): Promise<void> {
    return this.#exclusive([volume], async () => {
      const name = snapshotName(snapshot);
      const known = await this.#pool.images.snapshots(this.mounter.image(volume));
      if (known.some((one) => one.name === name)) throw errors.conflict(`Snapshot "${snapshot}" already exists`);
      await this.sync(volume);
      await this.#pool.images.snapshot(this.mounter.image(volume), name);
    });
  }

  async listSnapshots(volume: VolumeRef): Promise<readonly string[]> {
    const found = await this.#pool.images.snapshots(this.mounter.image(volume));
    return found.flatMap(({ name }) => userSnapshot(name) ?? []).sort();
  }

  renameSnapshot(volume: VolumeRef, snapshot: string, newName: string): Promise<void> {
    return this.#exclusive([volume], async () => {
      const { images } = this.#pool;
      const image = this.mounter.image(volume);
      const names = (await images.snapshots(image)).map(({ name }) => name);
      const [from, to] = [snapshotName(snapshot), snapshotName(newName)];
      if (!names.includes(from) && names.includes(to)) return;
      if (names.includes(to)) throw errors.conflict(`Snapshot "${newName}" already exists`);
      await this.mounter.unmountView({ ...volume, snapshot });
      await images.renameSnapshot(image, from, to);
    });
  }

  deleteSnapshot(volume: VolumeRef, snapshot: string): Promise<void> {
    return this.#exclusive([volume], async () => {
      await this.mounter.unmountView({ ...volume, snapshot });
      await this.#pool.lives.removeSnapshot(this.mounter.image(volume), snapshotName(snapshot));
    });
  }

  /** Ceph writes the blocks back one by one: a restore that is cut off is finished before the volume is used again. */
  restore(volume: VolumeRef, snapshot: string): Promise<void> {
    return this.#exclusive([volume], async () => {
      const { images } = this.#pool;
      const image = this.mounter.image(volume);
      const there = (await images.snapshots(image)).some(({ name }) => name === snapshotName(snapshot));
      const found = there ? await images.find(image) : undefined;
      if (found === undefined) throw errors.notFound('Storage volume snapshot not found');
      await this.mounter.unmount(volume);
      await this.journal.restore({ volume, snapshot, size: found.size });
    });
  }

  mountSnapshot(volume: VolumeRef, snapshot: string): Promise<RootMount> {
    return this.#exclusive([volume], () => this.mounter.mountSnapshot({ ...volume, snapshot }));
  }

  unmountSnapshot(volume: VolumeRef, snapshot: string): Promise<void> {
    return this.#exclusive([volume], () => this.mounter.unmountSnapshot({ ...volume, snapshot }));
  }

  /** Removes what was half made, finishes restores that were cut off. Other volumes stay mounted: guests may use them. */
  async recover(): Promise<void> {
    const { images, lives, place, mark } = this.#pool;
    await settleCommands(place);
    const afterwards = await this.#readNotes();
    await this.#unmountViews();
    for (const image of await images.list()) {
      if (isImageVolume(image)) await this.mounter.unmap(image);
      if (!isPassing(mark(), image)) continue;
      await this.mounter.unmap(image);
      await lives.discard(image);
    }
    for (const finish of afterwards) await finish();
  }

  /** Finishes what notes tell. Returns what is to be done once the half-made clones are gone. */
  async #readNotes(): Promise<(() => Promise<void>)[]> {
    const { lives, staging } = this.#pool;
    const afterwards: (() => Promise<void>)[] = [];
    for (const name of await readdir(staging)) {
      const file = join(staging, name);
      const torn = await this.journal.load(name);
      const frozen = await this.frozen.read(name);
      const debt = await lives.read(name);
      if (torn !== undefined) await this.#exclusive([torn], () => Promise.resolve());
      else if (frozen !== undefined) afterwards.unshift(() => this.frozen.thaw(frozen, file));
      else if (debt !== undefined) afterwards.push(() => lives.resume(debt));
      else {
        await unmountTree(file);
        await rm(file, { recursive: true, force: true });
      }
    }
    return afterwards;
  }

  async #unmountViews(): Promise<void> {
    const { path } = this.#pool;
    for (const folder of await readdir(path)) {
      if (!folder.endsWith('-snapshots')) continue;
      for (const volume of await readdir(join(path, folder))) await unmountTree(join(path, folder, volume));
      await removePoints(join(path, folder));
    }
    for (const name of await readdir(join(path, 'images'))) await unmountTree(join(path, 'images', name));
    await removePoints(join(path, 'images'));
  }

  #make(volume: VolumeRef, config: Config, fill?: (path: string) => Promise<void>): Promise<void> {
    return this.#exclusive([volume], async () => {
      await this.#assertFree(volume);
      await this.#pool.lives.publish(this.mounter.image(volume), (scratch) =>
        isBlock(volume)
          ? this.maker.disk(scratch, volume, config, fill)
          : this.maker.fileSystem(scratch, volume, config, fill),
      );
    });
  }

  /** A clone of the frozen state, or a copy of its blocks where snapshots go along or the pool does not want clones. */
  async #copyFrozen(
    from: { readonly image: string; readonly snapshot: string },
    to: string,
    source: VolumeRef,
    { snapshots = [], signal }: CopyOptions,
  ): Promise<void> {
    const { images, lives } = this.#pool;
    const wanted = new Set(snapshots.map(snapshotName));
    const cloned = snapshots.length === 0 && (source.type === 'image' || clonesCopies(this.#pool.config()));
    await lives.publish(to, async (scratch) => {
      if (cloned) return this.maker.clone(from, scratch, isBlock(source));
      const deep = snapshots.length > 0;
      const how = { deep, arguments: imageArguments(this.#pool.config()), signal };
      await images.copy(from, scratch, how);
      for (const { name } of await images.snapshots(scratch))
        if (!wanted.has(name)) await lives.removeSnapshot(scratch, name);
      if (!isBlock(source)) await this.maker.renew(scratch);
    });
  }

  /** What a guest wrote is in the image. */
  async sync(volume: VolumeRef): Promise<void> {
    const path = volumePath(this.#pool.path, volume);
    if (!isBlock(volume) && isMountPoint(path)) await syncMounted(path);
  }

  async #assertFree(volume: VolumeRef): Promise<void> {
    if (await this.exists(volume)) throw exists(volume.name);
  }

  /** One at a time; what was cut off of the volumes is finished before. */
  #exclusive<T>(volumes: readonly VolumeRef[], work: () => Promise<T>, shared: readonly VolumeRef[] = []): Promise<T> {
    return this.#pool.queue.run({ exclusive: volumes.map(volumeKey), shared: shared.map(volumeKey) }, async () => {
      for (const volume of volumes) await this.journal.mend(volume);
      return work();
    });
  }
}

function exists(name: string): Error {
  return errors.conflict(`Volume "${name}" already exists`);
}

/** Parts of the pool that take their roots from `volumes`. */
export function rootsOf(volumes: CephVolumes): Roots {
  return {
    createFromImage: (volume, image, options) => volumes.createFromImage(volume, image, options),
    createFilled: (volume, options, fill) => volumes.createRoot(volume, options, fill),
    copy: (source, target, options) => volumes.copy(source, target, options),
    mount: (volume, options) => volumes.mountRoot(volume, options),
    unmount: (volume) => volumes.unmount(volume),
    imageOf: async () => undefined, // what a clone stands on outlives its name
  };
}

export function snapshotsOf(volumes: CephVolumes): Snapshots {
  return {
    create: (volume, name) => volumes.createSnapshot(volume, name),
    list: (volume) => volumes.listSnapshots(volume),
    rename: (volume, name, newName) => volumes.renameSnapshot(volume, name, newName),
    delete: (volume, name) => volumes.deleteSnapshot(volume, name),
    restore: (volume, name) => volumes.restore(volume, name),
    mount: (volume, name) => volumes.mountSnapshot(volume, name),
    unmount: (volume, name) => volumes.unmountSnapshot(volume, name),
  };
}
