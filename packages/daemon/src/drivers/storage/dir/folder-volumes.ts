import { chmod, mkdir, open, readdir, rename, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { copyTree, pathExists } from '../../../host/files.ts';
import { errnoOf, renameExchange } from '../../../host/syscalls.ts';
import type { CopyOptions, RootMount, SnapshotRef, VolumeRef, Volumes } from '../contract.ts';
import { contentFile, isSnapshot, snapshotPath, snapshotsPath, volumeKey, volumePath } from '../common/volume-names.ts';
import type { DirContext } from './context.ts';
import { renameOrConflict } from '../common/publish.ts';

/** Mode of a volume's own folder; the pool's folders above keep other users of the host out. */
const VOLUME_MODE = 0o711;

/** Image and custom volumes: plain folders with guest ids, or a folder with one file for block content. */
export class FolderVolumes implements Volumes {
  readonly #dir: DirContext;

  constructor(dir: DirContext) {
    this.#dir = dir;
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
    return this.#exclusive([volume], () => this.#make(volume, fill));
  }

  copy(source: VolumeRef | SnapshotRef, target: VolumeRef, options: CopyOptions = {}): Promise<void> {
    return this.#exclusive([source, target], async () => {
      const { path, trash } = this.#dir;
      const from = isSnapshot(source) ? snapshotPath(path, source, source.snapshot) : volumePath(path, source);
      if (await pathExists(volumePath(path, target))) throw errors.conflict(`Volume "${target.name}" already exists`);
      await trash.discard(snapshotsPath(path, target));
      for (const name of options.snapshots ?? []) {
        await this.#copyFolder(snapshotPath(path, source, name), snapshotPath(path, target, name), options);
      }
      // A guest may get the volume at any moment; only what is frozen may be copied by name.
      await this.#copyFolder(from, volumePath(path, target), { ...options, live: !isSnapshot(source) });
    });
  }

  rename(volume: VolumeRef, newName: string): Promise<void> {
    const target = { ...volume, name: newName };
    return this.#exclusive([volume, target], async () => {
      const { path } = this.#dir;
      const [from, to] = [volumePath(path, volume), volumePath(path, target)];
      if (!(await pathExists(from)) && (await pathExists(to))) return;
      if (await pathExists(to)) throw errors.conflict(`Volume "${newName}" already exists`);
      if (await pathExists(snapshotsPath(path, volume)))
        await rename(snapshotsPath(path, volume), snapshotsPath(path, target));
      await renameOrConflict(from, to, newName);
    });
  }

  delete(volume: VolumeRef): Promise<void> {
    return this.#exclusive([volume], async () => {
      await this.#dir.trash.discard(volumePath(this.#dir.path, volume));
      if (volume.type === 'custom') await this.#dir.trash.discard(snapshotsPath(this.#dir.path, volume));
    });
  }

  exists(volume: VolumeRef): Promise<boolean> {
    return pathExists(volumePath(this.#dir.path, volume));
  }

  async mount(volume: VolumeRef): Promise<string> {
    const path = this.#content(volumePath(this.#dir.path, volume), volume);
    if (!(await pathExists(path))) throw errors.notFound('Storage volume not found');
    return path;
  }

  unmount(): Promise<void> {
    return Promise.resolve();
  }

  /** Bytes of a block volume's file, or of a folder where the file system counts them. */
  async usage(volume: VolumeRef): Promise<number | undefined> {
    if (volume.contentType === 'filesystem') return this.#dir.projects.used(volumePath(this.#dir.path, volume));
    const { blocks } = await stat(this.#content(volumePath(this.#dir.path, volume), volume));
    return blocks * 512;
  }

  /** @throws bad-request when the volume would lose its end. */
  async resize(volume: VolumeRef, size: number): Promise<void> {
    const path = this.#content(volumePath(this.#dir.path, volume), volume);
    if ((await stat(path)).size > size) throw errors.badRequest('Block volumes cannot be shrunk');
    await truncate(path, size);
  }

  createSnapshot(volume: VolumeRef, snapshot: string): Promise<void> {
    return this.#exclusive([volume], async () => {
      const target = snapshotPath(this.#dir.path, volume, snapshot);
      if (await pathExists(target)) throw errors.conflict(`Snapshot "${snapshot}" already exists`);
      await this.#copyFolder(volumePath(this.#dir.path, volume), target, { live: true });
    });
  }

  async listSnapshots(volume: VolumeRef): Promise<readonly string[]> {
    try {
      return await readdir(snapshotsPath(this.#dir.path, volume));
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return [];
      throw error;
    }
  }

  renameSnapshot(volume: VolumeRef, snapshot: string, newName: string): Promise<void> {
    return this.#exclusive([volume], async () => {
      const from = snapshotPath(this.#dir.path, volume, snapshot);
      const to = snapshotPath(this.#dir.path, volume, newName);
      if (!(await pathExists(from)) && (await pathExists(to))) return;
      await renameOrConflict(from, to, newName);
    });
  }

  deleteSnapshot(volume: VolumeRef, snapshot: string): Promise<void> {
    return this.#exclusive([volume], () => this.#dir.trash.discard(snapshotPath(this.#dir.path, volume, snapshot)));
  }

  restore(volume: VolumeRef, snapshot: string): Promise<void> {
    return this.#exclusive([volume], async () => {
      const { path, staging, newId, trash, projects } = this.#dir;
      const source = snapshotPath(path, volume, snapshot);
      if (!(await pathExists(source))) throw errors.notFound('Storage volume snapshot not found');
      const fresh = join(staging, newId());
      try {
        await mkdir(fresh, { mode: 0o700 });
        await projects.carry(volumePath(path, volume), [fresh]);
        await copyTree(source, fresh);
        await renameExchange(fresh, volumePath(path, volume));
      } finally {
        await trash.discard(fresh);
      }
    });
  }

  async mountSnapshot(volume: VolumeRef, snapshot: string): Promise<RootMount> {
    const path = this.#content(snapshotPath(this.#dir.path, volume, snapshot), volume);
    if (!(await pathExists(path))) throw errors.notFound('Storage volume snapshot not found');
    return { path, ids: 'plain' };
  }

  #content(folder: string, volume: VolumeRef): string {
    return volume.contentType === 'filesystem' || volume.type === 'image' ? folder : join(folder, contentFile(volume));
  }

  async #copyFolder(source: string, target: string, { signal, onProgress, live = false }: CopyOptions): Promise<void> {
    const onBytes = (bytes: number): void => onProgress?.({ stage: 'fs', bytes });
    await this.#fill(target, (folder) => copyTree(source, folder, { signal, live, onBytes }));
  }

  async #make(volume: VolumeRef, fill: (path: string) => Promise<void>): Promise<void> {
    if (await this.exists(volume)) throw errors.conflict(`Volume "${volume.name}" already exists`);
    await this.#fill(volumePath(this.#dir.path, volume), fill);
  }

  /** Fills a folder in `staging` and gives it its place with one rename. */
  async #fill(target: string, fill: (path: string) => Promise<void>): Promise<void> {
    const { staging, newId, trash } = this.#dir;
    const folder = join(staging, newId());
    try {
      await mkdir(folder, { mode: 0o700 });
      await chmod(folder, VOLUME_MODE);
      await this.#dir.projects.begin([folder]);
      await fill(folder);
      await mkdir(join(target, '..'), { recursive: true, mode: 0o700 });
      await renameOrConflict(folder, target, target.slice(target.lastIndexOf('/') + 1));
    } finally {
      await trash.discard(folder);
    }
  }

  #exclusive<T>(volumes: readonly VolumeRef[], work: () => Promise<T>): Promise<T> {
    return this.#dir.queue.run({ exclusive: volumes.map(volumeKey) }, work);
  }
}
