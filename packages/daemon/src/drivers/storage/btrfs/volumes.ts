import { chmod, chown, mkdir, open, readdir, rename, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { pathExists } from '../../../host/files.ts';
import { renameExchange } from '../../../host/syscalls.ts';
import { createSubvolume, limitReferenced, referencedBytes, referencedLimit } from '../../../host/tools/btrfs.ts';
import { setReadOnly, snapshotTree } from '../../../host/tools/btrfs-tree.ts';
import { renameOrConflict } from '../common/publish.ts';
import { contentFile, isSnapshot, snapshotPath, snapshotsPath, volumeKey, volumePath } from '../common/volume-names.ts';
import type {
  CopyOptions,
  RootMount,
  RootOptions,
  Roots,
  SnapshotRef,
  Snapshots,
  VolumeRef,
  Volumes,
} from '../contract.ts';
import { type BtrfsContext, discardSubvolume, MODES } from './context.ts';
import { placeSnapshot, publish } from './publish.ts';

/** Every volume is a subvolume, every snapshot a read-only one, laid out as LXD does; instance roots lie in `rootfs/`. */
export class BtrfsVolumes implements Volumes, Omit<Roots, 'copy' | 'createFilled' | 'mount' | 'unmount'> {
  readonly #pool: BtrfsContext;

  constructor(pool: BtrfsContext) {
    this.#pool = pool;
  }

  create(volume: VolumeRef, options: { readonly size?: number }): Promise<void> {
    return this.createFilled(volume, async (folder) => {
      if (volume.contentType === 'filesystem') return;
      const file = await open(join(folder, contentFile(volume)), 'wx', 0o600);
      await file.truncate(options.size ?? 0);
      await file.close();
    });
  }

  createFilled(volume: VolumeRef, fill: (path: string) => Promise<void>): Promise<void> {
    return this.#exclusive([volume], async () => {
      const { staging, newId, path } = this.#pool;
      const target = volumePath(path, volume);
      if (await pathExists(target)) throw exists(volume.name);
      const folder = join(staging, newId());
      await createSubvolume(folder);
      try {
        await chmod(folder, MODES[volume.type]);
        await fill(folder);
        await renameOrConflict(folder, target, volume.name);
        if (volume.type === 'image') await setReadOnly(target, true);
      } finally {
        await discardSubvolume(this.#pool, folder);
      }
    });
  }

  async createFromImage(volume: VolumeRef, image: VolumeRef, _options?: RootOptions): Promise<void> {
    await this.copy(image, volume);
  }

  copy(source: VolumeRef | SnapshotRef, target: VolumeRef, options: CopyOptions = {}): Promise<void> {
    const shared = source.type === 'image' ? [source] : [];
    const exclusive = source.type === 'image' ? [target] : [source, target];
    return this.#exclusive(
      exclusive,
      async () => {
        const { path, staging, newId } = this.#pool;
        const to = volumePath(path, target);
        if (await pathExists(to)) throw exists(target.name);
        await this.#discardFolder(snapshotsPath(path, target));
        const fresh = join(staging, newId());
        try {
          await snapshotTree(this.#folder(source), fresh);
          await chmod(fresh, MODES[target.type]);
          const names = options.snapshots ?? [];
          const snapshots = new Map(names.map((name) => [name, snapshotPath(path, source, name)]));
          const place = () => renameOrConflict(fresh, to, target.name);
          await publish(this.#pool, target, { head: fresh, snapshots, place });
        } finally {
          await discardSubvolume(this.#pool, fresh);
        }
      },
      shared,
    );
  }

  rename(volume: VolumeRef, newName: string): Promise<void> {
    const target = { ...volume, name: newName };
    return this.#exclusive([volume, target], async () => {
      const { path } = this.#pool;
      const [from, to] = [volumePath(path, volume), volumePath(path, target)];
      if (!(await pathExists(from)) && (await pathExists(to))) return;
      if (await pathExists(to)) throw exists(newName);
      if (await pathExists(snapshotsPath(path, volume)))
        await rename(snapshotsPath(path, volume), snapshotsPath(path, target));
      await renameOrConflict(from, to, newName);
    });
  }

  delete(volume: VolumeRef): Promise<void> {
    return this.#exclusive([volume], async () => {
      const { path } = this.#pool;
      await discardSubvolume(this.#pool, volumePath(path, volume));
      if (volume.type !== 'image') await this.#discardFolder(snapshotsPath(path, volume));
    });
  }

  exists(volume: VolumeRef): Promise<boolean> {
    return pathExists(volumePath(this.#pool.path, volume));
  }

  async mount(volume: VolumeRef): Promise<string> {
    return this.#content(volumePath(this.#pool.path, volume), volume);
  }

  async unmount(): Promise<void> {
    // A subvolume is reachable while the pool is.
  }

  usage(volume: VolumeRef): Promise<number | undefined> {
    return referencedBytes(volumePath(this.#pool.path, volume));
  }

  /** A clone shares blocks with the image, not its name: the image may go first. */
  async imageOf(): Promise<undefined> {
    return undefined;
  }

  /** @throws bad-request when a block volume would lose its end. */
  async resizeBlock(volume: VolumeRef, size: number): Promise<void> {
    const path = await this.mount(volume);
    if ((await stat(path)).size > size) throw errors.badRequest('Block volumes cannot be shrunk');
    await truncate(path, size);
  }

  /** Makes the folder of a container's root belong to its range, so that its own root may pass. */
  async prepareRoot(volume: VolumeRef, options: RootOptions): Promise<RootMount> {
    const folder = volumePath(this.#pool.path, volume);
    if (!(await pathExists(folder))) throw errors.notFound('Storage volume not found');
    if (volume.type === 'virtual-machine') return { path: folder, ids: 'plain' };
    const base = options.idRange?.base ?? 0;
    if ((await stat(folder)).uid !== base) await chown(folder, base, base);
    return { path: join(folder, 'rootfs'), ids: 'plain' };
  }

  createSnapshot(volume: VolumeRef, snapshot: string): Promise<void> {
    return this.#exclusive([volume], async () => {
      const target = snapshotPath(this.#pool.path, volume, snapshot);
      if (await pathExists(target)) throw errors.conflict(`Snapshot "${snapshot}" already exists`);
      await placeSnapshot(this.#pool, volumePath(this.#pool.path, volume), target);
    });
  }

  async listSnapshots(volume: VolumeRef): Promise<readonly string[]> {
    const folder = snapshotsPath(this.#pool.path, volume);
    return (await pathExists(folder)) ? (await readdir(folder)).sort() : [];
  }

  renameSnapshot(volume: VolumeRef, snapshot: string, newName: string): Promise<void> {
    return this.#exclusive([volume], async () => {
      const from = snapshotPath(this.#pool.path, volume, snapshot);
      const to = snapshotPath(this.#pool.path, volume, newName);
      if (!(await pathExists(from)) && (await pathExists(to))) return;
      await renameOrConflict(from, to, newName);
    });
  }

  deleteSnapshot(volume: VolumeRef, snapshot: string): Promise<void> {
    return this.#exclusive([volume], () =>
      discardSubvolume(this.#pool, snapshotPath(this.#pool.path, volume, snapshot)),
    );
  }

  /** One exchange of names: before it the volume is the old, after it the new. */
  restore(volume: VolumeRef, snapshot: string): Promise<void> {
    return this.#exclusive([volume], async () => {
      const { path, staging, newId } = this.#pool;
      const source = snapshotPath(path, volume, snapshot);
      if (!(await pathExists(source))) throw errors.notFound('Storage volume snapshot not found');
      const [fresh, current] = [join(staging, newId()), volumePath(path, volume)];
      try {
        await snapshotTree(source, fresh);
        const limit = await referencedLimit(current);
        if (limit !== undefined) await limitReferenced(fresh, limit);
        await renameExchange(fresh, current);
      } finally {
        await discardSubvolume(this.#pool, fresh);
      }
    });
  }

  async mountSnapshot(volume: VolumeRef, snapshot: string): Promise<RootMount> {
    const folder = snapshotPath(this.#pool.path, volume, snapshot);
    if (!(await pathExists(folder))) throw errors.notFound('Storage volume snapshot not found');
    const path = volume.type === 'container' ? join(folder, 'rootfs') : this.#content(folder, volume);
    return { path, ids: 'plain' };
  }

  #folder(volume: VolumeRef | SnapshotRef): string {
    const { path } = this.#pool;
    return isSnapshot(volume) ? snapshotPath(path, volume, volume.snapshot) : volumePath(path, volume);
  }

  #content(folder: string, volume: VolumeRef): string {
    return volume.type !== 'custom' || volume.contentType === 'filesystem' ? folder : join(folder, contentFile(volume));
  }

  /** A folder of snapshots: they are read-only, but the folder itself may move. */
  async #discardFolder(folder: string): Promise<void> {
    await this.#pool.trash.discard(folder);
  }

  #exclusive<T>(volumes: readonly VolumeRef[], work: () => Promise<T>, shared: readonly VolumeRef[] = []): Promise<T> {
    return this.#pool.queue.run({ exclusive: volumes.map(volumeKey), shared: shared.map(volumeKey) }, work);
  }
}

function exists(name: string): Error {
  return errors.conflict(`Volume "${name}" already exists`);
}

/** Parts of the pool that take their roots from `volumes`. */
export function rootsOf(volumes: BtrfsVolumes): Roots {
  return {
    createFromImage: (volume, image, options) => volumes.createFromImage(volume, image, options),
    createFilled: (volume, _options, fill) =>
      volumes.createFilled(volume, async (folder) => {
        if (volume.type === 'virtual-machine') return fill?.(folder);
        await mkdir(join(folder, 'rootfs'), { mode: 0o755 });
        await fill?.(join(folder, 'rootfs'));
      }),
    copy: (source, target, options) => volumes.copy(source, target, options),
    mount: (volume, options) => volumes.prepareRoot(volume, options),
    unmount: async () => undefined,
    imageOf: () => volumes.imageOf(),
  };
}

export function snapshotsOf(volumes: BtrfsVolumes): Snapshots {
  return {
    create: (volume, name) => volumes.createSnapshot(volume, name),
    list: (volume) => volumes.listSnapshots(volume),
    rename: (volume, name, newName) => volumes.renameSnapshot(volume, name, newName),
    delete: (volume, name) => volumes.deleteSnapshot(volume, name),
    restore: (volume, name) => volumes.restore(volume, name),
    mount: (volume, name) => volumes.mountSnapshot(volume, name),
    unmount: async () => undefined,
  };
}
