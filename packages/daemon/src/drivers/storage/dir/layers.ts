import { chmod, chown, lstat, mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { copyTree, removeTree } from '../../../host/files.ts';
import { CommandError } from '../../../host/run.ts';
import type { Trash } from '../common/trash.ts';

/** The folders `layers/<id>/{fs,work}` of a pool. Who names them is the manifests' business. */
export class Layers {
  readonly #folder: string;
  readonly #newId: () => string;
  readonly #trash: Trash;

  constructor(options: { folder: string; newId: () => string; trash: Trash }) {
    this.#folder = options.folder;
    this.#newId = options.newId;
    this.#trash = options.trash;
  }

  files(id: string): string {
    return join(this.#folder, id, 'fs');
  }

  work(id: string): string {
    return join(this.#folder, id, 'work');
  }

  /** Empty layer whose root folder belongs to `base`. */
  async create(base: number, mode = 0o755): Promise<string> {
    const id = this.#newId();
    const files = this.files(id);
    await mkdir(files, { recursive: true });
    await mkdir(this.work(id));
    await chmod(files, mode);
    await chown(files, base, base);
    return id;
  }

  /** Empty layer that may go on top of `model`: the same mode and, shifted from `modelBase` to `base`, the same owner. */
  async createOver(model: string, modelBase: number, base: number): Promise<string> {
    const { mode, uid, gid } = await lstat(model);
    const id = await this.create(base, mode & 0o7777);
    const shift = base - modelBase;
    if (uid !== modelBase || gid !== modelBase)
      await chown(this.files(id), Math.max(uid + shift, 0), Math.max(gid + shift, 0));
    return id;
  }

  /** Copy of a folder's content as a new layer. */
  async copy(
    source: string,
    options: { reflink?: 'auto' | 'always' | 'never'; live?: boolean; signal?: AbortSignal | undefined },
  ): Promise<string> {
    const id = this.#newId();
    const files = this.files(id);
    await mkdir(this.work(id), { recursive: true });
    try {
      await copyTree(source, files, options);
    } catch (error) {
      await removeTree(join(this.#folder, id));
      if (options.reflink === 'always' && error instanceof CommandError && /failed to clone/.test(error.stderr)) {
        throw errors.badRequest(
          'The file system of the pool cannot share blocks between files; set "volume.clone" to "auto" or "copy"',
          error,
        );
      }
      throw error;
    }
    return id;
  }

  /** Whether nothing was written into the layer. */
  async isEmpty(id: string): Promise<boolean> {
    return (await readdir(this.files(id))).length === 0;
  }

  async ids(): Promise<string[]> {
    return readdir(this.#folder);
  }

  discard(id: string): Promise<void> {
    return this.#trash.discard(join(this.#folder, id));
  }
}
