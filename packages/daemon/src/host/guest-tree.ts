import { constants } from 'node:fs';
import { dirname } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { errors } from '../core/errors.ts';
import { type FileStat, GuestRoot } from './guest-root.ts';
import { errnoOf } from './syscalls.ts';

/** Where a guest's files lie, and the host ids that stand for guest ids `0 … size-1`; undefined: they are the same. */
export interface Tree {
  readonly path: string;
  readonly shift: { readonly base: number; readonly size: number } | undefined;
}

export interface Owner {
  readonly uid?: number | undefined;
  readonly gid?: number | undefined;
  readonly mode?: number | undefined;
}

interface Info {
  readonly kind: 'file' | 'directory' | 'symlink';
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
  readonly size: number;
  readonly modified: Date;
}

/** Shown for owners a guest has no id for. */
const NOBODY = 65_534;

/** Reads and writes guests' files with guest ids; no path leaves the guest's root. */
export class GuestTrees {
  info(tree: Tree, path: string): Promise<Info> {
    return inTree(tree, path, async (root) => toInfo(await root.lstat(path), tree));
  }

  read(tree: Tree, path: string): Promise<Readable> {
    return inTree(tree, path, async (root) => {
      const handle = await root.openFile(path, constants.O_RDONLY);
      return handle.createReadStream();
    });
  }

  readlink(tree: Tree, path: string): Promise<string> {
    return inTree(tree, path, (root) => root.readlink(path));
  }

  list(tree: Tree, path: string): Promise<readonly string[]> {
    return inTree(tree, path, (root) => root.list(path));
  }

  write(tree: Tree, path: string, body: Readable, options: Owner & { readonly append: boolean }): Promise<void> {
    return inTree(tree, path, async (root) => {
      const handle = await openForWriting(root, tree, path, options);
      await pipeline(body, handle.createWriteStream());
    });
  }

  mkdir(tree: Tree, path: string, owner: Owner): Promise<void> {
    return inTree(tree, path, async (root) => {
      if ((await kindAt(root, path)) === 'directory') return;
      await root.mkdir(path, { ...hostOwner(tree, owner), mode: owner.mode ?? 0o755 });
    });
  }

  symlink(tree: Tree, path: string, target: string, owner: Owner): Promise<void> {
    return inTree(tree, path, (root) => root.symlink(path, target, hostOwner(tree, owner)));
  }

  remove(tree: Tree, path: string): Promise<void> {
    return inTree(tree, path, (root) => root.remove(path));
  }

  put(tree: Tree, path: string, content: string, options: { readonly createOnly: boolean }): Promise<void> {
    return inTree(tree, path, async (root) => {
      if (options.createOnly && (await kindAt(root, path)) !== undefined) return;
      await makeFolders(root, tree, dirname(path));
      const handle = await openForWriting(root, tree, path, { append: false });
      try {
        await handle.writeFile(content);
      } finally {
        await handle.close();
      }
    });
  }
}

async function inTree<T>(tree: Tree, path: string, work: (root: GuestRoot) => Promise<T>): Promise<T> {
  try {
    await using root = await GuestRoot.open(tree.path);
    return await work(root);
  } catch (error) {
    throw explained(error, path);
  }
}

function explained(error: unknown, path: string): unknown {
  switch (errnoOf(error)) {
    case 'ENOENT':
    case 'ENOTDIR':
    case 'EXDEV': // a magic link of /proc, which would leave the root
      return errors.notFound('Not Found', error);
    case 'EEXIST':
      return errors.badRequest(`"${path}" exists already`, error);
    case 'EISDIR':
      return errors.badRequest(`"${path}" is a directory`, error);
    case 'ENOTEMPTY':
      return errors.badRequest(`The directory "${path}" is not empty`, error);
    case 'EBUSY':
      return errors.badRequest(`"${path}" is in use`, error);
    case 'ELOOP':
      return errors.badRequest(`"${path}" goes through too many symbolic links`, error);
    case 'EINVAL':
      return errors.badRequest(`"${path}" is not a regular file`, error);
    case 'ENAMETOOLONG':
      return errors.badRequest('The path is too long', error);
    case 'EACCES':
    case 'EPERM':
      return errors.badRequest(`The act is not permitted on "${path}"`, error);
    case 'EROFS':
      return errors.badRequest(`"${path}" is on a read-only file system`, error);
    case 'ENOSPC':
    case 'EDQUOT':
      return errors.badRequest(`There is no space left for "${path}"`, error);
    default:
      return error;
  }
}

async function openForWriting(
  root: GuestRoot,
  tree: Tree,
  path: string,
  options: Owner & { readonly append: boolean },
) {
  const kind = await kindAt(root, path);
  if (kind === undefined) return root.createFile(path, { ...hostOwner(tree, options), mode: options.mode ?? 0o644 });
  if (kind === 'directory') throw errors.badRequest(`"${path}" is a directory`);
  const flags = constants.O_WRONLY | (options.append ? constants.O_APPEND : constants.O_TRUNC);
  const handle = await root.openFile(path, flags);
  const { uid, gid } = await handle.stat();
  const owner = hostOwner(tree, options);
  if (options.uid !== undefined || options.gid !== undefined) {
    await handle.chown(options.uid === undefined ? uid : owner.uid, options.gid === undefined ? gid : owner.gid);
  }
  if (options.mode !== undefined) await handle.chmod(options.mode);
  return handle;
}

/** What `path` leads to, links followed; undefined when there is nothing. */
async function kindAt(root: GuestRoot, path: string): Promise<FileStat['kind'] | undefined> {
  try {
    return (await root.stat(path)).kind;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

async function makeFolders(root: GuestRoot, tree: Tree, path: string): Promise<void> {
  if (path === '/' || path === '.' || (await kindAt(root, path)) === 'directory') return;
  await makeFolders(root, tree, dirname(path));
  await root.mkdir(path, { ...hostOwner(tree, {}), mode: 0o755 });
}

/** @throws bad-request for an id outside of the guest's. */
function hostOwner(tree: Tree, owner: Owner): { readonly uid: number; readonly gid: number } {
  return { uid: toHost(tree, owner.uid ?? 0), gid: toHost(tree, owner.gid ?? 0) };
}

function toHost({ shift }: Tree, id: number): number {
  if (shift === undefined) return id;
  if (id >= shift.size) throw errors.badRequest(`The id ${id} is outside of the instance's range`);
  return shift.base + id;
}

function toGuest({ shift }: Tree, id: number): number {
  if (shift === undefined) return id;
  return id >= shift.base && id < shift.base + shift.size ? id - shift.base : NOBODY;
}

function toInfo(stat: FileStat, tree: Tree): Info {
  return {
    kind: stat.kind === 'other' ? 'file' : stat.kind,
    uid: toGuest(tree, stat.uid),
    gid: toGuest(tree, stat.gid),
    mode: stat.mode,
    size: stat.size,
    modified: stat.modified,
  };
}
