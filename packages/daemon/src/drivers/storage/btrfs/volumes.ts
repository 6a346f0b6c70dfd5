import { chmod, chown, mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { pathExists } from '../../../host/files.ts';
import { renameExchange } from '../../../host/syscalls.ts';
import { createSubvolume, limitReferenced, referencedBytes, referencedLimit } from '../../../host/tools/btrfs.ts';
import { setReadOnly, snapshotTree } from '../../../host/tools/btrfs-tree.ts';
import { machineIn, rootIn } from '../common/plain-content.ts';
import { renameOrConflict } from '../common/publish.ts';
import { fillEmpty, VolumeFolders } from '../common/volume-folders.ts';
import { isSnapshot, snapshotPath, snapshotsPath, volumePath } from '../common/volume-names.ts';
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
  readonly #folders: VolumeFolders;

  constructor(pool: BtrfsContext) {
    this.#pool = pool;
    this.#folders = new VolumeFolders(pool);
  }

  create(volume: VolumeRef, options: { readonly size?: number }): Promise<void> {
    return this.createFilled(volume, (folder) => fillEmpty(folder, volume, options.size));
  }

  createFilled(volume: VolumeRef, fill: (path: string) => Promise<void>): Promise<void> {
    return this.#folders.exclusive([volume], async () => {
      const { staging, newId, path } = this.#pool;
      const target = volumePath(path, volume);
      await this.#folders.assertAbsent(volume);
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
    return this.#folders.exclusive(
      exclusive,
      async () => {
        const { path, staging, newId } = this.#pool;
        const to = volumePath(path, target);
        await this.#folders.assertAbsent(target);
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
    return this.#folders.rename(volume, newName);
  }

  delete(volume: VolumeRef): Promise<void> {
    return this.#folders.exclusive([volume], async () => {
      const { path } = this.#pool;
      await discardSubvolume(this.#pool, volumePath(path, volume));
      if (volume.type !== 'image') await this.#discardFolder(snapshotsPath(path, volume));
    });
  }

  exists(volume: VolumeRef): Promise<boolean> {
    return this.#folders.exists(volume);
  }

  mount(volume: VolumeRef): Promise<string> {
    return this.#folders.content(volume);
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
  resizeBlock(volume: VolumeRef, size: number): Promise<void> {
    return this.#folders.resizeBlock(volume, size);
  }

  /** Makes the folder of a container's root belong to its range, so that its own root may pass. */
  async prepareRoot(volume: VolumeRef, options: RootOptions): Promise<RootMount> {
    const folder = volumePath(this.#pool.path, volume);
    if (!(await pathExists(folder))) throw errors.notFound('Storage volume not found');
    if (volume.type === 'virtual-machine') return machineIn(folder);
    const path = await rootIn(folder);
    const base = options.idRange?.base ?? 0;
    if ((await stat(folder)).uid !== base) await chown(folder, base, base);
    return { path, ids: 'plain' };
  }

  createSnapshot(volume: VolumeRef, snapshot: string): Promise<void> {
    return this.#folders.exclusive([volume], async () => {
      const target = snapshotPath(this.#pool.path, volume, snapshot);
      if (await pathExists(target)) throw errors.conflict(`Snapshot "${snapshot}" already exists`);
      await placeSnapshot(this.#pool, volumePath(this.#pool.path, volume), target);
    });
  }

  listSnapshots(volume: VolumeRef): Promise<readonly string[]> {
    return this.#folders.snapshots(volume);
  }

  renameSnapshot(volume: VolumeRef, snapshot: string, newName: string): Promise<void> {
    return this.#folders.renameSnapshot(volume, snapshot, newName);
  }

  deleteSnapshot(volume: VolumeRef, snapshot: string): Promise<void> {
    return this.#folders.exclusive([volume], () =>
      discardSubvolume(this.#pool, snapshotPath(this.#pool.path, volume, snapshot)),
    );
  }

  /** One exchange of names: before it the volume is the old, after it the new. */
  restore(volume: VolumeRef, snapshot: string): Promise<void> {
    return this.#folders.exclusive([volume], async () => {
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
    const content = await this.#folders.snapshotContent(volume, snapshot);
    if (volume.type === 'virtual-machine') return machineIn(content);
    return { path: volume.type === 'container' ? await rootIn(content) : content, ids: 'plain' };
  }

  #folder(volume: VolumeRef | SnapshotRef): string {
    const { path } = this.#pool;
    return isSnapshot(volume) ? snapshotPath(path, volume, volume.snapshot) : volumePath(path, volume);
  }

  /** A folder of snapshots: they are read-only, but the folder itself may move. */
  async #discardFolder(folder: string): Promise<void> {
    await this.#pool.trash.discard(folder);
  }
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
