import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { errors, isKeelsonError } from '../../../core/errors.ts';
import { isMountPoint } from '../../../host/mounts.ts';
import { CommandError } from '../../../host/run.ts';
import { errnoOf } from '../../../host/syscalls.ts';
import type { AdoptOptions, FoundVolume, PoolRecovery, RootMount, SnapshotRef, VolumeRef } from '../contract.ts';
import { isFolder, readSmallFile, writeSmallFiles } from './small-files.ts';
import type { NotePlace } from './volume-notes.ts';
import { isSnapshot, snapshotPath, volumeOf, volumePath } from './volume-names.ts';

/** The part of a driver that makes single volumes reachable; the caller is alone on the volume. */
export interface VolumeMounter {
  mount(volume: VolumeRef): Promise<string>;
  unmount(volume: VolumeRef): Promise<void>;
  mountSnapshot(snapshot: SnapshotRef): Promise<RootMount>;
  unmountSnapshot(snapshot: SnapshotRef): Promise<void>;
}

export interface VolumeRecoveryOptions {
  /** Folder of the pool's mount points. */
  readonly path: string;
  readonly mounter: VolumeMounter;
  readonly notes: NotePlace;
  /** Calls `work` alone on the volume. */
  readonly alone: <T>(volume: VolumeRef, work: () => Promise<T>) => Promise<T>;
  readonly scan: () => Promise<readonly FoundVolume[]>;
  readonly adopt: (volume: VolumeRef, options: AdoptOptions) => Promise<void>;
}

/** Files that LXD keeps beside a root. */
const BESIDE = ['backup.yaml', 'metadata.yaml'];
const TEMPLATES = 'templates';
const MANY = 200;
/** Letters of a note that is still read. */
const LIMIT = 4 * 1024 ** 2;

/**
 * Recovery of pools whose volumes are mounted on demand. What describes a volume is kept in the pool's notes; that of an
 * instance also beside its `rootfs`, as LXD does, whenever its volume is mounted: so it is in its snapshots too, and no
 * volume is mounted only to be described. What LXD left is read in the volume. Of a custom volume nothing is ever read
 * or written, as its content belongs to guests.
 */
export class VolumeRecovery implements PoolRecovery {
  readonly #options: VolumeRecoveryOptions;
  /** Digests of notes that are there, by their keys. */
  readonly #written = new Map<string, string>();

  constructor(options: VolumeRecoveryOptions) {
    this.#options = options;
  }

  scan(): Promise<readonly FoundVolume[]> {
    return this.#options.scan();
  }

  async describe(volume: VolumeRef | undefined, files: ReadonlyMap<string, string>): Promise<void> {
    const { notes, alone, path } = this.#options;
    const [key, text] = [keyOf(volume), JSON.stringify(Object.fromEntries(files))];
    const digest = createHash('sha256').update(text).digest('base64');
    const known = this.#written.get(key);
    if (known !== digest) {
      if (known !== undefined || (await notes.get(key)) !== text) await notes.put(key, text);
      this.#written.set(key, digest);
    }
    if (volume?.type !== 'container') return;
    await alone(volume, async () => {
      const folder = volumePath(path, volume);
      if (isMountPoint(folder)) await writeSmallFiles(folder, files).catch(unlessFull);
    });
  }

  forget(volume: VolumeRef): Promise<void> {
    this.#written.delete(keyOf(volume));
    return this.#options.notes.drop(keyOf(volume));
  }

  /** Of roots what is in their volume: it may have come from another pool a moment ago. */
  async read(volume: VolumeRef | SnapshotRef | undefined, name: string): Promise<string | undefined> {
    if (volume === undefined || volume.type === 'custom') {
      if (volume !== undefined && isSnapshot(volume)) return undefined;
      return (await this.#note(volume))?.get(name);
    }
    return this.#within(volume, (folder) => readSmallFile(folder, name));
  }

  async files(volume: VolumeRef): Promise<ReadonlyMap<string, string>> {
    const noted = await this.#note(volume);
    if (noted !== undefined) return noted;
    return (await this.#within(volume, besideRoot)) ?? new Map<string, string>();
  }

  adopt(volume: VolumeRef, options: AdoptOptions): Promise<void> {
    return this.#options.adopt(volume, options);
  }

  /** The pool may come from another machine: a note is what anybody wrote. */
  async #note(volume: VolumeRef | undefined): Promise<ReadonlyMap<string, string> | undefined> {
    const text = await this.#options.notes.get(keyOf(volume));
    if (text === undefined || text.length > LIMIT) return undefined;
    try {
      const found: unknown = JSON.parse(text);
      if (typeof found !== 'object' || found === null || Array.isArray(found)) return undefined;
      return new Map(Object.entries(found).filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
    } catch {
      return undefined;
    }
  }

  /** Calls `use` with the folder around a container's root; undefined where there is none. @throws bad-request. */
  #within<T>(volume: VolumeRef | SnapshotRef, use: (folder: string) => Promise<T>): Promise<T | undefined> {
    if (volume.type !== 'container') return Promise.resolve(undefined);
    const { path, mounter, alone } = this.#options;
    const folder = isSnapshot(volume) ? snapshotPath(path, volume, volume.snapshot) : volumePath(path, volume);
    return alone(volumeOf(volume), async () => {
      if (isMountPoint(folder)) return use(folder);
      try {
        await (isSnapshot(volume) ? mounter.mountSnapshot(volume) : mounter.mount(volume));
        return await use(folder);
      } catch (error) {
        if (isKeelsonError(error, 'not-found')) return undefined;
        if (isKeelsonError(error)) throw error;
        throw errors.badRequest(`Its file system cannot be read: ${reasonOf(error)}`, error);
      } finally {
        await (isSnapshot(volume) ? mounter.unmountSnapshot(volume) : mounter.unmount(volume));
      }
    });
  }
}

function keyOf(volume: VolumeRef | undefined): string {
  return volume === undefined ? 'pool' : `${volume.type}_${volume.name}`;
}

/** What LXD keeps beside a root. */
export async function besideRoot(folder: string): Promise<ReadonlyMap<string, string>> {
  const templates = (await isFolder(join(folder, TEMPLATES))) ? await readdir(join(folder, TEMPLATES)) : [];
  const names = [...BESIDE, ...templates.slice(0, MANY).map((name) => `${TEMPLATES}/${name}`)];
  const found = new Map<string, string>();
  for (const name of names) {
    const text = await readSmallFile(folder, name);
    if (text !== undefined) found.set(name, text);
  }
  return found;
}

/** A guest may have filled its volume; the notes have it all. */
function unlessFull(error: unknown): void {
  if (!['ENOSPC', 'EDQUOT', 'EROFS'].includes(errnoOf(error) ?? '')) throw error;
}

function reasonOf(error: unknown): string {
  const text = error instanceof CommandError ? error.stderr : String(error);
  return text.trim().split('\n').at(-1) ?? '';
}
