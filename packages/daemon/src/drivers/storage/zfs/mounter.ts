import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { retry } from '../../../core/retry.ts';
import { mountDevice } from '../../../host/loop.ts';
import { isMountPoint, unmountAll } from '../../../host/mounts.ts';
import { findZvol } from '../../../host/tools/zvol.ts';
import { linkFolder } from '../common/mount-points.ts';
import { passableRoot } from '../common/passable-root.ts';
import { contentFile, snapshotPath, volumePath } from '../common/volume-names.ts';
import type { RootMount, RootOptions, SnapshotRef, VolumeRef } from '../contract.ts';
import type { ZfsContext } from './context.ts';
import { datasetOf, isBlock, STAGING } from './names.ts';
import { clone } from './plan.ts';

/** How long a device is waited for. */
const DEVICE = { attempts: 40, delay: 25, maxDelay: 1000, retryable: () => true };

/** Makes volumes reachable: file systems on their mount points, zvols by their device. */
export class ZfsMounter {
  readonly #pool: ZfsContext;

  constructor(pool: ZfsContext) {
    this.#pool = pool;
  }

  /** Folder, or the device of a block volume. Idempotent. @throws not-found. */
  async mount(volume: VolumeRef): Promise<string> {
    const { datasets } = this.#pool;
    const path = volumePath(this.#pool.path, volume);
    if (!isBlock(volume) && isMountPoint(path)) return path;
    const dataset = datasetOf(datasets.root, volume);
    if (!(await datasets.exists(dataset))) throw errors.notFound('Storage volume not found');
    if (!isBlock(volume)) {
      await this.mountDataset(dataset, path, volume.type === 'image');
      return path;
    }
    const device = await zvolDevice(dataset);
    return volume.type === 'custom' ? device : linkFolder(path, contentFile(volume), device);
  }

  async unmount(volume: VolumeRef): Promise<void> {
    await unmountAll(volumePath(this.#pool.path, volume));
  }

  /** A file system or a snapshot of one. */
  async mountDataset(dataset: string, path: string, readOnly = false): Promise<void> {
    await mkdir(path, { recursive: true, mode: 0o700 });
    await mountDevice(dataset, path, 'zfs', readOnly ? ['ro'] : []);
  }

  async mountRoot(volume: VolumeRef, options: RootOptions): Promise<RootMount> {
    const path = await this.mount(volume);
    return volume.type === 'virtual-machine' ? { path, ids: 'plain' } : passableRoot(path, options);
  }

  /** A file system's snapshot is mounted itself; a zvol's has no device, so a clone that lives as long stands for it. */
  async mountSnapshot(snapshot: SnapshotRef): Promise<RootMount> {
    const { datasets, path: pool } = this.#pool;
    const path = snapshotPath(pool, snapshot, snapshot.snapshot);
    const inside = snapshot.type === 'container' ? join(path, 'rootfs') : path;
    if (isMountPoint(path)) return { path: inside, ids: 'plain' };
    const dataset = datasetOf(datasets.root, snapshot);
    if (!(await datasets.exists(dataset))) throw errors.notFound('Storage volume snapshot not found');
    if (!isBlock(snapshot)) {
      await this.mountDataset(dataset, path, true);
      return { path: inside, ids: 'plain' };
    }
    const standIn = this.#standIn(snapshot);
    if (!(await datasets.exists(standIn))) await datasets.run(clone(dataset, standIn, 'zvol'));
    const device = await zvolDevice(standIn);
    if (snapshot.type === 'custom') return { path: device, ids: 'plain' };
    return { path: await linkFolder(path, contentFile(snapshot), device), ids: 'plain' };
  }

  async unmountSnapshot(snapshot: SnapshotRef): Promise<void> {
    const { datasets, path, newId } = this.#pool;
    await unmountAll(snapshotPath(path, snapshot, snapshot.snapshot));
    if (isBlock(snapshot)) await datasets.delete(this.#standIn(snapshot), newId());
  }

  /** Dataset that stands for a zvol's snapshot. */
  #standIn(snapshot: SnapshotRef): string {
    const { root } = this.#pool.datasets;
    return `${root}/${STAGING}/${datasetOf(root, snapshot)
      .slice(root.length + 1)
      .replaceAll(/[/@]/g, ':')}`;
  }
}

/** The device of a zvol; it appears a moment after the dataset. @throws unavailable. */
export function zvolDevice(dataset: string): Promise<string> {
  return retry(async () => {
    const device = await findZvol(dataset);
    if (device === undefined) throw errors.unavailable(`The device of the volume "${dataset}" did not appear`);
    return device;
  }, DEVICE);
}
