import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isKeelsonError } from '../../../core/errors.ts';
import { KeyedQueue } from '../../../core/keyed-queue.ts';
import type { Log } from '../../../core/log.ts';
import { retry } from '../../../core/retry.ts';
import { writeFileAtomic } from '../../../host/files.ts';
import type { RbdImage } from '../../../host/tools/rbd.ts';
import type { RbdImages } from './images.ts';
import { isNote, isZombie, scratchName, zombieImage, zombieSnapshot } from './names.ts';

export interface LivesOptions {
  readonly images: RbdImages;
  /** Where notes lie. */
  readonly staging: string;
  readonly mark: () => string;
  readonly newId: () => string;
  readonly log: Log;
}

/** An image to look at once more, because what stood on it goes or went. */
interface Debt {
  readonly note: string;
  /** RBD's id of the image. */
  readonly image: string;
  /** Id of the clone that was about to go; while that is there the debt stays. */
  readonly clone?: string | undefined;
}

const PREFIX = 'stood-';
/** Half a minute, and then some. */
const FORGOTTEN = { attempts: 8, delay: 5000, maxDelay: 15_000 };

/**
 * How the RBD images of one pool come and go. Clones stand on protected snapshots: what is deleted while something stands
 * on it becomes a zombie, which goes with the last clone. A note is written before a clone goes, so that a zombie that
 * it leaves alone goes also after a crash.
 */
export class RbdLives {
  readonly #images: RbdImages;
  readonly #staging: string;
  readonly #mark: () => string;
  readonly #newId: () => string;
  readonly #log: Log;
  /** By id. */
  readonly #lanes = new KeyedQueue();
  /** Ids of images that became zombies, or that have zombie snapshots, since the daemon started. */
  readonly #buried = new Set<string>();
  /** Zombie snapshots that are read from: on their way to become what a clone stands on, or to go. */
  readonly #held = new Set<string>();

  constructor({ images, staging, mark, newId, log }: LivesOptions) {
    this.#images = images;
    this.#staging = staging;
    this.#mark = mark;
    this.#newId = newId;
    this.#log = log;
  }

