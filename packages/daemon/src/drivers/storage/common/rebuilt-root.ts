import { lstat, mkdir, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { KeyedQueue } from '../../../core/keyed-queue.ts';
import { mirrorTree } from '../../../host/files.ts';
import { UserNamespaces } from '../../../host/idmap.ts';
import { cloneMount, unmountAll } from '../../../host/mounts.ts';
import { errnoOf } from '../../../host/syscalls.ts';
import type { AdoptOptions, IdRange, StoragePool, VolumeRef } from '../contract.ts';
import { rootIn } from './plain-content.ts';
import { writeSmallFiles } from './small-files.ts';
import type { NotePlace } from './volume-notes.ts';
import { besideRoot } from './volume-recovery.ts';

export interface RebuiltRootsOptions {
  readonly pool: Pick<StoragePool, 'volumes' | 'roots' | 'snapshots' | 'quota'>;
  readonly notes: NotePlace;
  /** Folder for mounts that last as long as the work. */
  readonly staging: string;
  readonly newId: () => string;
  /** The volume's snapshots, oldest first. */
  readonly snapshotsOf: (volume: VolumeRef) => Promise<readonly string[]>;
  /** Config of a volume that is as large, with the same file system. */
  readonly likeness: (volume: VolumeRef) => Promise<Readonly<Record<string, string>>>;
}

/** The new volume before it takes the place of the old; no instance has its name. */
const FRESH: VolumeRef = { type: 'container', name: 'keelson.adopting', contentType: 'filesystem' };
/** Note of the volume whose place it is to take. */
const UNDER_WAY = 'adopting';

/**
 * Gives the files of a root and its snapshots guest ids where another server left host ids. Snapshots cannot change, so
 * a new volume is made state by state; the old goes when the new one is complete.
 */
export class RebuiltRoots {
  readonly #options: RebuiltRootsOptions;
  readonly #queue = new KeyedQueue();

  constructor(options: RebuiltRootsOptions) {
    this.#options = options;
  }

  async adopt(volume: VolumeRef, options: AdoptOptions): Promise<void> {
    if (volume.type !== 'container') return;
    await this.#alone(async () => {
      await this.#finish();
      await this.#adopt(volume, options);
    });
  }

  /** Lets a complete new volume take its place, where a crash came between. */
  finish(): Promise<void> {
    return this.#alone(() => this.#finish());
  }

  async #adopt(volume: VolumeRef, { idRange, snapshots }: AdoptOptions): Promise<void> {
    const { pool, notes, snapshotsOf } = this.#options;
    const states: State[] = (await snapshotsOf(volume)).map((name) => ({ name, range: snapshots.get(name) }));
    states.push({ name: undefined, range: idRange });
    if (!(await this.#anyShifted(volume, states))) return;
    await this.#build(volume, states);
    await notes.put(UNDER_WAY, JSON.stringify({ name: volume.name }));
    await pool.volumes.delete(volume);
    await pool.volumes.rename(FRESH, volume.name);
    await notes.drop(UNDER_WAY);
  }

  async #finish(): Promise<void> {
    const { pool, notes } = this.#options;
    const text = await notes.get(UNDER_WAY);
    if (text === undefined) return;
    const name = nameIn(text);
    if (name !== undefined && (await pool.volumes.exists(FRESH))) {
      await pool.volumes.delete({ ...FRESH, name });
      await pool.volumes.rename(FRESH, name);
    }
    await notes.drop(UNDER_WAY);
  }

  async #anyShifted(volume: VolumeRef, states: readonly State[]): Promise<boolean> {
    for (const { name, range } of states) {
      if (range !== undefined && (await this.#with(volume, name, (root) => isShifted(root, range)))) return true;
    }
    return false;
  }

  async #build(volume: VolumeRef, states: readonly State[]): Promise<void> {
    const { pool, likeness } = this.#options;
    const config = await likeness(volume);
    await pool.volumes.delete(FRESH);
    await pool.roots.createFilled(FRESH, { ...PLAIN, config });
    if (config['size'] !== undefined) await pool.quota?.set(FRESH, Number(config['size']), { config });
    await using namespaces = new UserNamespaces();
    for (const { name, range } of states) {
      await this.#with(volume, name, async (source) => {
        const shifted = range !== undefined && (await isShifted(source, range));
        const { path } = await pool.roots.mount(FRESH, { ...PLAIN, config });
        try {
          if (shifted) await this.#unshift({ source, target: path, range, namespaces });
          else await mirrorTree(source, path);
          await writeSmallFiles(dirname(path), await besideRoot(dirname(source)));
        } finally {
          await pool.roots.unmount(FRESH);
        }
      });
      if (name !== undefined) await pool.snapshots.create(FRESH, name, { running: false });
    }
  }

  async #unshift(work: {
    readonly source: string;
    readonly target: string;
    readonly range: IdRange;
    readonly namespaces: UserNamespaces;
  }): Promise<void> {
    const { source, target, range, namespaces } = work;
    const view = join(this.#options.staging, this.#options.newId());
    await mkdir(view, { mode: 0o700 });
    try {
      const usernsFd = await namespaces.get({ from: range.base, to: 0, size: range.size });
      await cloneMount(source, view, { usernsFd, readOnly: true }).catch((error: unknown) => {
        if (errnoOf(error) !== 'EINVAL') throw error;
        throw errors.badRequest(
          'Its files carry ids of the host it comes from, and mounts here cannot map them',
          error,
        );
      });
      await mirrorTree(view, target);
    } finally {
      await unmountAll(view);
      await rmdir(view);
    }
  }

  /** There is one new volume at a time. */
  #alone(work: () => Promise<void>): Promise<void> {
    return this.#queue.run({ exclusive: [UNDER_WAY] }, work);
  }

  /** Calls `use` with the root folder of the volume or its snapshot. */
  async #with<T>(volume: VolumeRef, snapshot: string | undefined, use: (root: string) => Promise<T>): Promise<T> {
    const { roots, snapshots } = this.#options.pool;
    if (snapshot === undefined) {
      const { path } = await roots.mount(volume, PLAIN);
      try {
        return await use(path);
      } finally {
        await roots.unmount(volume);
      }
    }
    const { path } = await snapshots.mount(volume, snapshot, PLAIN);
    try {
      return await use(await rootIn(dirname(path)));
    } finally {
      await snapshots.unmount(volume, snapshot);
    }
  }
}

interface State {
  /** Snapshot, or undefined for the volume itself. */
  readonly name: string | undefined;
  readonly range: IdRange | undefined;
}

const PLAIN = { idRange: undefined, clone: 'copy', nesting: false } as const;

export function isRebuilt({ type, name }: VolumeRef): boolean {
  return type === FRESH.type && name === FRESH.name;
}

function nameIn(note: string): string | undefined {
  try {
    const { name } = JSON.parse(note) as { readonly name?: unknown };
    return typeof name === 'string' ? name : undefined;
  } catch {
    return undefined; // not written here
  }
}

async function isShifted(root: string, { base, size }: IdRange): Promise<boolean> {
  const { uid } = await lstat(root);
  return uid >= base && uid < base + size;
}
