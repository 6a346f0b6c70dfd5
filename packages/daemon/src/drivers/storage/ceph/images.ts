import { errors, isKeelsonError } from '../../../core/errors.ts';
import type { Log } from '../../../core/log.ts';
import { retry } from '../../../core/retry.ts';
import {
  childrenOf,
  findImage,
  isBusy,
  isMissing,
  isTaken,
  listImages,
  listSnapshots,
  rbd,
  type RbdImage,
  type RbdPlace,
  type RbdSnapshot,
} from '../../../host/tools/rbd.ts';
import { exportDiff, importDiff, type RbdState } from '../../../host/tools/rbd-diff.ts';
import { isZombie, SCRATCH, zombieImage, zombieSnapshot } from './names.ts';

/**
 * The RBD images of one pool. Clones stand on protected snapshots: what is deleted while something stands on it becomes
 * a zombie, which goes with the last clone.
 */
export class RbdImages {
  readonly #place: RbdPlace;
  readonly #newId: () => string;
  readonly #log: Log;

  constructor(place: RbdPlace, newId: () => string, log: Log) {
    this.#place = place;
    this.#newId = newId;
    this.#log = log;
  }

  list(): Promise<string[]> {
    return listImages(this.#place);
  }

  find(image: string): Promise<RbdImage | undefined> {
    return findImage(this.#place, image);
  }

  /** Oldest first; none of an image that is not there. */
  async snapshots(image: string): Promise<readonly RbdSnapshot[]> {
    return (await listSnapshots(this.#place, image)) ?? [];
  }

  /** `options`: of `imageArguments`. */
  async create(image: string, size: number, options: readonly string[]): Promise<void> {
    await this.#run(['create', '--size', `${size}B`, ...options, '--image', image]);
  }

  async rename(image: string, newName: string): Promise<void> {
    await this.#run(['rename', image, newName]);
  }

  async resize(image: string, size: number): Promise<void> {
    await this.#run(['resize', '--no-progress', '--allow-shrink', '--size', `${size}B`, '--image', image], true);
  }

  /** @throws conflict. */
  async snapshot(image: string, snapshot: string): Promise<void> {
    try {
      await this.#run(['snap', 'create', '--no-progress', '--image', image, '--snap', snapshot]);
    } catch (error) {
      if (isTaken(error)) throw errors.conflict(`Snapshot "${snapshot}" already exists`, error);
      throw error;
    }
  }

  async renameSnapshot(image: string, snapshot: string, newName: string): Promise<void> {
    await this.#run(['snap', 'rename', `${image}@${snapshot}`, `${image}@${newName}`]);
  }

  async protect(image: string, snapshot: string): Promise<void> {
    const known = (await this.snapshots(image)).find(({ name }) => name === snapshot);
    if (known?.protected === true) return;
    await this.#run(['snap', 'protect', '--image', image, '--snap', snapshot], false, [0, EBUSY]);
  }

  /** A clone of a snapshot, which is protected from now on. */
  async clone(from: { readonly image: string; readonly snapshot: string }, image: string, options: readonly string[]) {
    await this.protect(from.image, from.snapshot);
    await this.#run(['clone', ...options, ...this.#pair(from, image)]);
  }

  /** Blocks of a snapshot, or of it and every one before it with the snapshots themselves, into an image of its own. */
  async copy(
    from: { readonly image: string; readonly snapshot: string },
    image: string,
    options: {
      readonly deep: boolean;
      readonly arguments: readonly string[];
      readonly signal?: AbortSignal | undefined;
    },
  ): Promise<void> {
    const command = options.deep ? ['deep', 'cp'] : ['cp'];
    const args = [...command, '--no-progress', ...options.arguments, ...this.#pair(from, image)];
    await rbd(this.#place, args, { long: true, signal: options.signal });
  }

  /**
   * Gives the image what a state of another has, changed since a snapshot that both have and that this one holds. Not
   * atomic, as a rollback is not.
   */
  async apply(state: RbdState, from: string, image: string): Promise<void> {
    const { output, ended } = exportDiff(this.#place, state, { from });
    try {
      await importDiff(this.#place, image, output);
    } finally {
      output.destroy();
      await ended;
    }
  }

  /** Not atomic: a journal of the caller's must see to its end. */
  async rollback(image: string, snapshot: string): Promise<void> {
    await this.#run(['snap', 'rollback', '--no-progress', '--image', image, '--snap', snapshot], true);
  }

  /** With its snapshots; absent = no effect. What clones stand on stays as a zombie. @throws conflict while it is in use. */
  async remove(image: string): Promise<void> {
    const found = await this.find(image);
    if (found === undefined) return;
    if (!(await this.#dropSnapshots(image))) {
      if (!isZombie(image)) await this.#bury(image);
      return;
    }
    try {
      await this.#run(['rm', '--no-progress', '--image', image], true);
    } catch (error) {
      if (isBusy(error)) throw errors.conflict(`RBD image "${image}" is in use, perhaps by another host`, error);
      throw error;
    }
    if (found.parent !== undefined) await this.#release(found.parent);
  }

  /**
   * Removes what was half made; at the latest when the cluster has forgotten a command that was ended, which it believes
   * for half a minute to use the image still.
   */
  async discard(image: string): Promise<void> {
    try {
      await this.remove(image);
    } catch (error) {
      if (!isKeelsonError(error, 'conflict')) throw error;
      void retry(() => this.remove(image), FORGOTTEN).catch((reason: unknown) =>
        this.#log.warn('A half-made RBD image is still in use', { image, reason: String(reason) }),
      );
    }
  }

  /** Absent = no effect. One that clones stand on becomes a zombie. */
  async removeSnapshot(image: string, snapshot: string): Promise<void> {
    if (await this.#dropSnapshot(image, snapshot)) return;
    await this.renameSnapshot(image, snapshot, zombieSnapshot(this.#newId()));
  }

  /** Calls `make` with a scratch name, then gives what it made the name `target`; removes it when that fails. */
  async publish(target: string, make: (scratch: string) => Promise<void>): Promise<void> {
    const scratch = `${SCRATCH}${this.#newId()}`;
    try {
      await make(scratch);
      await this.rename(scratch, target);
    } catch (error) {
      await this.discard(scratch);
      if (isTaken(error)) throw errors.conflict(`Image "${target}" already exists`, error);
      throw error;
    }
  }

  /** Removes a frozen state that no clone stands on. */
  async thaw(image: string, frozen: string): Promise<void> {
    await this.#dropSnapshot(image, frozen);
  }

  /** Both by their whole names: `--pool` would say where the first one is, not the second. */
  #pair(from: { readonly image: string; readonly snapshot: string }, image: string): string[] {
    const { pool } = this.#place;
    return [`${pool}/${from.image}@${from.snapshot}`, `${pool}/${image}`];
  }

  /** False when clones stand on one of them. */
  async #dropSnapshots(image: string): Promise<boolean> {
    const found = await this.snapshots(image);
    let dropped = true;
    for (const { name } of found.filter((snapshot) => snapshot.protected))
      dropped = (await this.#dropSnapshot(image, name)) && dropped;
    if (dropped) await this.#run(['snap', 'purge', '--no-progress', '--image', image], true);
    else for (const { name } of found.filter((one) => !one.protected)) await this.#dropSnapshot(image, name);
    return dropped;
  }

  /** False when clones stand on it. */
  async #dropSnapshot(image: string, snapshot: string): Promise<boolean> {
    const known = (await this.snapshots(image)).find(({ name }) => name === snapshot);
    if (known === undefined) return true;
    if (known.protected) {
      if ((await childrenOf(this.#place, image, snapshot)).length > 0) return false;
      await this.#run(['snap', 'unprotect', '--image', image, '--snap', snapshot]);
    }
    await this.#run(['snap', 'rm', '--no-progress', '--image', image, '--snap', snapshot], true);
    return true;
  }

  /** A clone went: what only it stood on goes too. */
  async #release(parent: { readonly image: string; readonly snapshot: string }): Promise<void> {
    const { image, snapshot } = parent;
    try {
      if (isZombie(image)) await this.remove(image);
      else if (isZombie(snapshot)) await this.#dropSnapshot(image, snapshot);
    } catch (error) {
      if (!isMissing(error)) throw error; // another clone went at the same time, and took it along
    }
  }

  async #bury(image: string): Promise<void> {
    try {
      await this.rename(image, zombieImage(image));
    } catch (error) {
      if (!isTaken(error)) throw error;
      await this.rename(image, zombieImage(`${image}_${this.#newId()}`));
    }
  }

  async #run(args: readonly string[], long = false, ok: readonly number[] = [0]): Promise<void> {
    await rbd(this.#place, args, { long, ok });
  }
}

const EBUSY = 16;
/** Half a minute, and then some. */
const FORGOTTEN = { attempts: 8, delay: 5000, maxDelay: 15_000 };