  /** Calls `make` with a scratch name, then gives what it made the name `target`; removes it when that fails. */
  async publish(target: string, make: (scratch: string) => Promise<void>): Promise<void> {
    const scratch = scratchName(this.#mark(), this.#newId());
    try {
      await make(scratch);
      await this.#images.rename(scratch, target);
    } catch (error) {
      await this.discard(scratch);
      throw error;
    }
  }

  /** Not while something looks at it because of a clone that went. */
  rename({ id, name }: RbdImage, newName: string): Promise<void> {
    return this.#lanes.run({ exclusive: [id] }, () => this.#images.rename(name, newName));
  }

  /** With its snapshots; absent = no effect. What clones stand on stays as a zombie. @throws conflict while it is in use. */
  async remove(image: string): Promise<void> {
    const found = await this.#images.find(image);
    if (found === undefined) return this.#images.erase(image);
    const debt = await this.#lanes.run({ exclusive: [found.id] }, () => this.#remove(found));
    if (debt !== undefined) await this.#settle(debt);
  }

  /**
   * Removes what was half made, now or later: the cluster believes for half a minute that a command which was ended uses
   * the image still, or does not answer at all. Never rejects; the next daemon removes what stays.
   */
  async discard(image: string): Promise<void> {
    await this.remove(image).catch(() =>
      this.later(() => this.remove(image), 'A half-made RBD image cannot be removed', image),
    );
  }

  /** Absent = no effect. One that clones stand on becomes a zombie. */
  async removeSnapshot(image: string, snapshot: string): Promise<void> {
    if (await this.#images.eraseSnapshot(image, snapshot)) return;
    const found = await this.#images.find(image);
    if (found === undefined) return;
    const debt = await this.#note(`${found.id}.self`, { image: found.id });
    this.#buried.add(found.id);
    await this.#images.renameSnapshot(image, snapshot, zombieSnapshot(this.#newId()));
    await this.#settle(debt);
  }

  /** A zombie snapshot of this name stays until `thaw`. */
  hold(snapshot: string): void {
    this.#held.add(snapshot);
  }

  /** Removes a frozen state that no clone stands on. */
  async thaw(image: string, snapshot: string): Promise<void> {
    this.#held.delete(snapshot);
    await this.#images.eraseSnapshot(image, snapshot);
  }

  /** What a note of a daemon that was killed says; undefined for other files. */
  async read(name: string): Promise<Debt | undefined> {
    if (!isNote(name, PREFIX)) return undefined;
    const note = join(this.#staging, name);
    const { image, clone }: Omit<Debt, 'note'> = JSON.parse(await readFile(note, 'utf8'));
    return { note, image, clone };
  }

  async resume(debt: Debt): Promise<void> {
    if (debt.clone !== undefined && (await this.#images.findById(debt.clone)) !== undefined) return;
    await this.#settle(debt);
  }

  /** Removes the image, or gives it another name while clones stand on it. Returns what is to be looked at then. */
  async #remove({ id, name, parent }: RbdImage): Promise<Debt | undefined> {
    if (!(await this.#images.eraseSnapshots(name))) return isZombie(name) ? undefined : this.#bury(name, id);
    const debt = parent === undefined ? undefined : await this.#note(id, { image: parent.id, clone: id });
    await this.#images.erase(name);
    if (parent === undefined || debt === undefined) return undefined;
    if (isZombie(parent.image) || isZombie(parent.snapshot) || this.#buried.has(parent.id)) return debt;
    await rm(debt.note, { force: true });
    return undefined;
  }

  /** The last clone may go between the look and the new name: it is to be looked at again. */
  async #bury(image: string, id: string): Promise<Debt> {
    const debt = await this.#note(`${id}.self`, { image: id });
    this.#buried.add(id);
    try {
      await this.#images.rename(image, zombieImage(image));
    } catch (error) {
      if (!isKeelsonError(error, 'conflict')) throw error;
      await this.#images.rename(image, zombieImage(`${image}_${this.#newId()}`));
    }
    return debt;
  }

  /** Looks at the image; what fails now is tried again, here and by the next daemon. */
  async #settle(debt: Debt): Promise<void> {
    try {
      await this.#lookAt(debt);
    } catch (error) {
      this.#log.debug('What a removed RBD image stood on is still there', { image: debt.image, reason: String(error) });
      this.later(() => this.#lookAt(debt), 'What a removed RBD image stood on cannot be removed', debt.image);
    }
  }

  /** Removes a zombie that nothing stands on any more, and zombie snapshots of an image that is in use. */
  async #lookAt({ note, image }: Debt): Promise<void> {
    const next = await this.#lanes.run({ exclusive: [image] }, async () => {
      const found = await this.#images.findById(image);
      if (found === undefined) return undefined;
      if (isZombie(found.name)) return this.#remove(found);
      for (const { name } of await this.#images.snapshots(found.name))
        if (isZombie(name) && !this.#held.has(name)) await this.#images.eraseSnapshot(found.name, name);
      return undefined;
    });
    await rm(note, { force: true });
    if (next !== undefined) await this.#settle(next);
  }

  async #note(name: string, debt: Omit<Debt, 'note'>): Promise<Debt> {
    const note = join(this.#staging, `${PREFIX}${name}`);
    await writeFileAtomic(note, JSON.stringify(debt));
    return { note, ...debt };
  }

  /** Tries for a minute or two what fails now; nobody waits for it. `message`: what to log when it does not help. */
  later(work: () => Promise<void>, message: string, image: string): void {
    void retry(work, FORGOTTEN).catch((error: unknown) => this.#log.warn(message, { image, reason: String(error) }));
  }
}
