/**
 * Runs as a process of its own (see guest-mount.ts): entering a mount namespace is for the whole process, and
 * whatever goes wrong here ends with it. Every call is synchronous: only this thread is inside the guest.
 */
import { closeSync, constants, openSync } from 'node:fs';
import koffi from 'koffi';
import type { GuestMountRequest } from './guest-mount.ts';
import {
  AT_EMPTY_PATH,
  AT_FDCWD,
  AT_RECURSIVE,
  errnoOf,
  MNT_DETACH,
  MOUNT_ATTR_IDMAP,
  MOUNT_ATTR_RDONLY,
  O_CLOEXEC,
  O_PATH,
  openat2Sync,
  RESOLVE_IN_ROOT,
  RESOLVE_NO_MAGICLINKS,
  SyscallError,
  UMOUNT_NOFOLLOW,
} from './syscalls.ts';

const CLONE_FS = 0x200;
const CLONE_NEWNS = 0x20000;
const OPEN_TREE_CLONE = 1;
const MOVE_FROM_AND_TO_FD = 0x4 | 0x40;
const NR_open_tree = 428;
const NR_move_mount = 429;
const NR_mount_setattr = 442;
const RESOLVE = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;

type Call = (...args: (number | string | Uint8Array)[]) => number;
const libc = koffi.load('libc.so.6');
const bind = (prototype: string): Call => libc.func(prototype);
const c = {
  openTree: bind('long syscall(long nr, int dirfd, const char *path, unsigned int flags)'),
  moveMount: bind('long syscall(long nr, int from, const char *a, int to, const char *b, unsigned int flags)'),
  mountSetattr: bind('long syscall(long nr, int dirfd, const char *path, unsigned int flags, void *attr, size_t size)'),
  unshare: bind('int unshare(int flags)'),
  setns: bind('int setns(int fd, int type)'),
  umount2: bind('int umount2(const char *target, int flags)'),
  mkdirat: bind('int mkdirat(int dirfd, const char *path, unsigned int mode)'),
  openat: bind('int openat(int dirfd, const char *path, int flags, unsigned int mode)'),
  unlinkat: bind('int unlinkat(int dirfd, const char *path, int flags)'),
  setfsuid: bind('int setfsuid(unsigned int id)'),
  setfsgid: bind('int setfsgid(unsigned int id)'),
};

function call(name: string, subject: string, result: number): number {
  if (result < 0) throw new SyscallError(name, koffi.errno(), subject);
  return Number(result);
}

function main(request: GuestMountRequest): void {
  const namespace = openSync(`/proc/${request.pid}/ns/mnt`, 'r');
  const tree = request.act === 'attach' ? cloneSource(request) : -1;
  call('unshare', '', c.unshare(CLONE_FS)); // threads share root and folder; a namespace is entered with one's own
  call('setns', '', c.setns(namespace, CLONE_NEWNS));
  const root = openat2Sync(AT_FDCWD, '/', { flags: O_PATH | constants.O_DIRECTORY, resolve: 0 });
  if (request.act === 'attach') {
    const target = asGuestRoot(request.owner, () => makeTarget(root, request.target, request.kind));
    const moved = c.moveMount(NR_move_mount, tree, '', target, '', MOVE_FROM_AND_TO_FD);
    call('move_mount', request.target, moved);
    return;
  }
  call('umount2', request.target, c.umount2(request.target, MNT_DETACH | UMOUNT_NOFOLLOW));
  if (request.removeFile) asGuestRoot(request.owner, () => removeFile(root, request.target));
}

function cloneSource(request: GuestMountRequest & { act: 'attach' }): number {
  const recursive = request.recursive ? AT_RECURSIVE : 0;
  const flags = OPEN_TREE_CLONE | O_CLOEXEC | recursive;
  const tree = call('open_tree', request.source, c.openTree(NR_open_tree, AT_FDCWD, request.source, flags));
  const set = (request.readOnly ? MOUNT_ATTR_RDONLY : 0) | (request.shift ? MOUNT_ATTR_IDMAP : 0);
  if (set === 0) return tree;
  const attr = Buffer.alloc(32); // struct mount_attr: set, clear, propagation, userns_fd
  const users = request.shift ? openSync(`/proc/${request.pid}/ns/user`, 'r') : 0;
  attr.writeBigUInt64LE(BigInt(set), 0);
  attr.writeBigUInt64LE(BigInt(users), 24);
  const changed = c.mountSetattr(NR_mount_setattr, tree, '', AT_EMPTY_PATH | recursive, attr, attr.length);
  call('mount_setattr', request.source, changed);
  return tree;
}

/** Files are made with the rights and the ids of the guest's root, never with the host's. */
function asGuestRoot<T>(owner: number, act: () => T): T {
  c.setfsgid(owner);
  c.setfsuid(owner);
  try {
    return act();
  } finally {
    c.setfsuid(0);
    c.setfsgid(0);
  }
}

function open(root: number, path: string): number | undefined {
  try {
    return openat2Sync(root, path, { flags: O_PATH, resolve: RESOLVE });
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** File descriptor of the target, with what is missing on the way to it made. */
function makeTarget(root: number, target: string, kind: 'folder' | 'file'): number {
  const parts = target.split('/').filter((part) => part !== '');
  let parent = root;
  let found = root;
  for (const [index, part] of parts.entries()) {
    const path = parts.slice(0, index + 1).join('/');
    const here = open(root, path);
    if (here === undefined) {
      const last = index === parts.length - 1;
      if (last && kind === 'file') makeFile(parent, part);
      else call('mkdirat', target, c.mkdirat(parent, part, 0o755));
    }
    found = here ?? openat2Sync(root, path, { flags: O_PATH, resolve: RESOLVE });
    parent = found;
  }
  return found;
}

function makeFile(parent: number, name: string): void {
  const flags = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW;
  closeSync(call('openat', name, c.openat(parent, name, flags, 0o644)));
}

function removeFile(root: number, target: string): void {
  const parts = target.split('/').filter((part) => part !== '');
  const name = parts.pop();
  const parent = open(root, parts.length === 0 ? '.' : parts.join('/'));
  if (name !== undefined && parent !== undefined) c.unlinkat(parent, name, 0);
}

try {
  main(JSON.parse(process.argv[2] ?? '') as GuestMountRequest);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
