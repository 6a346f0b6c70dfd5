import { open, readdir, rename, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import type { KeyedQueue } from '../../../core/keyed-queue.ts';
import { pathExists } from '../../../host/files.ts';
import { errnoOf } from '../../../host/syscalls.ts';
import type { VolumeRef } from '../contract.ts';
import { blocksIn } from './plain-content.ts';
import { renameOrConflict } from './publish.ts';
import { contentFile, snapshotPath, snapshotsPath, volumeKey, volumePath } from './volume-names.ts';

/**
 * What drivers share that keep each volume in a folder of its own, laid out as LXD does: `<type>/<name>` and
 * `<type>-snapshots/<name>/<snapshot>`, block content in one file inside.
 */
export class VolumeFolders {
  readonly #path: string;
  readonly #queue: KeyedQueue;

  /** `path`: the pool's content; `queue`: one lane per volume. */
  constructor({ path, queue }: { readonly path: string; readonly queue: KeyedQueue }) {
    this.#path = path;
    this.#queue = queue;
  }

  /** Runs `work` while nothing else changes the volumes, nor those in `shared`, which it only reads. */
  exclusive<T>(volumes: readonly VolumeRef[], work: () => Promise<T>, shared: readonly VolumeRef[] = []): Promise<T> {
    return this.#queue.run({ exclusive: volumes.map(volumeKey), shared: shared.map(volumeKey) }, work);
  }

  exists(volume: VolumeRef): Promise<boolean> {
    return pathExists(volumePath(this.#path, volume));
  }

  /** @throws conflict. */
  async assertAbsent(volume: VolumeRef): Promise<void> {
    if (await this.exists(volume)) throw errors.conflict(`Volume "${volume.name}" already exists`);
  }

  /** The folder of files, or the file of blocks. @throws not-found. */
  async content(volume: VolumeRef): Promise<string> {
    const path = await contentIn(volumePath(this.#path, volume), volume);
    if (path === undefined) throw errors.notFound('Storage volume not found');
    return path;
  }

  /** @throws not-found. */
  async snapshotContent(volume: VolumeRef, snapshot: string): Promise<string> {
    const path = await contentIn(snapshotPath(this.#path, volume, snapshot), volume);
    if (path === undefined) throw errors.notFound('Storage volume snapshot not found');
    return path;
  }

  /** The snapshots first: a volume has them under the name it has. Safe to repeat. */
  rename(volume: VolumeRef, newName: string): Promise<void> {
    const target = { ...volume, name: newName };
    return this.exclusive([volume, target], async () => {
      const [from, to] = [volumePath(this.#path, volume), volumePath(this.#path, target)];
      if (!(await pathExists(from)) && (await pathExists(to))) return;
      await this.assertAbsent(target);
      if (await pathExists(snapshotsPath(this.#path, volume)))
        await rename(snapshotsPath(this.#path, volume), snapshotsPath(this.#path, target));
      await renameOrConflict(from, to, newName);
    });
  }

  /** @throws bad-request when a block volume would lose its end. */
  async resizeBlock(volume: VolumeRef, size: number): Promise<void> {
    const path = await this.content(volume);
    if ((await stat(path)).size > size) throw errors.badRequest('Block volumes cannot be shrunk');
    await truncate(path, size);
  }

  async snapshots(volume: VolumeRef): Promise<readonly string[]> {
    try {
      return (await readdir(snapshotsPath(this.#path, volume))).sort();
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return [];
      throw error;
    }
  }

  /** Safe to repeat. */
  renameSnapshot(volume: VolumeRef, snapshot: string, newName: string): Promise<void> {
    return this.exclusive([volume], async () => {
      const from = snapshotPath(this.#path, volume, snapshot);
      const to = snapshotPath(this.#path, volume, newName);
      if (!(await pathExists(from)) && (await pathExists(to))) return;
      await renameOrConflict(from, to, newName);
    });
  }
}

/** What an empty volume holds: nothing, or its blocks, all zero and taking no space. */
export async function fillEmpty(folder: string, volume: VolumeRef, size: number | undefined): Promise<void> {
  if (volume.contentType === 'filesystem') return;
  await using file = await open(join(folder, contentFile(volume)), 'wx', 0o600);
  await file.truncate(size ?? 0);
}

async function contentIn(folder: string, volume: VolumeRef): Promise<string | undefined> {
  if (volume.type === 'custom' && volume.contentType !== 'filesystem') return blocksIn(folder, contentFile(volume));
  return (await pathExists(folder)) ? folder : undefined;
}
