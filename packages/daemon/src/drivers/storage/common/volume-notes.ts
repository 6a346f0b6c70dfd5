import { removeTree } from '../../../host/files.ts';
import { isKeelsonError } from '../../../core/errors.ts';
import { KeyedQueue } from '../../../core/keyed-queue.ts';
import { isMountPoint } from '../../../host/mounts.ts';
import { CommandError } from '../../../host/run.ts';
import { join } from 'node:path';
import type { VolumeRef, Volumes } from '../contract.ts';
import { readSmallFile, writeSmallFiles } from './small-files.ts';
import { volumePath } from './volume-names.ts';

/** Where a pool whose volumes are not mounted all the time keeps texts about them. */
export interface NotePlace {
  /** Undefined when there is none. */
  get(key: string): Promise<string | undefined>;
  /** Replaced in one step. */
  put(key: string, text: string): Promise<void>;
  /** Absent = no effect. */
  drop(key: string): Promise<void>;
}

/** Volume of the notes: no user's has its name, as theirs begin with a project's. */
export const NOTES_VOLUME: VolumeRef = { type: 'custom', name: 'keelson-notes', contentType: 'filesystem' };
/** Its name on the pool, where those of users begin with the type of volume. */
export const NOTES_NAME = 'keelson_notes';

export function isNotesVolume({ type, name }: VolumeRef): boolean {
  return type === NOTES_VOLUME.type && name === NOTES_VOLUME.name;
}

/** Nobody but the server has anything to do there. */
const MOUNT_OPTIONS = 'nosuid,nodev,noexec';

export interface VolumeNotesOptions {
  /** Folder of the pool's mount points. */
  readonly path: string;
  readonly volumes: Pick<Volumes, 'create' | 'exists' | 'mount' | 'unmount'>;
  /** What the volume of the notes is made with. */
  readonly config: () => Readonly<Record<string, string>>;
  /** Whether it stays mounted until the pool is closed, or as long as it is used. */
  readonly stays: boolean;
}

/** Notes as files of one small volume, which is made with the first. */
export class VolumeNotes implements NotePlace {
  readonly #options: VolumeNotesOptions;
  readonly #queue = new KeyedQueue();
  #open = false;
  #absent = false;

  constructor(options: VolumeNotesOptions) {
    this.#options = options;
  }

  /** The pool was mounted. */
  open(): void {
    this.#open = true;
    this.#absent = false;
  }

  /** The pool is to be unmounted: nothing is written or read from now on. */
  close(): Promise<void> {
    return this.#alone(() => {
      this.#open = false;
      return this.#unmount();
    });
  }

  /** Unmounts what an earlier daemon left. */
  settle(): Promise<void> {
    return this.#alone(() => this.#unmount());
  }

  get(key: string): Promise<string | undefined> {
    return this.#use(async () => {
      const folder = await this.#folder().catch((error: unknown) => {
        if (error instanceof CommandError || isKeelsonError(error, 'internal')) return undefined; // no file system
        throw error;
      });
      return folder === undefined ? undefined : readSmallFile(folder, fileOf(key));
    });
  }

  put(key: string, text: string): Promise<void> {
    return this.#use(async () => {
      const { volumes, config } = this.#options;
      let folder = await this.#folder();
      if (folder === undefined && this.#open) {
        await volumes.create(NOTES_VOLUME, { config: config() });
        this.#absent = false;
        folder = await this.#folder();
      }
      if (folder !== undefined) await writeSmallFiles(folder, new Map([[fileOf(key), text]]));
    });
  }

  drop(key: string): Promise<void> {
    return this.#use(async () => {
      const folder = await this.#folder();
      if (folder !== undefined) await removeTree(join(folder, fileOf(key)));
    });
  }

  async #folder(): Promise<string | undefined> {
    const { path, volumes, config } = this.#options;
    if (!this.#open || this.#absent) return undefined;
    const folder = volumePath(path, NOTES_VOLUME);
    if (isMountPoint(folder)) return folder;
    this.#absent = !(await volumes.exists(NOTES_VOLUME));
    if (this.#absent) return undefined;
    return volumes.mount(NOTES_VOLUME, { config: { ...config(), 'block.mount_options': MOUNT_OPTIONS } });
  }

  async #unmount(): Promise<void> {
    const { path, volumes } = this.#options;
    if (isMountPoint(volumePath(path, NOTES_VOLUME))) await volumes.unmount(NOTES_VOLUME);
  }

  #use<T>(work: () => Promise<T>): Promise<T> {
    return this.#alone(async () => {
      try {
        return await work();
      } finally {
        if (!this.#options.stays) await this.#unmount();
      }
    });
  }

  #alone<T>(work: () => Promise<T>): Promise<T> {
    return this.#queue.run({ exclusive: ['notes'] }, work);
  }
}

function fileOf(key: string): string {
  return `${key}.json`;
}
