import { join } from 'node:path';
import { mkdir, statfs } from 'node:fs/promises';
import { errors } from '../../../core/errors.ts';
import { copyTree, mirrorTree } from '../../../host/files.ts';
import { isMountPoint, unmountAll } from '../../../host/mounts.ts';
import { copyBlocks, syncMounted } from '../../../host/tools/block-fs.ts';
import { removePoint } from '../common/mount-points.ts';
import { sizedClone } from '../common/sized-clone.ts';
import { isSnapshot, snapshotsPath, volumeKey, volumePath, volumeOf } from '../common/volume-names.ts';
import type {
  CopyOptions,
  RootOptions,
  Roots,
  SnapshotRef,
  Snapshots,
  VolumeOptions,
  VolumeRef,
  Volumes,
} from '../contract.ts';
import type { LvmContext } from './context.ts';
import { LvmMaker } from './maker.ts';
import { LvmMounter } from './mounter.ts';
import { isBlock, logicalVolume, SCRATCH, snapshotsAmong } from './names.ts';
import { addTag, bytesIn, fileSystemOf, removeTag, renameVolume, snapshotVolume, taggedFileSystem } from './plan.ts';
import { restoreTag } from './recovery.ts';

/** Names a volume has while a restore exchanges it. */
export const restoreNames = (name: string): { readonly fresh: string; readonly old: string } => ({
  fresh: `${SCRATCH}new.${name}`,
  old: `${SCRATCH}old.${name}`,
});

/** Every volume is a logical volume; instance roots lie in `rootfs/` of theirs. */
export class LvmVolumes implements Volumes {
  readonly #pool: LvmContext;
  readonly mounter: LvmMounter;
  readonly maker: LvmMaker;

  constructor(pool: LvmContext) {
    this.#pool = pool;
    this.mounter = new LvmMounter(pool);
    this.maker = new LvmMaker(pool, this.mounter);
  }

