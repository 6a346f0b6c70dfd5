import { constants } from 'node:fs';
import { lstat, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { removeTree } from '../../../host/files.ts';
import { errnoOf } from '../../../host/syscalls.ts';
import type { ContentType, VolumeType } from '../types.ts';
import type { AdoptOptions, FoundVolume, PoolRecovery, SnapshotRef, VolumeRef } from '../contract.ts';
import { isRootVolume, isSnapshot, snapshotPath, volumeFolder, volumePath } from './volume-names.ts';

/** Folder of what is kept about the pool and its custom volumes, whose own content belongs to guests. */
export const OWN_NOTES = '.keelson';

/** Bytes of a file that `read` still takes. */
const LIMIT = 4 * 1024 ** 2;

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
    for (const [name, content] of files) {
      if ((await readSmallFile(join(folder, plainName(name)))) === content) continue;
      await writeSmallFile(folder, name, content).catch((error: unknown) => {
        if (errnoOf(error) !== 'ENOENT') throw error; // the volume was renamed or deleted meanwhile
      });
    }
  }

  async forget(volume: VolumeRef): Promise<void> {
    if (!isRootVolume(volume)) await removeTree(this.#folder(volume));
  }

  async read(volume: VolumeRef | SnapshotRef | undefined, name: string): Promise<string | undefined> {
    const folder = this.#folder(volume);
    const parts = plainName(name).split('/');
    // None of the folders on the way may be a link: a pool can come from another machine.
    for (let length = 0; length < parts.length; length++) {
      if (!(await isFolder(join(folder, ...parts.slice(0, length))))) return undefined;
    }
    return readSmallFile(join(folder, ...parts));
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

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await lstat(path)).isDirectory();
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return false;
    throw error;
  }
}

/** @throws bad-request for what is not one or two plain path components. */
function plainName(name: string): string {
  const parts = name.split('/');
  if (parts.length > 2 || parts.some((part) => part === '' || part === '.' || part === '..' || part.includes('\0')))
    throw errors.badRequest(`Invalid file name "${name}"`);
  return name;
}

/** Replaces the file in one step; what stands in its place or in that of its new version is never followed. */
async function writeSmallFile(folder: string, name: string, content: string): Promise<void> {
  const path = join(folder, name);
  const fresh = join(dirname(path), `.${name.slice(name.lastIndexOf('/') + 1)}.new`);
  if (dirname(path) !== folder && !(await isFolder(dirname(path)))) {
    await rm(dirname(path), { force: true }); // a link, which came with the volume
    await mkdir(dirname(path), { mode: 0o700 });
  }
  await rm(fresh, { force: true });
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const handle = await open(fresh, flags, 0o400);
  try {
    await handle.writeFile(content);
    await handle.datasync();
  } finally {
    await handle.close();
  }
  await rename(fresh, path);
}

async function readSmallFile(path: string): Promise<string | undefined> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const handle = await open(path, flags).catch((error: unknown) => {
    if (['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO', 'EISDIR'].includes(errnoOf(error) ?? '')) return undefined;
    throw error;
  });
  if (handle === undefined) return undefined;
  try {
    const found = await handle.stat();
    if (!found.isFile() || found.size > LIMIT) return undefined;
    return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
}
