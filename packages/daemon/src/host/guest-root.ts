import { close, constants, fstat } from 'node:fs';
import { chmod, type FileHandle, open, readdir, statfs } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { promisify } from 'node:util';
import {
  AT_FDCWD,
  AT_REMOVEDIR,
  asFileOwner,
  errnoOf,
  fchownat,
  mkdirat,
  mkdiratSync,
  O_PATH,
  openat2,
  openat2Sync,
  RESOLVE_IN_ROOT,
  readlinkat,
  SyscallError,
  symlinkat,
  symlinkatSync,
  unlinkat,
} from './syscalls.ts';

const closeFd = promisify(close);

export type FileKind = 'file' | 'directory' | 'symlink' | 'other';

export interface FileStat {
  readonly kind: FileKind;
  readonly uid: number;
  readonly gid: number;
  /** Permission bits. */
  readonly mode: number;
  readonly size: number;
  /** Last change of the content. */
  readonly modified: Date;
}

export interface CreateOptions {
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
}

/**
 * Files below a folder whose content a guest controls. Every path is resolved by the kernel as if the folder were
 * the root (`openat2(RESOLVE_IN_ROOT)`): links and `..` cannot leave it, also while a guest changes it. Content is
 * read and written only on file systems that store files: in a guest's proc, sys or cgroup the daemon's own rights
 * would reach the host's kernel (EPERM). Errors carry the errno's name in `code`.
 */
export class GuestRoot implements AsyncDisposable {
  readonly #fd: number;
  #closed = false;

  private constructor(fd: number) {
    this.#fd = fd;
  }

  static async open(path: string): Promise<GuestRoot> {
    return new GuestRoot(await openat2(AT_FDCWD, path, { flags: O_PATH | constants.O_DIRECTORY, resolve: 0 }));
  }

  /** The last component is followed when it is a link, inside the root. */
  stat(path: string): Promise<FileStat> {
    return this.#with(path, O_PATH, (fd) => statFd(fd));
  }

  lstat(path: string): Promise<FileStat> {
    return this.#with(path, O_PATH | constants.O_NOFOLLOW, (fd) => statFd(fd));
  }

  readlink(path: string): Promise<string> {
    return this.#with(path, O_PATH | constants.O_NOFOLLOW, async (fd) => readlinkat(fd, ''));
  }

  list(path: string): Promise<string[]> {
    return this.#with(path, O_PATH | constants.O_DIRECTORY, (fd) => readdir(fdPath(fd)));
  }

