import { chmod, chown, lstat, mkdir, open, readdir, readlink, realpath, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { copyTree } from './files.ts';
import { renameExchange, syncfs } from './syscalls.ts';

/** What a fresh file system or its snapshots put into a folder. */
const OWN = new Set(['lost+found', '.zfs']);

/**
 * A folder of the state folder that may be a link to another: the backups, the images. Beside it, under `<path>.new`,
 * lies what shall take its place, and afterwards what it took the place of.
 */
export class ServerFolder {
  readonly path: string;
  readonly #beside: string;

  constructor(path: string) {
    this.path = path;
    this.#beside = `${path}.new`;
  }

  /** Folder that it links to; undefined when it is one itself. */
  async target(): Promise<string | undefined> {
    return (await lstat(this.path)).isSymbolicLink() ? readlink(this.path) : undefined;
  }

  /** Copies all there is to the folder `to`, or to one of the state folder. Nothing changes before `swap`. */
  async copyTo(to: string | undefined): Promise<void> {
    await this.discard();
    const target = to ?? this.#beside;
    if (to === undefined) await mkdir(target, { mode: 0o700 });
    else await symlink(to, this.#beside);
    await copyTree(await realpath(this.path), target);
    await chown(target, 0, 0);
    await chmod(target, 0o700);
    await using folder = await open(target, 'r');
    await syncfs(folder.fd);
  }

  /** What is beside takes the place, and the other way round. */
  async swap(): Promise<void> {
    await renameExchange(this.#beside, this.path);
    await this.#sync();
  }

  /** A link to the folder, at once; without one the link that is there is replaced. */
  async point(to: string): Promise<void> {
    await this.discard();
    await symlink(to, this.#beside);
    await this.swap();
    await this.discard();
  }

  /** Removes what is beside; of a link the link alone. */
  async discard(): Promise<void> {
    await rm(this.#beside, { recursive: true, force: true });
  }

  async #sync(): Promise<void> {
    await using folder = await open(join(this.path, '..'), 'r');
    await folder.sync();
  }
}

export async function isEmptyFolder(path: string): Promise<boolean> {
  return (await readdir(path)).every((name) => OWN.has(name));
}

export async function emptyFolder(path: string): Promise<void> {
  for (const name of await readdir(path)) {
    if (!OWN.has(name)) await rm(join(path, name), { recursive: true, force: true });
  }
}
