import { mkdir, readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import type { Log } from '../../../core/log.ts';
import { errnoOf } from '../../../host/syscalls.ts';

/** Milliseconds. */
const SETTLED_AFTER = 500;
/** While more is deleted all the time. */
const SETTLED_AT_LATEST = 5_000;

/**
 * Deletes in two steps: a rename frees the name at once, the content goes in the background, one tree at a time.
 * What a crash leaves in the folder is deleted after the next `resume`.
 */
export class Trash {
  readonly #folder: string;
  readonly #purge: (path: string) => Promise<void>;
  readonly #newId: () => string;
  readonly #log: Log;
  readonly #afterwards: (() => Promise<void>) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #latest: NodeJS.Timeout | undefined;
  #tail: Promise<void> = Promise.resolve();
  /** What waits for its turn, or has it. */
  readonly #waiting = new Set<string>();
  #closed = false;

  /** `afterwards` is called when nothing was deleted for a moment, or some seconds after the first that was deleted since. */
  constructor(options: {
    folder: string;
    newId: () => string;
    log: Log;
    purge: (path: string) => Promise<void>;
    afterwards?: () => Promise<void>;
  }) {
    this.#folder = options.folder;
    this.#purge = options.purge;
    this.#afterwards = options.afterwards;
    this.#newId = options.newId;
    this.#log = options.log;
  }

  /** Frees `path`; absent = no effect. Same file system only. */
  async discard(path: string): Promise<void> {
    const target = join(this.#folder, this.#newId());
    try {
      await rename(path, target);
    } catch (error) {
      if (errnoOf(error) === 'ENOENT' && (await mkdirMissing(this.#folder)) === false) return;
      if (errnoOf(error) !== 'ENOENT') throw error;
      return this.discard(path);
    }
    this.#enqueue(target);
  }

  /** Deletes what an earlier run left. */
  async resume(): Promise<void> {
    this.#closed = false;
    for (const name of await readdir(this.#folder)) this.#enqueue(join(this.#folder, name));
  }

  /** Resolves when nothing is left to delete. */
  settled(): Promise<void> {
    return this.#tail;
  }

  /** Stops after the tree that is being deleted; the rest waits for `resume`. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#clearTimers();
    await this.#tail;
  }

  #enqueue(path: string): void {
    if (this.#waiting.has(path)) return;
    this.#waiting.add(path);
    this.#tail = this.#tail.then(async () => {
      try {
        if (this.#closed) return;
        await this.#purge(path);
        this.#settle();
      } catch (error) {
        this.#log.warn('cannot delete the remains of a volume', { path, error: String(error) });
      } finally {
        this.#waiting.delete(path);
      }
    });
  }

  #settle(): void {
    const work = this.#afterwards;
    if (work === undefined || this.#closed) return;
    const settled = (): void => {
      this.#clearTimers();
      this.#tail = this.#tail
        .then(() => (this.#closed ? undefined : work()))
        .catch((error: unknown) =>
          this.#log.warn('the space of deleted volumes comes later', { error: String(error) }),
        );
    };
    clearTimeout(this.#timer);
    this.#timer = setTimeout(settled, SETTLED_AFTER);
    this.#timer.unref();
    this.#latest ??= setTimeout(settled, SETTLED_AT_LATEST).unref();
  }

  #clearTimers(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#latest);
    this.#latest = undefined;
  }
}

/** True when the folder had to be made. */
async function mkdirMissing(path: string): Promise<boolean> {
  return (await mkdir(path, { recursive: true, mode: 0o700 })) !== undefined;
}
