import { mkdir } from 'node:fs/promises';
import { errors } from '../../../core/errors.ts';
import { retry } from '../../../core/retry.ts';
import { mountDevice } from '../../../host/loop.ts';
import { isMountPoint, unmountAll } from '../../../host/mounts.ts';
import { findZvol } from '../../../host/tools/zvol.ts';
import { linkFolder } from '../common/mount-points.ts';
import { passableRoot } from '../common/passable-root.ts';
import { rootIn } from '../common/plain-content.ts';
import { contentFile, snapshotPath, volumePath } from '../common/volume-names.ts';
import type { IdRange, RootMount, RootOptions, SnapshotRef, VolumeRef } from '../contract.ts';
import type { ZfsContext } from './context.ts';
import { datasetOf, isBlock, STAGING } from './names.ts';
import { clone } from './plan.ts';
import { isSameRange, ShiftedOwners } from './shifted.ts';

/** How long a device is waited for. */
const DEVICE = { attempts: 40, delay: 25, maxDelay: 1000, retryable: () => true };

/** Makes volumes reachable: file systems on their mount points, zvols by their device. */
export class ZfsMounter {
  readonly #pool: ZfsContext;
  readonly owners: ShiftedOwners;

  constructor(pool: ZfsContext) {
    this.#pool = pool;
    this.owners = new ShiftedOwners(pool);
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
    if (volume.type === 'virtual-machine') return { path, ids: 'plain' };
    const { datasets, mapsIds } = this.#pool;
    const wanted = mapsIds() ? undefined : options.idRange;
    await this.owners.settle(datasetOf(datasets.root, volume), path, wanted);
    const mount = await passableRoot(path, options);
    return wanted === undefined ? mount : { ...mount, ids: 'shifted' };
  }

  /**
   * A file system's snapshot is mounted itself; a zvol's has no device, so a clone that lives as long stands for it.
   * `idRange`: whose host ids its files may have where mounts cannot map them.
   */
  async mountSnapshot(snapshot: SnapshotRef, idRange?: IdRange): Promise<RootMount> {
    const { datasets, path: pool } = this.#pool;
    const path = snapshotPath(pool, snapshot, snapshot.snapshot);
    const dataset = datasetOf(datasets.root, snapshot);
    if (!isMountPoint(path)) {
      if (!(await datasets.exists(dataset))) throw errors.notFound('Storage volume snapshot not found');
      if (!isBlock(snapshot)) await this.mountDataset(dataset, path, true);
    }
    if (snapshot.type === 'container') return this.#snapshotRoot(snapshot, path, idRange);
    if (!isBlock(snapshot) || isMountPoint(path)) return { path, ids: 'plain' };
    const standIn = this.#standIn(snapshot);
    if (!(await datasets.exists(standIn))) await datasets.run(clone(dataset, standIn, 'zvol'));
    const device = await zvolDevice(standIn);
    if (snapshot.type === 'custom') return { path: device, ids: 'plain' };
    return { path: await linkFolder(path, contentFile(snapshot), device), ids: 'plain' };
  }

  async unmountSnapshot(snapshot: SnapshotRef): Promise<void> {
    const { datasets, path, newId } = this.#pool;
    await unmountAll(snapshotPath(path, snapshot, snapshot.snapshot));
    if (isBlock(snapshot) || snapshot.type === 'container') await datasets.delete(this.#standIn(snapshot), newId());
  }

  /** Root of a snapshot that is mounted at `path`; a clone with guest ids stands for one with the ids of another range. */
  async #snapshotRoot(snapshot: SnapshotRef, path: string, idRange: IdRange | undefined): Promise<RootMount> {
    const owners = await this.owners.of(path);
    if (owners !== undefined && isSameRange(owners, idRange)) return { path: await rootIn(path), ids: 'shifted' };
    if (owners !== undefined) {
      const { datasets } = this.#pool;
      const standIn = this.#standIn(snapshot);
      await unmountAll(path);
      if (!(await datasets.exists(standIn)))
        await datasets.run(clone(datasetOf(datasets.root, snapshot), standIn, 'file system'));
      await this.mountDataset(standIn, path);
      await this.owners.settle(standIn, path, undefined);
      await unmountAll(path);
      await this.mountDataset(standIn, path, true);
    }
    return { path: await rootIn(path), ids: 'plain' };
  }

  /** Dataset that stands for a snapshot. */
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
