import { constants } from 'node:os';
import koffi from 'koffi';

/**
 * System calls that Node has no function for. Everything that can sleep runs on a worker thread.
 * Paths are bytes for the kernel: never resolve a guest-controlled path with anything here but `openat2`.
 */

export const AT_FDCWD = -100;
export const AT_EMPTY_PATH = 0x1000;
export const AT_RECURSIVE = 0x8000;
export const AT_SYMLINK_NOFOLLOW = 0x100;
export const AT_REMOVEDIR = 0x200;

export const O_PATH = 0x200000;
export const O_CLOEXEC = 0x80000;

export const RESOLVE_NO_XDEV = 0x01;
export const RESOLVE_NO_MAGICLINKS = 0x02;
export const RESOLVE_NO_SYMLINKS = 0x04;
export const RESOLVE_BENEATH = 0x08;
export const RESOLVE_IN_ROOT = 0x10;

export const MS_RDONLY = 0x1;
export const MS_NOSUID = 0x2;
export const MS_NODEV = 0x4;
export const MS_REMOUNT = 0x20;
export const MS_BIND = 0x1000;
export const MS_REC = 0x4000;
export const MS_PRIVATE = 0x40000;

export const MNT_DETACH = 0x2;
export const UMOUNT_NOFOLLOW = 0x8;

export const MOUNT_ATTR_RDONLY = 0x1;
export const MOUNT_ATTR_NOSUID = 0x2;
export const MOUNT_ATTR_NODEV = 0x4;
export const MOUNT_ATTR_IDMAP = 0x100000;

const OPEN_TREE_CLONE = 1;
const MOVE_MOUNT_F_EMPTY_PATH = 0x4;
const RENAME_NOREPLACE = 1;
const RENAME_EXCHANGE = 2;

// The same numbers on every architecture: they came after the tables were joined.
const NR_open_tree = 428;
const NR_move_mount = 429;
const NR_pidfd_open = 434;
const NR_openat2 = 437;
const NR_pidfd_getfd = 438;
const NR_mount_setattr = 442;
const NR_quotactl_fd = 443;

/** A system call that failed. `code` is the errno's name, as on Node's own errors. */
export class SyscallError extends Error {
  override readonly name = 'SyscallError';
  readonly code: string;
  readonly syscall: string;

  constructor(syscall: string, errno: number, subject: string) {
    const code = errnoName(errno);
    super(`${syscall}${subject === '' ? '' : ` ${subject}`}: ${code}`);
    this.code = code;
    this.syscall = syscall;
  }
}

function errnoName(errno: number): string {
  for (const [name, value] of Object.entries(constants.errno)) if (value === errno) return name;
  return `errno ${errno}`;
}

/** Errno name of a failed call, Node's or ours; undefined for any other error. */
export function errnoOf(error: unknown): string | undefined {
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.code;
  return undefined;
}

type Argument = number | bigint | string | Uint8Array | null;
interface Native {
  (...args: Argument[]): number;
  async(...args: [...Argument[], (error: Error | null, result: number) => void]): void;
}

const libc = koffi.load('libc.so.6');
const bind = (prototype: string): Native => libc.func(prototype);

const c = {
  openTree: bind('long syscall(long nr, int dirfd, const char *path, unsigned int flags)'),
  moveMount: bind(
    'long syscall(long nr, int from, const char *fromPath, int to, const char *toPath, unsigned int flags)',
  ),
  mountSetattr: bind('long syscall(long nr, int dirfd, const char *path, unsigned int flags, void *attr, size_t size)'),
  openat2: bind('long syscall(long nr, int dirfd, const char *path, void *how, size_t size)'),
  mount: bind(
    'int mount(const char *source, const char *target, const char *type, unsigned long flags, const char *data)',
  ),
  umount2: bind('int umount2(const char *target, int flags)'),
  renameat2: bind('int renameat2(int from, const char *fromPath, int to, const char *toPath, unsigned int flags)'),
  ioctl: bind('int ioctl(int fd, unsigned long request, void *argument)'),
  pidfdOpen: bind('long syscall(long nr, int pid, unsigned int flags)'),
  pidfdGetfd: bind('long syscall(long nr, int pidfd, int fd, unsigned int flags)'),
  close: bind('int close(int fd)'),
  mkdirat: bind('int mkdirat(int dirfd, const char *path, unsigned int mode)'),
  unlinkat: bind('int unlinkat(int dirfd, const char *path, int flags)'),
  symlinkat: bind('int symlinkat(const char *target, int dirfd, const char *path)'),
  fchownat: bind('int fchownat(int dirfd, const char *path, unsigned int uid, unsigned int gid, int flags)'),
  readlinkat: bind('long readlinkat(int dirfd, const char *path, void *buffer, size_t size)'),
  setfsuid: bind('int setfsuid(unsigned int uid)'),
  setfsgid: bind('int setfsgid(unsigned int gid)'),
  fallocate: bind('int fallocate(int fd, int mode, long offset, long length)'),
  syncfs: bind('int syncfs(int fd)'),
  llistxattr: bind('long llistxattr(const void *path, void *list, size_t size)'),
  lgetxattr: bind('long lgetxattr(const void *path, const char *name, void *value, size_t size)'),
  lsetxattr: bind('int lsetxattr(const void *path, const char *name, const void *value, size_t size, int flags)'),
  quotactlFd: bind('long syscall(long nr, int fd, unsigned int command, unsigned int id, void *data)'),
};

