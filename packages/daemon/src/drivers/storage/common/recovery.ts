import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { removeTree } from '../../../host/files.ts';
import { errnoOf } from '../../../host/syscalls.ts';
import type { ContentType, VolumeType } from '../types.ts';
import type { AdoptOptions, FoundVolume, PoolRecovery, SnapshotRef, VolumeRef } from '../contract.ts';
import { isFolder, readSmallFile, writeSmallFiles } from './small-files.ts';
import { isRootVolume, isSnapshot, snapshotPath, volumeFolder, volumePath } from './volume-names.ts';

/** Folder of what is kept about the pool and its custom volumes, whose own content belongs to guests. */
export const OWN_NOTES = '.keelson';

export interface FolderRecoveryOptions {
  /** Where the pool's content is. */
  readonly path: string;
  readonly snapshotsOf: (volume: VolumeRef) => Promise<readonly string[]>;
  readonly adopt: (volume: VolumeRef, options: AdoptOptions) => Promise<void>;
}

/**
 * Recovery of pools that lie in folders as LXD lays them out: what describes an instance lies beside its `rootfs`,
 * what describes a custom volume in `.keelson/custom/<volume>/`.
 */
export class FolderRecovery implements PoolRecovery {
  readonly #options: FolderRecoveryOptions;

  constructor(options: FolderRecoveryOptions) {
    this.#options = options;
  }

  async scan(): Promise<readonly FoundVolume[]> {
    const found: FoundVolume[] = [];
    for (const type of ['container', 'virtual-machine', 'custom', 'image'] as const) {
      for (const name of await foldersIn(volumeFolder(this.#options.path, type))) {
        const volume = { type, name, contentType: await this.#contentType(type, name) };
        found.push({ volume, snapshots: type === 'image' ? [] : await this.#options.snapshotsOf(volume) });
      }
    }
    return found;
  }

  async describe(volume: VolumeRef | undefined, files: ReadonlyMap<string, string>): Promise<void> {
    const folder = this.#folder(volume);
    if (volume !== undefined && !(await isFolder(volumePath(this.#options.path, volume)))) return;
    if (volume === undefined || !isRootVolume(volume)) await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeSmallFiles(folder, files);
  }

  async forget(volume: VolumeRef): Promise<void> {
    if (!isRootVolume(volume)) await removeTree(this.#folder(volume));
  }

  read(volume: VolumeRef | SnapshotRef | undefined, name: string): Promise<string | undefined> {
    return readSmallFile(this.#folder(volume), name);
  }

  adopt(volume: VolumeRef, options: AdoptOptions): Promise<void> {
    return this.#options.adopt(volume, options);
  }

  #folder(volume: VolumeRef | SnapshotRef | undefined): string {
    const { path } = this.#options;
    if (volume === undefined) return join(path, OWN_NOTES);
    if (isSnapshot(volume)) return snapshotPath(path, volume, volume.snapshot);
    return isRootVolume(volume) ? volumePath(path, volume) : volumePath(join(path, OWN_NOTES), volume);
  }

  /** What the volume holds, by its folder: a block volume's has its file alone. */
  async #contentType(type: VolumeType, name: string): Promise<ContentType> {
    if (type === 'virtual-machine') return 'block';
    if (type !== 'custom') return 'filesystem';
    const content = await readdir(join(volumeFolder(this.#options.path, type), name));
    if (content.length !== 1) return 'filesystem';
    return content[0] === 'root.img' ? 'block' : content[0] === 'root.iso' ? 'iso' : 'filesystem';
  }
}

/** True when a folder looks like one that holds a pool, ours or LXD's. */
export async function looksLikePool(path: string): Promise<boolean> {
  for (const type of ['container', 'custom'] as const) if (await isFolder(volumeFolder(path, type))) return true;
  return false;
}

async function foldersIn(path: string): Promise<string[]> {
  const entries = await readdir(path, { withFileTypes: true }).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}
