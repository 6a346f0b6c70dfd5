import { close, constants, fstat } from 'node:fs';
import { chmod, type FileHandle, mkdir, open, readdir, rename, stat, statfs, truncate } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { promisify } from 'node:util';
import { copyToDevice } from './device-copy.ts';
import { run, type RunOptions } from './run.ts';
import { runStream, type RunStreamOptions } from './run-stream.ts';
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
import { contentSize } from './tools/block-fs.ts';

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

export async function pathExists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return false;
    throw error;
  }
}

/** Replaces the file in one step and waits until the disk has it. */
export async function writeFileAtomic(path: string, content: string, mode = 0o600): Promise<void> {
  const temporary = `${path}.new`;
  const handle = await open(temporary, 'w', mode);
  try {
    await handle.writeFile(content);
    await handle.datasync();
  } finally {
    await handle.close();
  }
  await rename(temporary, path);
}

/** Which folder of which file system is at `path`; undefined when there is none. */
export async function folderIdentity(path: string): Promise<string | undefined> {
  const found = await stat(path).catch(() => undefined);
  return found === undefined ? undefined : `${found.dev}:${found.ino}`;
}

/** Removes the tree at `path` without following links or entering other mounts. Absent = no effect. */
export async function removeTree(path: string, signal?: AbortSignal): Promise<void> {
  await run('rm', ['-rf', '--one-file-system', '--', path], {
    timeout: 3_600_000,
    ...(signal === undefined ? {} : { signal }),
  });
}

export interface CopyTreeOptions {
  /** `always` fails where the file system cannot share blocks. */
  readonly reflink?: 'auto' | 'always' | 'never';
  /**
   * A guest may change the source meanwhile. Files that vanish are left out, and no folder it swaps for a link is ever
   * followed; blocks are not shared.
   */
  readonly live?: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Told some times a second how many bytes were read. */
  readonly onBytes?: ((bytes: number) => void) | undefined;
  /** `rsync.bwlimit` as rsync takes it; empty or 0: as fast as it goes. */
  readonly bandwidth?: string | undefined;
}

const DAY = 24 * 3_600_000;

/**
 * Content of folder `source` into the new or empty folder `target` with owners, modes, times, links, hard links, ACLs,
 * extended attributes, device nodes and holes. Links are copied, never followed; other mounts are left out.
 */
export async function copyTree(source: string, target: string, options: CopyTreeOptions = {}): Promise<void> {
  await mkdir(target, { recursive: true });
  const limits = limitsOf(options);
  if (options.live === true) {
    await copyLive(source, target, limits);
    return;
  }
  if (isLimit(options.bandwidth)) {
    await mirrorTree(source, target, options.signal, options);
    return;
  }
  const args = ['-a', `--reflink=${options.reflink ?? 'auto'}`, '--sparse=auto', '-T', '-x'];
  await run('cp', [...args, '--', source, target], limits);
}

/** GNU tar walks by descriptors (openat, no links followed), which cp and rsync do not. */
async function copyLive(source: string, target: string, limits: RunStreamOptions): Promise<void> {
  const attributes = ['--numeric-owner', '--acls', '--xattrs', '--xattrs-include=*'];
  const pack = ['--create', '--file=-', '--format=posix', '--sparse', '--one-file-system', ...attributes];
  const unpack = [
    '--extract',
    '--file=-',
    '--same-owner',
    '--same-permissions',
    '--delay-directory-restore',
    ...attributes,
  ];
  await runStream('tar', [...pack, '--warning=no-file-ignored', '.'], {
    ...limits,
    cwd: source,
    ok: [0, 1], // 1: a file changed or vanished while it was read
    stdout: async (stdin) => {
      const { onRead: _, ...others } = limits;
      await runStream('tar', unpack, { ...others, cwd: target, stdin });
    },
  });
}

/** Makes folder `target` hold what `source` holds, copying only what differs. Nobody may change the source meanwhile. */
export async function mirrorTree(
  source: string,
  target: string,
  signal?: AbortSignal,
  { onBytes, bandwidth }: Pick<CopyTreeOptions, 'onBytes' | 'bandwidth'> = {},
): Promise<void> {
  // The size and the whole second of a file are not enough to call it unchanged.
  const args = ['-aHAXS', '--modify-window=-1', '--numeric-ids', '--devices', '--delete', '--one-file-system'];
  const limit = isLimit(bandwidth) ? [`--bwlimit=${bandwidth}`] : [];
  await run('rsync', [...args, ...limit, '--', `${source}/`, target], limitsOf({ signal, onBytes }));
}

/** As `mirrorTree`, but contents are compared also where size and time are the same. */
export async function mirrorTreeExactly(source: string, target: string, signal?: AbortSignal): Promise<void> {
  const args = ['-aHAXS', '--checksum', '--numeric-ids', '--devices', '--delete', '--one-file-system'];
  await run('rsync', [...args, '--', `${source}/`, target], {
    timeout: DAY,
    ...(signal === undefined ? {} : { signal }),
  });
}

/** One regular file with its holes, sharing blocks where the file system can; either side may be a block device. */
export async function copyFile(
  source: string,
  target: string,
  options: Pick<CopyTreeOptions, 'signal' | 'onBytes'> = {},
): Promise<void> {
  if ((await isBlockDevice(source)) || (await isBlockDevice(target))) return copyDevice(source, target, options);
  await run('cp', ['-a', '--reflink=auto', '--sparse=always', '-T', '--', source, target], limitsOf(options));
}

async function isBlockDevice(path: string): Promise<boolean> {
  const found = await stat(path).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  });
  return found?.isBlockDevice() === true;
}

/** A device keeps its size; a file becomes what the device holds, with holes for zeroes. */
async function copyDevice(
  source: string,
  target: string,
  options: Pick<CopyTreeOptions, 'signal' | 'onBytes'>,
): Promise<void> {
  if (await isBlockDevice(target)) return copyToDevice(source, target, options);
  const args = [`if=${source}`, `of=${target}`, 'bs=64K', 'conv=sparse,fsync', 'status=none'];
  await run('dd', args, limitsOf(options));
  await truncate(target, await contentSize(source));
}

function isLimit(bandwidth: string | undefined): boolean {
  return bandwidth !== undefined && bandwidth !== '' && bandwidth !== '0';
}

function limitsOf({ signal, onBytes }: Pick<CopyTreeOptions, 'signal' | 'onBytes'>): RunOptions {
  return {
    timeout: DAY,
    ...(signal === undefined ? {} : { signal }),
    ...(onBytes === undefined ? {} : { onRead: onBytes }),
  };
}