function now(native: Native, name: string, subject: string, args: Argument[]): number {
  const result = native(...args);
  if (result < 0) throw new SyscallError(name, koffi.errno(), subject);
  return Number(result);
}

function later(native: Native, name: string, subject: string, args: Argument[]): Promise<number> {
  return new Promise((resolve, reject) => {
    native.async(...args, (error, result) => {
      if (error !== null) reject(error);
      else if (result < 0) reject(new SyscallError(name, koffi.errno(), subject));
      else resolve(Number(result));
    });
  });
}

/** Detached clone of the mount at `path`; returns a file descriptor the caller closes. */
export function openTreeClone(path: string, recursive = false): Promise<number> {
  const flags = OPEN_TREE_CLONE | O_CLOEXEC | (recursive ? AT_RECURSIVE : 0);
  return later(c.openTree, 'open_tree', path, [NR_open_tree, AT_FDCWD, path, flags]);
}

/** Attaches a detached mount at `target`. */
export function moveMount(fd: number, target: string): Promise<number> {
  return later(c.moveMount, 'move_mount', target, [NR_move_mount, fd, '', AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH]);
}

export interface MountAttributes {
  readonly set?: number;
  readonly clear?: number;
  /** Needs `MOUNT_ATTR_IDMAP` in `set`. */
  readonly usernsFd?: number;
  readonly recursive?: boolean;
}

export function mountSetattr(fd: number, attributes: MountAttributes): Promise<number> {
  const attr = Buffer.alloc(32); // struct mount_attr: set, clear, propagation, userns_fd
  attr.writeBigUInt64LE(BigInt(attributes.set ?? 0), 0);
  attr.writeBigUInt64LE(BigInt(attributes.clear ?? 0), 8);
  attr.writeBigUInt64LE(BigInt(attributes.usernsFd ?? 0), 24);
  const flags = AT_EMPTY_PATH | (attributes.recursive === true ? AT_RECURSIVE : 0);
  return later(c.mountSetattr, 'mount_setattr', '', [NR_mount_setattr, fd, '', flags, attr, attr.length]);
}

export interface MountCall {
  readonly source: string;
  readonly target: string;
  readonly type: string;
  readonly flags?: number;
  readonly data?: string;
}

export function mountCall(call: MountCall): Promise<number> {
  const args = [call.source, call.target, call.type, call.flags ?? 0, call.data ?? ''];
  return later(c.mount, 'mount', call.target, args);
}

export function umount2(target: string, flags: number): Promise<number> {
  return later(c.umount2, 'umount2', target, [target, flags]);
}

export interface OpenHow {
  readonly flags: number;
  readonly mode?: number;
  readonly resolve: number;
}

/** Opens below `dirfd` under the given resolve rules; returns a file descriptor the caller closes. */
export function openat2(dirfd: number, path: string, how: OpenHow): Promise<number> {
  return later(c.openat2, 'openat2', path, openat2Arguments(dirfd, path, how));
}

/** `openat2` on the calling thread, for paths that cannot sleep (O_PATH on local file systems). */
export function openat2Sync(dirfd: number, path: string, how: OpenHow): number {
  return now(c.openat2, 'openat2', path, openat2Arguments(dirfd, path, how));
}

function openat2Arguments(dirfd: number, path: string, how: OpenHow): Argument[] {
  const buffer = Buffer.alloc(24); // struct open_how: flags, mode, resolve
  buffer.writeBigUInt64LE(BigInt((how.flags | O_CLOEXEC) >>> 0), 0);
  buffer.writeBigUInt64LE(BigInt(how.mode ?? 0), 8);
  buffer.writeBigUInt64LE(BigInt(how.resolve), 16);
  return [NR_openat2, dirfd, path, buffer, buffer.length];
}

/** Swaps two existing paths of one file system in one step. */
export function renameExchange(a: string, b: string): Promise<number> {
  return later(c.renameat2, 'renameat2', `${a} <> ${b}`, [AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE]);
}

/** Rename that fails with EEXIST instead of replacing an empty folder or a file. */
export function renameNoReplace(from: string, to: string): Promise<number> {
  return later(c.renameat2, 'renameat2', `${from} > ${to}`, [AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE]);
}

/** `argument` is both input and output. */
export function ioctl(fd: number, request: number, argument: Uint8Array | null): Promise<number> {
  return later(c.ioctl, 'ioctl', `0x${request.toString(16)}`, [fd, request, argument]);
}

