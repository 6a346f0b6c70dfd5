import { chmod, mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { copyTree, pathExists } from '../../../host/files.ts';
import { renameExchange } from '../../../host/syscalls.ts';
import type { CopyOptions, RootMount, SnapshotRef, VolumeRef, Volumes } from '../contract.ts';
import { isSnapshot, snapshotPath, snapshotsPath, volumePath } from '../common/volume-names.ts';
import type { DirContext } from './context.ts';
import { renameOrConflict } from '../common/publish.ts';
import { fillEmpty, VolumeFolders } from '../common/volume-folders.ts';

/** Mode of a volume's own folder; the pool's folders above keep other users of the host out. */
const VOLUME_MODE = 0o711;

/** Image and custom volumes: plain folders with guest ids, or a folder with one file for block content. */
export class FolderVolumes implements Volumes {
  readonly #dir: DirContext;
  readonly #folders: VolumeFolders;

  constructor(dir: DirContext) {
    this.#dir = dir;
    this.#folders = new VolumeFolders(dir);
  }

  create(volume: VolumeRef, options: { readonly size?: number }): Promise<void> {
    return this.createFilled(volume, (folder) => fillEmpty(folder, volume, options.size));
  }

  createFilled(volume: VolumeRef, fill: (path: string) => Promise<void>): Promise<void> {
    return this.#folders.exclusive([volume], () => this.#make(volume, fill));
  }

  copy(source: VolumeRef | SnapshotRef, target: VolumeRef, options: CopyOptions = {}): Promise<void> {
    return this.#folders.exclusive([source, target], async () => {
      const { path, trash } = this.#dir;
      const from = isSnapshot(source) ? snapshotPath(path, source, source.snapshot) : volumePath(path, source);
      await this.#folders.assertAbsent(target);
      await trash.discard(snapshotsPath(path, target));
      for (const name of options.snapshots ?? []) {
        await this.#copyFolder(snapshotPath(path, source, name), snapshotPath(path, target, name), options);
      }
      // A guest may get the volume at any moment; only what is frozen may be copied by name.
      await this.#copyFolder(from, volumePath(path, target), { ...options, live: !isSnapshot(source) });
    });
  }

  rename(volume: VolumeRef, newName: string): Promise<void> {
    return this.#folders.rename(volume, newName);
  }

  delete(volume: VolumeRef): Promise<void> {
    return this.#folders.exclusive([volume], async () => {
      await this.#dir.trash.discard(volumePath(this.#dir.path, volume));
      if (volume.type === 'custom') await this.#dir.trash.discard(snapshotsPath(this.#dir.path, volume));
    });
  }

  exists(volume: VolumeRef): Promise<boolean> {
    return this.#folders.exists(volume);
  }

  mount(volume: VolumeRef): Promise<string> {
    return this.#folders.content(volume);
  }

  unmount(): Promise<void> {
    return Promise.resolve();
  }

  /** Bytes of a block volume's file, or of a folder where the file system counts them. */
  async usage(volume: VolumeRef): Promise<number | undefined> {
    if (volume.contentType === 'filesystem') return this.#dir.projects.used(volumePath(this.#dir.path, volume));
    const { blocks } = await stat(await this.#folders.content(volume));
    return blocks * 512;
  }

  /** @throws bad-request when the volume would lose its end. */
  resize(volume: VolumeRef, size: number): Promise<void> {
    return this.#folders.resizeBlock(volume, size);
  }

  createSnapshot(volume: VolumeRef, snapshot: string): Promise<void> {
    return this.#folders.exclusive([volume], async () => {
      const target = snapshotPath(this.#dir.path, volume, snapshot);
      if (await pathExists(target)) throw errors.conflict(`Snapshot "${snapshot}" already exists`);
      await this.#copyFolder(volumePath(this.#dir.path, volume), target, { live: true });
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
      this.#dir.trash.discard(snapshotPath(this.#dir.path, volume, snapshot)),
    );
  }

  restore(volume: VolumeRef, snapshot: string): Promise<void> {
    return this.#folders.exclusive([volume], async () => {
      const { path, staging, newId, trash, projects } = this.#dir;
      const source = snapshotPath(path, volume, snapshot);
      if (!(await pathExists(source))) throw errors.notFound('Storage volume snapshot not found');
      const fresh = join(staging, newId());
      try {
        await mkdir(fresh, { mode: 0o700 });
        // Not the volume's own project: both together may be more than its limit.
        await projects.begin([fresh]);
        await copyTree(source, fresh);
        await projects.succeed(volumePath(path, volume), fresh);
        await renameExchange(fresh, volumePath(path, volume));
      } finally {
        await trash.discard(fresh);
      }
    });
  }

  async mountSnapshot(volume: VolumeRef, snapshot: string): Promise<RootMount> {
    return { path: await this.#folders.snapshotContent(volume, snapshot), ids: 'plain' };
  }

  async #copyFolder(source: string, target: string, { signal, onProgress, live = false }: CopyOptions): Promise<void> {
    const onBytes = (bytes: number): void => onProgress?.({ stage: 'fs', bytes });
    await this.#fill(target, (folder) => copyTree(source, folder, { signal, live, onBytes }));
  }

  async #make(volume: VolumeRef, fill: (path: string) => Promise<void>): Promise<void> {
    await this.#folders.assertAbsent(volume);
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
}