  create(volume: VolumeRef, { size, config = {} }: { readonly size?: number } & VolumeOptions): Promise<void> {
    const sized = size === undefined ? config : { ...config, size: String(size) };
    return this.#make(volume, (name) =>
      isBlock(volume)
        ? this.maker.disk(name, volume, sized)
        : this.maker.fileSystem(name, volume, sized, () => Promise.resolve()),
    );
  }

  createFilled(
    volume: VolumeRef,
    fill: (path: string) => Promise<void>,
    { config = {} }: VolumeOptions = {},
  ): Promise<void> {
    return this.#make(volume, (name) =>
      isBlock(volume) ? this.maker.disk(name, volume, config, fill) : this.maker.fileSystem(name, volume, config, fill),
    );
  }

  /** `fill` undefined: empty. */
  createRoot(volume: VolumeRef, options: RootOptions, fill?: (path: string) => Promise<void>): Promise<void> {
    if (isBlock(volume))
      return fill === undefined ? this.create(volume, options) : this.createFilled(volume, fill, options);
    return this.createFilled(
      volume,
      async (path) => {
        await mkdir(join(path, 'rootfs'), { mode: 0o755 });
        await fill?.(join(path, 'rootfs'));
      },
      options,
    );
  }

  /** A clone; where the image has another file system than asked for, a volume of its own with the same files. */
  async createFromImage(volume: VolumeRef, image: VolumeRef, options: RootOptions): Promise<void> {
    const config = options.config ?? {};
    const found = isBlock(volume) ? undefined : await this.#pool.volumes.find(logicalVolume(image));
    const type = taggedFileSystem(found?.tags ?? []);
    if (type === undefined || type === fileSystemOf(config))
      return sizedClone(this, [image, volume], options, bytesIn(config, 'size') || undefined);
    const from = await this.mount(image);
    return this.createFilled(volume, (path) => copyTree(from, path), options);
  }

  copy(source: VolumeRef | SnapshotRef, target: VolumeRef, options: CopyOptions = {}): Promise<void> {
    const shared = source.type === 'image' ? [source] : [];
    const exclusive = source.type === 'image' ? [target] : [source, target];
    return this.#exclusive(
      exclusive,
      async () => {
        const { volumes, path } = this.#pool;
        await this.#prepareTarget(target);
        const from = logicalVolume(source);
        if ((await volumes.find(from)) === undefined) throw errors.notFound('Storage volume not found');
        if (!isSnapshot(source) && isMountPoint(volumePath(path, source))) await syncMounted(volumePath(path, source));
        const config = options.config ?? {};
        if (volumes.thin) await this.#copySnapshots(source, target, options.snapshots ?? []);
        else await this.#replaySnapshots(source, target, options.snapshots ?? [], config);
        const name = logicalVolume(target);
        if (await this.exists(target)) return this.#overwrite({ name: from, volume: source }, target);
        await this.maker.publish(name, (scratch) => this.maker.copy({ name: from, volume: source }, scratch, config));
      },
      shared,
    );
  }

  rename(volume: VolumeRef, newName: string): Promise<void> {
    const target = { ...volume, name: newName };
    return this.#exclusive([volume, target], async () => {
      const { volumes } = this.#pool;
      const [from, to] = [logicalVolume(volume), logicalVolume(target)];
      const names = (await volumes.list()).map(({ name }) => name);
      if (!names.includes(from) && names.includes(to)) return;
      if (names.includes(to)) throw exists(newName);
      await this.mounter.unmount(volume);
      for (const snapshot of snapshotsAmong(names, volume)) {
        const [old, now] = [logicalVolume({ ...volume, snapshot }), logicalVolume({ ...target, snapshot })];
        await volumes.run(renameVolume(volumes.place, old, now));
      }
      await volumes.run(renameVolume(volumes.place, from, to));
      await removePoint(volumePath(this.#pool.path, volume));
    });
  }

  delete(volume: VolumeRef): Promise<void> {
    return this.#exclusive([volume], async () => {
      const { volumes } = this.#pool;
      await this.mounter.unmount(volume);
      const names = (await volumes.list()).map(({ name }) => name);
      const snapshots = snapshotsAmong(names, volume).map((snapshot) => ({ ...volume, snapshot }));
      for (const snapshot of snapshots) await this.mounter.unmountSnapshot(snapshot);
      await volumes.remove([...snapshots, volume].map(logicalVolume).filter((name) => names.includes(name)));
      await removePoint(volumePath(this.#pool.path, volume));
      if (volume.type !== 'image') await removePoint(snapshotsPath(this.#pool.path, volume));
    });
  }

  async exists(volume: VolumeRef): Promise<boolean> {
    return (await this.#pool.volumes.find(logicalVolume(volume))) !== undefined;
  }

  mount(volume: VolumeRef, options?: VolumeOptions): Promise<string> {
    return this.#exclusive([volume], () => this.mounter.mount(volume, options));
  }

  unmount(volume: VolumeRef): Promise<void> {
    return this.#exclusive([volume], () => this.mounter.unmount(volume));
  }

  /** Of a mounted file system what it says, else what its thin volume has of the pool. */
  async usage(volume: VolumeRef): Promise<number | undefined> {
    const path = volumePath(this.#pool.path, volume);
    if (!isBlock(volume) && isMountPoint(path)) {
      const { bsize, blocks, bfree } = await statfs(path);
      return bsize * (blocks - bfree);
    }
    const found = await this.#pool.volumes.find(logicalVolume(volume));
    return found?.used === undefined ? undefined : Math.round((found.size * found.used) / 100);
  }

  /** Grows live; ext4 shrinks while it is not in use. Without a size nothing changes: a device always has one. */
  resize(volume: VolumeRef, size: number | undefined): Promise<void> {
    if (size === undefined) return Promise.resolve();
    const path = volumePath(this.#pool.path, volume);
    return this.#exclusive([volume], () => this.maker.resize(logicalVolume(volume), volume, path, size));
  }

  exclusively<T>(volume: VolumeRef, work: () => Promise<T>): Promise<T> {
    return this.#exclusive([volume], work);
  }

  createSnapshot(volume: VolumeRef, snapshot: string): Promise<void> {
    return this.#exclusive([volume], async () => {
      const { volumes } = this.#pool;
      const name = logicalVolume({ ...volume, snapshot });
      if ((await volumes.find(name)) !== undefined) throw errors.conflict(`Snapshot "${snapshot}" already exists`);
      // device-mapper freezes ext4 and xfs, but not btrfs, whose last seconds would be missing.
      const path = volumePath(this.#pool.path, volume);
      if (!isBlock(volume) && isMountPoint(path)) await syncMounted(path);
      const how = { from: logicalVolume(volume), name, readOnly: volumes.thin };
      await volumes.run(snapshotVolume(volumes.place, how));
    });
  }

  async listSnapshots(volume: VolumeRef): Promise<readonly string[]> {
    const names = (await this.#pool.volumes.list()).map(({ name }) => name);
    return snapshotsAmong(names, volume).sort();
  }

  renameSnapshot(volume: VolumeRef, snapshot: string, newName: string): Promise<void> {
    return this.#exclusive([volume], async () => {
      const { volumes } = this.#pool;
      const [from, to] = [logicalVolume({ ...volume, snapshot }), logicalVolume({ ...volume, snapshot: newName })];
      if ((await volumes.find(to)) !== undefined) {
        if ((await volumes.find(from)) === undefined) return;
        throw errors.conflict(`Snapshot "${newName}" already exists`);
      }
      await this.mounter.unmountSnapshot({ ...volume, snapshot });
      await volumes.run(renameVolume(volumes.place, from, to));
      await removePoint(volumePath(this.#pool.path, volume));
    });
  }

  deleteSnapshot(volume: VolumeRef, snapshot: string): Promise<void> {
    return this.#exclusive([volume], async () => {
      const reference = { ...volume, snapshot };
      await this.mounter.unmountSnapshot(reference);
      if ((await this.#pool.volumes.find(logicalVolume(reference))) !== undefined)
        await this.#pool.volumes.remove([logicalVolume(reference)]);
    });
  }

  /** Two renames, or of a plain volume its content anew: `recover` completes what was begun. */
  restore(volume: VolumeRef, snapshot: string): Promise<void> {
    return this.#exclusive([volume], async () => {
      const { volumes, path } = this.#pool;
      const [name, source] = [logicalVolume(volume), { ...volume, snapshot }];
      if ((await volumes.find(logicalVolume(source))) === undefined)
        throw errors.notFound('Storage volume snapshot not found');
      if (!volumes.thin) {
        await volumes.run(addTag(volumes.place, name, restoreTag(snapshot)));
        try {
          await this.#overwrite({ name: logicalVolume(source), volume: source }, volume);
        } finally {
          // A failure is told; only what was cut off is done again.
          await volumes.run(removeTag(volumes.place, name, restoreTag(snapshot)));
        }
        return;
      }
      const { fresh, old } = restoreNames(name);
      await volumes.remove([fresh, old]);
      await this.maker.copy({ name: logicalVolume(source), volume }, fresh, {});
      await this.#keepSize(name, fresh, volume);
      await unmountAll(volumePath(path, volume));
      await volumes.deactivate(name);
      await volumes.deactivate(fresh);
      await volumes.run(renameVolume(volumes.place, name, old));
      await volumes.run(renameVolume(volumes.place, fresh, name));
      await volumes.remove([old]);
    });
  }

  /** A volume that has grown since its snapshot stays as large. */
  async #keepSize(current: string, fresh: string, volume: VolumeRef): Promise<void> {
    const size = (await this.#pool.volumes.find(current))?.size ?? 0;
    const snapshot = (await this.#pool.volumes.find(fresh))?.size ?? 0;
    if (size > snapshot) await this.maker.resize(fresh, volume, join(this.#pool.staging, fresh), size);
  }

  /** Every file or block of `from` into the volume, which stays the one it is. */
  async #overwrite(from: { readonly name: string; readonly volume: VolumeRef }, target: VolumeRef): Promise<void> {
    const { volumes, path } = this.#pool;
    const name = logicalVolume(target);
    if (isBlock(target)) {
      const device = await volumes.activate(from.name);
      await copyBlocks(device, await volumes.activate(name), { zeroed: false });
      await volumes.deactivate(name);
      return volumes.deactivate(from.name);
    }
    await unmountAll(volumePath(path, target));
    await this.maker.withFrozen(from.name, (source) =>
      this.maker.withMounted(name, (folder) => mirrorTree(source, folder)),
    );
    await volumes.deactivate(name);
    await volumes.deactivate(from.name);
  }

  async #copySnapshots(source: VolumeRef, target: VolumeRef, names: readonly string[]): Promise<void> {
    const { volumes } = this.#pool;
    for (const snapshot of names) {
      const from = logicalVolume({ ...volumeOf(source), snapshot });
      const name = logicalVolume({ ...target, snapshot });
      await volumes.run(snapshotVolume(volumes.place, { from, name, readOnly: true }));
    }
  }

  /** Plain snapshots belong to one volume: the copy is made state by state. */
  async #replaySnapshots(
    source: VolumeRef,
    target: VolumeRef,
    names: readonly string[],
    config: Readonly<Record<string, string>>,
  ): Promise<void> {
    const { volumes } = this.#pool;
    for (const snapshot of names) {
      const from = { name: logicalVolume({ ...volumeOf(source), snapshot }), volume: source };
      if (await this.exists(target)) await this.#overwrite(from, target);
      else await this.maker.publish(logicalVolume(target), (scratch) => this.maker.copy(from, scratch, config));
      const how = { from: logicalVolume(target), name: logicalVolume({ ...target, snapshot }), readOnly: false };
      await volumes.run(snapshotVolume(volumes.place, how));
    }
  }

  /** @throws conflict when it exists. What an interrupted copy left of its snapshots goes. */
  async #prepareTarget(volume: VolumeRef): Promise<void> {
    const { volumes } = this.#pool;
    const name = logicalVolume(volume);
    const names = (await volumes.list()).map((one) => one.name);
    if (names.includes(name)) throw exists(volume.name);
    await volumes.remove(snapshotsAmong(names, volume).map((snapshot) => logicalVolume({ ...volume, snapshot })));
  }

  async #make(volume: VolumeRef, make: (scratch: string) => Promise<void>): Promise<void> {
    volumePath(this.#pool.path, volume); // refuses a name that is no path component
    await this.#exclusive([volume], async () => {
      await this.#prepareTarget(volume);
      await this.maker.publish(logicalVolume(volume), make);
    });
  }

  #exclusive<T>(volumes: readonly VolumeRef[], work: () => Promise<T>, shared: readonly VolumeRef[] = []): Promise<T> {
    return this.#pool.queue.run({ exclusive: volumes.map(volumeKey), shared: shared.map(volumeKey) }, work);
  }
}