/**
 * What process `pid` has open as `fd`, as a descriptor of the caller.
 * @throws EPERM where the kernel's settings let nobody look into processes, EBADF, ESRCH
 */
export function fileOfProcess(pid: number, fd: number): number {
  const process = now(c.pidfdOpen, 'pidfd_open', String(pid), [NR_pidfd_open, pid, 0]);
  try {
    return now(c.pidfdGetfd, 'pidfd_getfd', String(pid), [NR_pidfd_getfd, process, fd, 0]);
  } finally {
    c.close(process);
  }
}

export function mkdirat(dirfd: number, name: string, mode: number): Promise<number> {
  return later(c.mkdirat, 'mkdirat', name, [dirfd, name, mode]);
}

/**
 * Runs `make` (synchronous calls only) as another owner for the file system: a file system that belongs to a user
 * namespace takes no files of ids it does not map, and this process's own is one of those.
 */
export function asFileOwner<T>(owner: { readonly uid: number; readonly gid: number }, make: () => T): T {
  c.setfsgid(owner.gid);
  c.setfsuid(owner.uid);
  try {
    return make();
  } finally {
    c.setfsuid(0);
    c.setfsgid(0);
  }
}

/** On the calling thread, for `asFileOwner`. */
export function mkdiratSync(dirfd: number, name: string, mode: number): number {
  return now(c.mkdirat, 'mkdirat', name, [dirfd, name, mode]);
}

/** On the calling thread, for `asFileOwner`. */
export function symlinkatSync(target: string, dirfd: number, name: string): number {
  return now(c.symlinkat, 'symlinkat', name, [target, dirfd, name]);
}

export function unlinkat(dirfd: number, name: string, flags: number): Promise<number> {
  return later(c.unlinkat, 'unlinkat', name, [dirfd, name, flags]);
}

export function symlinkat(target: string, dirfd: number, name: string): Promise<number> {
  return later(c.symlinkat, 'symlinkat', name, [target, dirfd, name]);
}

/** Never follows a link at `name`; with an empty name it changes `dirfd` itself. */
export function fchownat(
  dirfd: number,
  name: string,
  owner: { readonly uid: number; readonly gid: number },
): Promise<number> {
  const flags = AT_SYMLINK_NOFOLLOW | (name === '' ? AT_EMPTY_PATH : 0);
  return later(c.fchownat, 'fchownat', name, [dirfd, name, owner.uid, owner.gid, flags]);
}

/** Target of the link `name`, or of the link `dirfd` itself (opened with O_PATH|O_NOFOLLOW) when `name` is empty. */
export function readlinkat(dirfd: number, name: string): string {
  const buffer = Buffer.alloc(4096);
  const length = now(c.readlinkat, 'readlinkat', name, [dirfd, name, buffer, buffer.length]);
  return buffer.subarray(0, length).toString();
}

export function fallocate(fd: number, mode: number, offset: number, length: number): Promise<number> {
  return later(c.fallocate, 'fallocate', '', [fd, mode, offset, length]);
}

/** Writes back the file system that holds `fd`. */
export function syncfs(fd: number): Promise<number> {
  return later(c.syncfs, 'syncfs', '', [fd]);
}

/** Quota call on the file system that holds `fd`; `data` is both input and output. */
export function quotactlFd(fd: number, command: number, id: number, data: Uint8Array): Promise<number> {
  return later(c.quotactlFd, 'quotactl_fd', `0x${command.toString(16)}`, [NR_quotactl_fd, fd, command, id, data]);
}

/** The kernel's own limit of a value and of all names. */
const XATTR_LIMIT = 65_536;

/** Names of a file's attributes; of a link its own. None where the file system has no attributes. */
export async function listXattrs(path: Uint8Array): Promise<string[]> {
  const list = Buffer.alloc(XATTR_LIMIT);
  try {
    const size = await later(c.llistxattr, 'llistxattr', '', [terminated(path), list, list.length]);
    return list.subarray(0, size).toString().split('\0').slice(0, -1);
  } catch (error) {
    if (errnoOf(error) === 'ENOTSUP' || errnoOf(error) === 'EOPNOTSUPP') return [];
    throw error;
  }
}

/** @throws ENODATA when the file has no such attribute. */
export async function getXattr(path: Uint8Array, name: string): Promise<Buffer> {
  const value = Buffer.alloc(XATTR_LIMIT);
  const size = await later(c.lgetxattr, 'lgetxattr', name, [terminated(path), name, value, value.length]);
  return value.subarray(0, size);
}

export function setXattr(path: Uint8Array, name: string, value: Uint8Array): Promise<number> {
  return later(c.lsetxattr, 'lsetxattr', name, [terminated(path), name, value, value.length, 0]);
}

function terminated(path: Uint8Array): Buffer {
  return Buffer.concat([path, Buffer.alloc(1)]);
}
