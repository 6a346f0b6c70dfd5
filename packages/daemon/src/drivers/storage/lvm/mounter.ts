import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { pathExists } from '../../../host/files.ts';
import { isMountPoint, unmountAll } from '../../../host/mounts.ts';
import { blockFileSystem, mountBlock, renewIdentity } from '../../../host/tools/block-fs.ts';
import { linkFolder, removePoint } from '../common/mount-points.ts';
import { passableRoot } from '../common/passable-root.ts';
import { contentFile, snapshotPath, volumePath } from '../common/volume-names.ts';
import type { RootMount, RootOptions, SnapshotRef, VolumeOptions, VolumeRef } from '../contract.ts';
import type { LvmContext } from './context.ts';
import { isBlock, logicalVolume, SCRATCH } from './names.ts';
import { mountOptionsOf, snapshotVolume } from './plan.ts';

/** Makes volumes reachable: file systems on their mount points, devices by their files. */
export class LvmMounter {
  readonly #pool: LvmContext;

  constructor(pool: LvmContext) {
    this.#pool = pool;
  }

  /** Folder, or the device of a block volume. Idempotent. @throws not-found. */
  async mount(volume: VolumeRef, { config = {} }: VolumeOptions = {}): Promise<string> {
    const name = logicalVolume(volume);
    const path = volumePath(this.#pool.path, volume);
    if (!isBlock(volume) && isMountPoint(path)) return path;
    const device = await this.#activate(name, 'Storage volume not found');
    if (volume.type === 'virtual-machine' || (volume.type === 'image' && isBlock(volume)))
      return linkFolder(path, contentFile(volume), device);
    if (isBlock(volume)) return device;
    await this.mountDevice(device, path, mountOptionsOf(config), volume.type === 'image');
    return path;
  }

  async unmount(volume: VolumeRef): Promise<void> {
    const path = volumePath(this.#pool.path, volume);
    await unmountAll(path);
    await this.#pool.volumes.deactivate(logicalVolume(volume));
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

  /** A copy that lives as long as the mount stands for a thin snapshot: its log can be replayed and its identity changed. */
  async mountSnapshot(snapshot: SnapshotRef): Promise<RootMount> {
    const { volumes, path: pool } = this.#pool;
    const path = snapshotPath(pool, snapshot, snapshot.snapshot);
    const inside = snapshot.type === 'container' ? join(path, 'rootfs') : path;
    if (isMountPoint(path)) return { path: inside, ids: 'plain' };
    const name = logicalVolume(snapshot);
    if ((await volumes.find(name)) === undefined) throw errors.notFound('Storage volume snapshot not found');
    if (isBlock(snapshot)) {
      const device = await volumes.activate(name);
      if (snapshot.type === 'custom') return { path: device, ids: 'plain' };
      return { path: await linkFolder(path, contentFile(snapshot), device), ids: 'plain' };
    }
    const device = volumes.thin ? await this.#standIn(name) : await volumes.activate(name);
    const type = await blockFileSystem(device);
    if (type === 'btrfs') await renewIdentity(device, type);
    await this.mountDevice(device, path, '', true);
    return { path: inside, ids: 'plain' };
  }

  async unmountSnapshot(snapshot: SnapshotRef): Promise<void> {
    const { volumes, path: pool } = this.#pool;
    const path = snapshotPath(pool, snapshot, snapshot.snapshot);
    const mounted = isMountPoint(path);
    await unmountAll(path);
    const name = logicalVolume(snapshot);
    if (mounted && volumes.thin) await volumes.remove([`${SCRATCH}${name}`]);
    await volumes.deactivate(name);
    await removePoint(path);
  }

  async #standIn(name: string): Promise<string> {
    const { volumes } = this.#pool;
    const copy = `${SCRATCH}${name}`;
    await volumes.remove([copy]);
    await volumes.run(snapshotVolume(volumes.place, { from: name, name: copy, readOnly: false, activate: true }));
    return volumes.device(copy);
  }

  async #activate(name: string, missing: string): Promise<string> {
    const { volumes } = this.#pool;
    if (!(await pathExists(volumes.device(name))) && (await volumes.find(name)) === undefined)
      throw errors.notFound(missing);
    return volumes.activate(name);
  }
}
