import { mkdir, rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { isMountPoint, unmountAll } from '../../../host/mounts.ts';
import { blockFileSystem, mountBlock } from '../../../host/tools/block-fs.ts';
import { linkFolder, removePoint } from '../common/mount-points.ts';
import { passableRoot } from '../common/passable-root.ts';
import { rootIn } from '../common/plain-content.ts';
import { contentFile, snapshotPath, volumePath } from '../common/volume-names.ts';
import type { RootMount, RootOptions, SnapshotRef, VolumeOptions, VolumeRef } from '../contract.ts';
import { fileSystemOf, mountOptionsOf } from './config.ts';
import type { CephContext } from './context.ts';
import { imageName, isBlock, snapshotName, viewName } from './names.ts';

/** Makes volumes reachable: file systems on their mount points, devices by their files. */
export class CephMounter {
  readonly #pool: CephContext;

  constructor(pool: CephContext) {
    this.#pool = pool;
  }

  /** Name of the volume's RBD image; an image volume has the pool's file system in it. */
  image(volume: VolumeRef): string {
    return imageName(volume, fileSystemOf(this.#pool.config(), 'volume.block.filesystem'));
  }

  async map(image: string): Promise<string> {
    return (await this.#pool.mapper()).map(this.#pool.place, image);
  }

  async unmap(image: string): Promise<void> {
    await (await this.#pool.mapper()).unmap(this.#pool.place, image);
  }

  /** Folder, or the device of a block volume. Idempotent. @throws not-found. */
  async mount(volume: VolumeRef, { config = {} }: VolumeOptions = {}): Promise<string> {
    const path = volumePath(this.#pool.path, volume);
    if (!isBlock(volume) && isMountPoint(path)) return path;
    const device = await this.#device(this.image(volume), 'Storage volume not found');
    if (isBlock(volume)) return volume.type === 'custom' ? device : linkFolder(path, contentFile(volume), device);
    await this.mountDevice(device, path, mountOptionsOf(config), volume.type === 'image');
    return path;
  }

  async unmount(volume: VolumeRef): Promise<void> {
    await unmountAll(volumePath(this.#pool.path, volume));
    await this.unmap(this.image(volume));
  }

  /** Mounts the device of a volume or of one that is being made. */
  async mountDevice(device: string, path: string, options: string, readOnly = false): Promise<void> {
    const type = await blockFileSystem(device);
    if (type === undefined) throw errors.internal(`The device "${device}" holds no file system this driver knows`);
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await mountBlock(device, path, { type, options, readOnly });
  }

  async mountRoot(volume: VolumeRef, options: RootOptions): Promise<RootMount> {
    const path = await this.mount(volume, options);
    return volume.type === 'virtual-machine' ? { path, ids: 'plain' } : passableRoot(path, options);
  }

  /** A clone that lives as long as the mount stands for the snapshot: a log that is left can be replayed in it. */
  async mountSnapshot(snapshot: SnapshotRef): Promise<RootMount> {
    const { images, path: pool } = this.#pool;
    const path = snapshotPath(pool, snapshot, snapshot.snapshot);
    const inside = () => (snapshot.type === 'container' ? rootIn(path) : path);
    if (isMountPoint(path)) return { path: await inside(), ids: 'plain' };
    const [image, view, name] = this.#viewed(snapshot);
    if (!(await images.snapshots(image)).some((one) => one.name === name))
      throw errors.notFound('Storage volume snapshot not found');
    if ((await images.find(view)) === undefined) await images.clone({ image, snapshot: name }, view, []);
    const device = await this.map(view);
    if (isBlock(snapshot) && snapshot.type === 'custom') return { path: device, ids: 'plain' };
    if (isBlock(snapshot)) return { path: await linkFolder(path, contentFile(snapshot), device), ids: 'plain' };
    await this.mountDevice(device, path, '', true);
    return { path: await inside(), ids: 'plain' };
  }

  /** As `unmountSnapshot`, where it is mounted. */
  async unmountView(snapshot: SnapshotRef): Promise<void> {
    const path = snapshotPath(this.#pool.path, snapshot, snapshot.snapshot);
    const [, view] = this.#viewed(snapshot);
    const mapper = await this.#pool.mapper();
    if (!isMountPoint(path) && (await mapper.device(this.#pool.place, view)) === undefined) return;
    await this.unmountSnapshot(snapshot);
  }

  async unmountSnapshot(snapshot: SnapshotRef): Promise<void> {
    const path = snapshotPath(this.#pool.path, snapshot, snapshot.snapshot);
    await unmountAll(path);
    const [, view] = this.#viewed(snapshot);
    await this.unmap(view);
    await this.#pool.lives.remove(view);
    await removePoint(path);
  }

  /** Calls `use` with the file system of an image that has no name of a volume's. */
  async withMounted<T>(image: string, use: (path: string) => Promise<T>): Promise<T> {
    const path = join(this.#pool.staging, image);
    const device = await this.map(image);
    try {
      await this.mountDevice(device, path, '');
      return await use(path);
    } finally {
      await unmountAll(path);
      await rmdir(path).catch(() => undefined);
      await this.unmap(image);
    }
  }

  /** Calls `use` with the device of an image. */
  async withDevice<T>(image: string, use: (device: string) => Promise<T>): Promise<T> {
    const device = await this.map(image);
    try {
      return await use(device);
    } finally {
      await this.unmap(image);
    }
  }

  /** Frees the folder of a volume that is no more. */
  async forget(volume: VolumeRef): Promise<void> {
    const path = volumePath(this.#pool.path, volume);
    await rm(join(path, contentFile(volume)), { force: true }).catch(() => undefined);
    await removePoint(path);
  }

  #viewed(snapshot: SnapshotRef): readonly [image: string, view: string, name: string] {
    const fileSystem = fileSystemOf(this.#pool.config(), 'volume.block.filesystem');
    return [this.image(snapshot), viewName(this.#pool.mark(), snapshot, fileSystem), snapshotName(snapshot.snapshot)];
  }

  async #device(image: string, missing: string): Promise<string> {
    const mapper = await this.#pool.mapper();
    const known = await mapper.device(this.#pool.place, image);
    if (known !== undefined) return mapper.map(this.#pool.place, image);
    if ((await this.#pool.images.find(image)) === undefined) throw errors.notFound(missing);
    return mapper.map(this.#pool.place, image);
  }
}
