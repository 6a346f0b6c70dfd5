import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writeFileAtomic } from '../../../host/files.ts';
import type { CephContext } from './context.ts';
import { isNote } from './names.ts';

/** A snapshot that something made for itself. */
export interface Frozen {
  readonly image: string;
  readonly snapshot: string;
}

const PREFIX = 'frozen-';

/** Snapshots for as long as something reads from them; notes of them outlive a crash. */
export class FrozenStates {
  readonly #pool: CephContext;

  constructor(pool: CephContext) {
    this.#pool = pool;
  }

  /** A snapshot of the present state under that name. Disposing removes it, unless a clone stands on it. */
  async take(image: string, snapshot: string): Promise<AsyncDisposable> {
    const { images, lives, staging, newId } = this.#pool;
    const note = join(staging, `${PREFIX}${newId()}`);
    const entry: Frozen = { image, snapshot };
    await writeFileAtomic(note, JSON.stringify(entry));
    lives.hold(snapshot);
    try {
      await images.snapshot(image, snapshot);
    } catch (error) {
      // A cluster that did not answer may make it yet.
      lives.later(() => this.thaw(entry, note), 'A snapshot that was given up cannot be removed', image);
      throw error;
    }
    return { [Symbol.asyncDispose]: () => this.thaw(entry, note) };
  }

  /** What a note of a daemon that was killed says; undefined for other files. */
  async read(note: string): Promise<Frozen | undefined> {
    return isNote(note, PREFIX) ? JSON.parse(await readFile(join(this.#pool.staging, note), 'utf8')) : undefined;
  }

  async thaw({ image, snapshot }: Frozen, note: string): Promise<void> {
    await this.#pool.lives.thaw(image, snapshot);
    await rm(note, { force: true });
  }
}