function exists(name: string): Error {
  return errors.conflict(`Volume "${name}" already exists`);
}

/** Parts of the pool that take their roots from `volumes`. */
export function rootsOf(volumes: LvmVolumes): Roots {
  return {
    createFromImage: (volume, image, options) => volumes.createFromImage(volume, image, options),
    createFilled: (volume, options, fill) => volumes.createRoot(volume, options, fill),
    copy: (source, target, options) => volumes.copy(source, target, options),
    mount: (volume, options) => volumes.exclusively(volume, () => volumes.mounter.mountRoot(volume, options)),
    unmount: (volume) => volumes.unmount(volume),
    imageOf: async () => undefined, // a clone shares blocks with the image, not its name: the image may go first
  };
}

export function snapshotsOf(volumes: LvmVolumes): Snapshots {
  return {
    create: (volume, name) => volumes.createSnapshot(volume, name),
    list: (volume) => volumes.listSnapshots(volume),
    rename: (volume, name, newName) => volumes.renameSnapshot(volume, name, newName),
    delete: (volume, name) => volumes.deleteSnapshot(volume, name),
    restore: (volume, name) => volumes.restore(volume, name),
    mount: (volume, snapshot) =>
      volumes.exclusively(volume, () => volumes.mounter.mountSnapshot({ ...volume, snapshot })),
    unmount: (volume, snapshot) =>
      volumes.exclusively(volume, () => volumes.mounter.unmountSnapshot({ ...volume, snapshot })),
  };
}