  /** An existing regular file; anything else is refused with EINVAL, so that no fifo or device is ever opened. */
  openFile(path: string, flags: number): Promise<FileHandle> {
    return this.#with(path, O_PATH, async (fd) => {
      if ((await statFd(fd)).kind !== 'file') throw new SyscallError('open', EINVAL, path);
      await assertStored(fd, path);
      return open(fdPath(fd), flags);
    });
  }

  /** A new regular file, open for writing. @throws EEXIST when there is anything at `path`, a link included. */
  async createFile(path: string, options: CreateOptions): Promise<FileHandle> {
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
    const how = { flags, mode: 0o600, resolve: RESOLVE_IN_ROOT };
    return this.#inParent(path, async (parent, name) => {
      const fd = await makeIn(
        parent,
        () => openat2(parent, name, how),
        () => openat2Sync(parent, name, how),
      );
      try {
        const handle = await open(fdPath(fd), constants.O_WRONLY);
        await handle.chown(options.uid, options.gid);
        await handle.chmod(options.mode);
        return handle;
      } finally {
        await closeFd(fd);
      }
    });
  }

  mkdir(path: string, options: CreateOptions): Promise<void> {
    return this.#inParent(path, async (parent, name) => {
      await makeIn(
        parent,
        () => mkdirat(parent, name, options.mode),
        () => mkdiratSync(parent, name, options.mode),
      );
      await fchownat(parent, name, options);
    });
  }

  symlink(path: string, target: string, owner: { readonly uid: number; readonly gid: number }): Promise<void> {
    return this.#inParent(path, async (parent, name) => {
      await makeIn(
        parent,
        () => symlinkat(target, parent, name),
        () => symlinkatSync(target, parent, name),
      );
      await fchownat(parent, name, owner);
    });
  }

  /** A file, a link or an empty folder. */
  remove(path: string): Promise<void> {
    return this.#inParent(path, async (parent, name) => {
      try {
        await unlinkat(parent, name, 0);
      } catch (error) {
        if (errnoOf(error) !== 'EISDIR') throw error;
        await unlinkat(parent, name, AT_REMOVEDIR);
      }
    });
  }

  /** Owner of the entry itself; a link is not followed. */
  lchown(path: string, owner: { readonly uid: number; readonly gid: number }): Promise<void> {
    return this.#with(path, O_PATH | constants.O_NOFOLLOW, async (fd) => {
      await fchownat(fd, '', owner);
    });
  }

  /** Permission bits of a file or folder, links followed inside the root. */
  chmod(path: string, mode: number): Promise<void> {
    return this.#with(path, O_PATH, async (fd) => {
      await assertStored(fd, path);
      await chmod(fdPath(fd), mode);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await closeFd(this.#fd);
  }

  async #with<T>(path: string, flags: number, use: (fd: number) => Promise<T>): Promise<T> {
    const fd = await openat2(this.#fd, path === '' ? '.' : path, { flags, resolve: RESOLVE_IN_ROOT });
    try {
      return await use(fd);
    } finally {
      await closeFd(fd);
    }
  }

  async #inParent<T>(path: string, use: (parent: number, name: string) => Promise<T>): Promise<T> {
    const name = basename(path);
    if (name === '' || name === '.' || name === '..') throw new SyscallError('open', EINVAL, path);
    return this.#with(dirname(path), O_PATH | constants.O_DIRECTORY, async (fd) => {
      await assertStored(fd, path);
      return use(fd, name);
    });
  }
}

/** In a file system of the guest's user namespace (its own tmpfs) only ids of the guest may make files: then the folder's owner does. */
async function makeIn<T>(parent: number, make: () => Promise<T>, makeNow: () => T): Promise<T> {
  try {
    return await make();
  } catch (error) {
    if (errnoOf(error) !== 'EOVERFLOW') throw error;
    return asFileOwner(await statFd(parent), makeNow);
  }
}

const EPERM = 1;
const EINVAL = 22;

/** `statfs` types of file systems that only store files; a guest can mount none of the others to harm the host. */
const STORAGE: ReadonlySet<number> = new Set([
  0xef53, // ext2, ext3, ext4
  0x58465342, // xfs
  0x9123683e, // btrfs
  0x794c7630, // overlayfs
  0x01021994, // tmpfs
  0x858458f6, // ramfs
  0x2fc12fc1, // zfs
  0xca451a4e, // bcachefs
  0xf2f52010, // f2fs
  0x3153464a, // jfs
  0x73717368, // squashfs
  0xe0f5e1e2, // erofs
  0x9660, // iso9660
  0x4d44, // vfat
  0x2011bab0, // exfat
  0x6969, // nfs
  0xff534d42, // cifs
  0xfe534d42, // smb2
  0x00c36400, // ceph
  0x01021997, // 9p
]);

/** @throws EPERM when the descriptor lies in a file system that is more than files, such as proc. */
async function assertStored(fd: number, path: string): Promise<void> {
  const { type } = await statfs(fdPath(fd));
  if (!STORAGE.has(type >>> 0)) throw new SyscallError('open', EPERM, path);
}

/** Names the exact inode behind a descriptor: nothing is resolved again. */
function fdPath(fd: number): string {
  return `/proc/self/fd/${fd}`;
}

async function statFd(fd: number): Promise<FileStat> {
  // stat() of a link's descriptor through /proc follows the link's text; fstat does not.
  const found = await promisify(fstat)(fd);
  const kind = found.isFile()
    ? 'file'
    : found.isDirectory()
      ? 'directory'
      : found.isSymbolicLink()
        ? 'symlink'
        : 'other';
  return { kind, uid: found.uid, gid: found.gid, mode: found.mode & 0o7777, size: found.size, modified: found.mtime };
}
