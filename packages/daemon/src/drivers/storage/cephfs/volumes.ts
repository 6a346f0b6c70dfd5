import { chmod, mkdir, readdir, readFile, rename, rm, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { copyTree, mirrorTree, pathExists, writeFileAtomic } from '../../../host/files.ts';
import { errnoOf } from '../../../host/syscalls.ts';
import { folderBytes, folderQuota, setFolderQuota } from '../../../host/tools/cephfs.ts';
import { isSnapshot, volumeKey, volumePath } from '../common/volume-names.ts';
import type { CopyOptions, Quota, RootMount, SnapshotRef, Snapshots, VolumeRef, Volumes } from '../contract.ts';
import { type CephfsContext, isUserSnapshot, OWN_PREFIX, snapshotFolder } from './context.ts';

/** Mode of a volume's own folder; the pool's folders above keep other users of the host out. */
const VOLUME_MODE = 0o711;

/** A restore under way, so that one that is cut off is finished later. */
interface RestoreJournal {
  readonly volume: VolumeRef;
  readonly snapshot: string;
  readonly quota?: number;
}

const JOURNAL = 'restore-';

/** Custom volumes: folders, with snapshots and quotas of the file system's own. */
export class CephfsVolumes implements Volumes {
  readonly #pool: CephfsContext;

  constructor(pool: CephfsContext) {
    this.#pool = pool;
  }

  create(volume: VolumeRef): Promise<void> {
    return this.createFilled(volume, () => Promise.resolve());
  }

  async createFilled(volume: VolumeRef, fill: (path: string) => Promise<void>): Promise<void> {
    assertKept(volume);
    await this.#exclusive([volume], () => this.#publish(volume, fill));
  }

  async copy(source: VolumeRef | SnapshotRef, target: VolumeRef, options: CopyOptions = {}): Promise<void> {
    assertKept(target);
    const { signal } = options;
    await this.#exclusive([source, target], async () => {
      const from = this.#folder(source);
      await this.#publish(target, async (folder) => {
        for (const name of options.snapshots ?? []) {
          await mirrorTree(await this.#snapshot(source, name), folder, signal);
          await mkdir(snapshotFolder(folder, name));
        }
        const copyFrom = (path: string) =>
          (options.snapshots ?? []).length > 0 ? mirrorTree(path, folder, signal) : copyTree(path, folder, { signal });
        if (isSnapshot(source)) await copyFrom(await this.#snapshot(source, source.snapshot));
        else await this.#withFrozen(from, copyFrom);
      });
    });
  }

  async rename(volume: VolumeRef, newName: string): Promise<void> {
    const target = { ...volume, name: newName };
    await this.#exclusive([volume, target], async () => {
      const [from, to] = [this.#folder(volume), this.#folder(target)];
      const there = await pathExists(to);
      if (!(await pathExists(from)) && there) return;
      if (there) throw exists(newName);
      await rename(from, to);
    });
  }

  async delete(volume: VolumeRef): Promise<void> {
    await this.#exclusive([volume], () => this.#pool.trash.discard(this.#folder(volume)));
  }

  async exists(volume: VolumeRef): Promise<boolean> {
    await this.#pool.ready();
    return pathExists(this.#folder(volume));
  }

  async mount(volume: VolumeRef): Promise<string> {
    await this.#pool.ready();
    const path = this.#folder(volume);
    if (!(await pathExists(path))) throw errors.notFound('Storage volume not found');
    return path;
  }

  async unmount(): Promise<void> {
    // A folder is reachable while the pool is.
  }

  async usage(volume: VolumeRef): Promise<number | undefined> {
    return folderBytes(await this.mount(volume));
  }

  async setQuota(volume: VolumeRef, size: number | undefined): Promise<void> {
    const path = await this.mount(volume);
    const used = size === undefined ? 0 : ((await folderBytes(path)) ?? 0);
    if (size !== undefined && used > size)
      throw errors.badRequest(`Cannot limit volume "${volume.name}" to ${size} bytes: ${used} bytes are in use`);
    await setFolderQuota(path, size);
  }

  async createSnapshot(volume: VolumeRef, snapshot: string): Promise<void> {
    if (!isUserSnapshot(snapshot))
      throw errors.badRequest(`Invalid snapshot name "${snapshot}": on CephFS it must not start with "_"`);
    await this.#exclusive([volume], async () => {
      try {
        await mkdir(snapshotFolder(await this.mount(volume), snapshot));
      } catch (error) {
        if (errnoOf(error) === 'EEXIST') throw errors.conflict(`Snapshot "${snapshot}" already exists`);
        throw error;
      }
    });
  }

  async listSnapshots(volume: VolumeRef): Promise<readonly string[]> {
    await this.#pool.ready();
    try {
      return (await readdir(snapshotFolder(this.#folder(volume)))).filter(isUserSnapshot).sort();
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return [];
      throw error;
    }
  }

  async renameSnapshot(volume: VolumeRef, snapshot: string, newName: string): Promise<void> {
    if (!isUserSnapshot(newName))
      throw errors.badRequest(`Invalid snapshot name "${newName}": on CephFS it must not start with "_"`);
    await this.#exclusive([volume], async () => {
      const [from, to] = [snapshot, newName].map((name) => snapshotFolder(this.#folder(volume), name));
      if (from === undefined || to === undefined) return;
      const there = await pathExists(to);
      if (!(await pathExists(from)) && there) return;
      if (there) throw errors.conflict(`Snapshot "${newName}" already exists`);
      await rename(from, to);
    });
  }

  async deleteSnapshot(volume: VolumeRef, snapshot: string): Promise<void> {
    await this.#exclusive([volume], () => removeSnapshot(this.#folder(volume), snapshot));
  }

  /**
   * A folder's snapshots belong to that folder, so that it cannot be exchanged for another: its content is made the
   * snapshot's, under a journal. A restore that fails is taken back, one that is cut off is finished by `recover`.
   */
  async restore(volume: VolumeRef, snapshot: string): Promise<void> {
    await this.#exclusive([volume], async () => {
      const { staging, newId } = this.#pool;
      const folder = this.#folder(volume);
      const source = await this.#snapshot(volume, snapshot);
      const quota = await folderQuota(folder);
      const journal = join(staging, `${JOURNAL}${newId()}`);
      const entry: RestoreJournal = { volume, snapshot, ...(quota === undefined ? {} : { quota }) };
      await this.#withFrozen(folder, async (before) => {
        await writeFileAtomic(journal, JSON.stringify(entry));
        try {
          await this.#replaceContent(source, folder, quota);
        } catch (error) {
          await this.#replaceContent(before, folder, quota);
          await rm(journal);
          throw error;
        }
        await rm(journal);
      });
    });
  }

  async mountSnapshot(volume: VolumeRef, snapshot: string): Promise<RootMount> {
    await this.#pool.ready();
    return { path: await this.#snapshot(volume, snapshot), ids: 'plain' };
  }

  /** Finishes restores that were cut off, removes what copies and restores had frozen and what was half made. */
  async recover(): Promise<void> {
    const { path, staging, trash } = this.#pool;
    for (const name of await readdir(staging)) {
      if (!name.startsWith(JOURNAL)) await trash.discard(join(staging, name));
      else if (!name.endsWith('.new')) await this.#finishRestore(join(staging, name));
      else await rm(join(staging, name));
    }
    for (const name of await readdir(join(path, 'custom'))) {
      const folder = join(path, 'custom', name);
      for (const snapshot of await readdir(snapshotFolder(folder)).catch((): string[] => [])) {
        if (snapshot.startsWith(OWN_PREFIX)) await removeSnapshot(folder, snapshot);
      }
    }
  }

  async #finishRestore(journal: string): Promise<void> {
    const { volume, snapshot, quota }: RestoreJournal = JSON.parse(await readFile(journal, 'utf8'));
    const folder = this.#folder(volume);
    const source = snapshotFolder(folder, snapshot);
    if (await pathExists(source)) await this.#replaceContent(source, folder, quota);
    await rm(journal);
  }

  /** Old and new content lie side by side for a while: the limit waits. */
  async #replaceContent(source: string, folder: string, quota: number | undefined): Promise<void> {
    if (quota !== undefined) await setFolderQuota(folder, undefined);
    try {
      await mirrorTree(source, folder);
    } finally {
      if (quota !== undefined) await setFolderQuota(folder, quota);
    }
  }

  /** Calls `use` with a snapshot that lives as long. */
  async #withFrozen(folder: string, use: (frozen: string) => Promise<void>): Promise<void> {
    const name = `${OWN_PREFIX}${this.#pool.newId()}`;
    try {
      await mkdir(snapshotFolder(folder, name));
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') throw errors.notFound('Storage volume not found');
      throw error;
    }
    try {
      await use(snapshotFolder(folder, name));
    } finally {
      await removeSnapshot(folder, name);
    }
  }

  /** Fills a folder in `staging` and gives it its place with one rename. */
  async #publish(volume: VolumeRef, fill: (path: string) => Promise<void>): Promise<void> {
    const { staging, newId, trash } = this.#pool;
    const target = this.#folder(volume);
    if (await pathExists(target)) throw exists(volume.name);
    const folder = join(staging, newId());
    try {
      await mkdir(folder, { mode: 0o700 });
      await chmod(folder, VOLUME_MODE);
      await fill(folder);
      // The file system cannot rename without replacing, but it replaces empty folders only.
      if (await pathExists(target)) throw exists(volume.name);
      await rename(folder, target);
    } finally {
      await trash.discard(folder);
    }
  }

  /** @throws not-found. */
  async #snapshot(volume: VolumeRef, snapshot: string): Promise<string> {
    const path = snapshotFolder(this.#folder(volume), snapshot);
    if (!isUserSnapshot(snapshot) || !(await pathExists(path)))
      throw errors.notFound('Storage volume snapshot not found');
    return path;
  }

  #folder(volume: VolumeRef): string {
    return volumePath(this.#pool.path, volume);
  }

  #exclusive<T>(volumes: readonly VolumeRef[], work: () => Promise<T>): Promise<T> {
    return this.#pool.queue.run({ exclusive: volumes.map(volumeKey) }, async () => {
      await this.#pool.ready();
      return work();
    });
  }
}

async function removeSnapshot(folder: string, snapshot: string): Promise<void> {
  try {
    await rmdir(snapshotFolder(folder, snapshot));
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
  }
}

/** @throws bad-request for what a pool of this kind does not keep. */
function assertKept(volume: VolumeRef): void {
  if (volume.type !== 'custom') throw errors.badRequest('Storage pool does not support instance type');
  if (volume.contentType !== 'filesystem')
    throw errors.badRequest(
      `Storage driver "cephfs" has no volumes of content type "${volume.contentType}": only file systems`,
    );
}

function exists(name: string): Error {
  return errors.conflict(`Volume "${name}" already exists`);
}

/** Parts of the pool that take their volumes from `volumes`. */
export function snapshotsOf(volumes: CephfsVolumes): Snapshots {
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

export function quotaOf(volumes: CephfsVolumes): Quota {
  return { set: (volume, size) => volumes.setQuota(volume, size) };
}
