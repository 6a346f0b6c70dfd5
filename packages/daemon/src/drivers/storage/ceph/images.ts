import { errors } from '../../../core/errors.ts';
import {
  childrenOf,
  findImage,
  findImageById,
  isBusy,
  isTaken,
  listImages,
  listSnapshots,
  rbd,
  type RbdImage,
  type RbdPlace,
  type RbdSnapshot,
} from '../../../host/tools/rbd.ts';
import { exportDiff, importDiff, type RbdState } from '../../../host/tools/rbd-diff.ts';

/** The RBD images of one pool: one command each. How they come and go is `RbdLives`'. */
export class RbdImages {
  readonly #place: RbdPlace;

  constructor(place: RbdPlace) {
    this.#place = place;
  }

  list(): Promise<string[]> {
    return listImages(this.#place);
  }

  find(image: string): Promise<RbdImage | undefined> {
    return findImage(this.#place, image);
  }

  /** By what stays when it is renamed. */
  findById(id: string): Promise<RbdImage | undefined> {
    return findImageById(this.#place, id);
  }

  /** Oldest first; none of an image that is not there. */
  async snapshots(image: string): Promise<readonly RbdSnapshot[]> {
    return (await listSnapshots(this.#place, image)) ?? [];
  }

  /** `options`: of `imageArguments`. */
  async create(image: string, size: number, options: readonly string[]): Promise<void> {
    await this.#run(['create', '--size', `${size}B`, ...options, '--image', image]);
  }

  /** Also to the name of an image whose removal was cut off, which is a name and nothing else. @throws conflict. */
  async rename(image: string, newName: string): Promise<void> {
    const rename = (): Promise<void> => this.#run(['rename', image, newName]);
    try {
      await rename();
    } catch (error) {
      if (!isTaken(error)) throw error;
      if ((await this.find(newName)) !== undefined) throw errors.conflict(`Image "${newName}" already exists`, error);
      await this.erase(newName);
      await rename();
    }
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

  /** An image without snapshots, and what a removal left that was cut off. Absent = no effect. @throws conflict while it is in use. */
  async erase(image: string): Promise<void> {
    try {
      await this.#run(['rm', '--no-progress', '--image', image], true, [0, ENOENT]);
    } catch (error) {
      if (isBusy(error)) throw errors.conflict(`RBD image "${image}" is in use, perhaps by another host`, error);
      throw error;
    }
  }

  /** Absent = no effect. False when clones stand on it. */
  async eraseSnapshot(image: string, snapshot: string): Promise<boolean> {
    const known = (await this.snapshots(image)).find(({ name }) => name === snapshot);
    return known === undefined || (await this.#eraseSnapshot(image, known));
  }

  /** All that no clones stand on. False when some stay. */
  async eraseSnapshots(image: string): Promise<boolean> {
    const found = await this.snapshots(image);
    let erased = true;
    for (const one of found.filter((snapshot) => snapshot.protected))
      erased = (await this.#eraseSnapshot(image, one)) && erased;
    const rest = found.filter((snapshot) => !snapshot.protected);
    if (erased && rest.length > 1) await this.#run(['snap', 'purge', '--no-progress', '--image', image], true);
    else for (const one of rest) await this.#eraseSnapshot(image, one);
    return erased;
  }

  async #eraseSnapshot(image: string, { name, protected: held }: RbdSnapshot): Promise<boolean> {
    if (held) {
      if ((await childrenOf(this.#place, image, name)).length > 0) return false;
      await this.#run(['snap', 'unprotect', '--image', image, '--snap', name], false, [0, EINVAL]);
    }
    await this.#run(['snap', 'rm', '--no-progress', '--image', image, '--snap', name], true, [0, ENOENT]);
    return true;
  }

  /** Both by their whole names: `--pool` would say where the first one is, not the second. */
  #pair(from: { readonly image: string; readonly snapshot: string }, image: string): string[] {
    const { pool } = this.#place;
    return [`${pool}/${from.image}@${from.snapshot}`, `${pool}/${image}`];
  }

  async #run(args: readonly string[], long = false, ok: readonly number[] = [0]): Promise<void> {
    await rbd(this.#place, args, { long, ok });
  }
}

/** No such thing; in use, or protected already; not protected. */
const [ENOENT, EBUSY, EINVAL] = [2, 16, 22];
