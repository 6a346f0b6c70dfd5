import { constants } from 'node:fs';
import { type FileHandle, open, readdir } from 'node:fs/promises';
import { type MountEntry, readMounts } from './mounts.ts';
import { errnoOf, ioctl, quotactlFd } from './syscalls.ts';

// <linux/fs.h>, <linux/quota.h>
const FSGETXATTR = 0x801c581f;
const FSSETXATTR = 0x401c5820;
const XATTR_SIZE = 28;
const PROJECT_OFFSET = 12;
const INHERIT = 0x200;
const PROJECT_QUOTA = 2;
const command = (code: number): number => ((code << 8) | PROJECT_QUOTA) >>> 0;
const GET_QUOTA = command(0x800007);
const SET_QUOTA = command(0x800008);
const RECORD_SIZE = 72;
const BLOCK = 1024;
const VALID_OFFSET = 64;
const VALID_BLOCK_LIMITS = 1;
const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const FILE = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** What a file system counts for one project. */
export interface ProjectUse {
  /** Bytes. */
  readonly used: number;
  /** Bytes; undefined without a limit. */
  readonly limit: number | undefined;
  readonly files: number;
}

const TYPES = ['ext4', 'xfs', 'f2fs'];
const OPTIONS = ['prjquota', 'pquota'];

/** Whether a mount's file system counts and limits by project. */
export function limitsProjects(mount: MountEntry): boolean {
  return TYPES.includes(mount.type) && mount.superOptions.some((option) => OPTIONS.includes(option));
}

/** The mount that `path` lies in: of several on one folder the last one covers the others. */
export function mountOf(path: string, mounts: readonly MountEntry[]): MountEntry | undefined {
  let found: MountEntry | undefined;
  for (const mount of mounts) {
    const inside = path === mount.target || path.startsWith(mount.target === '/' ? '/' : `${mount.target}/`);
    if (inside && mount.target.length >= (found?.target.length ?? 0)) found = mount;
  }
  return found;
}

/** Whether folders at `path` can have projects that the kernel limits. */
export async function hasProjectQuota(path: string): Promise<boolean> {
  const mount = mountOf(path, await readMounts());
  if (mount === undefined || !limitsProjects(mount)) return false;
  try {
    await projectUse(path, 0);
    return true;
  } catch {
    return false; // accounting is switched off, or the kernel is older than 5.14
  }
}

/** Project of a folder; 0 when it has none. */
export async function projectOf(path: string): Promise<number> {
  await using folder = await open(path, FOLDER);
  return (await readAttributes(folder.fd)).readUInt32LE(PROJECT_OFFSET);
}

/**
 * Puts a tree into a project; what is made in it later belongs to it too. Links are not followed and other mounts are
 * left out. Links and devices inside keep the project they have: the kernel has no call for them, and they hold no data.
 */
export async function setProject(path: string, project: number): Promise<void> {
  await using folder = await open(path, FOLDER);
  await labelFolder(folder, project);
}

export async function projectUse(path: string, project: number): Promise<ProjectUse> {
  await using folder = await open(path, FOLDER);
  const record = Buffer.alloc(RECORD_SIZE);
  try {
    await quotactlFd(folder.fd, GET_QUOTA, project, record);
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
  }
  return decodeUse(record);
}

/** Bytes; undefined removes the limit. */
export async function limitProject(path: string, project: number, bytes: number | undefined): Promise<void> {
  await using folder = await open(path, FOLDER);
  await quotactlFd(folder.fd, SET_QUOTA, project, encodeLimit(bytes));
}

/** `struct if_dqblk` of <linux/quota.h> with only block limits valid; a limit is rounded up to whole KiB. */
export function encodeLimit(bytes: number | undefined): Buffer {
  const record = Buffer.alloc(RECORD_SIZE);
  record.writeBigUInt64LE(BigInt(Math.ceil((bytes ?? 0) / BLOCK)), 0);
  record.writeUInt32LE(VALID_BLOCK_LIMITS, VALID_OFFSET);
  return record;
}

export function decodeUse(record: Buffer): ProjectUse {
  const limit = Number(record.readBigUInt64LE(0)) * BLOCK;
  return {
    used: Number(record.readBigUInt64LE(16)),
    limit: limit === 0 ? undefined : limit,
    files: Number(record.readBigUInt64LE(40)),
  };
}

async function readAttributes(fd: number): Promise<Buffer> {
  const attributes = Buffer.alloc(XATTR_SIZE);
  await ioctl(fd, FSGETXATTR, attributes);
  return attributes;
}

async function label(fd: number, project: number, inherit: boolean): Promise<void> {
  const attributes = await readAttributes(fd);
  const flags = attributes.readUInt32LE(0);
  const wanted = inherit ? (flags | INHERIT) >>> 0 : flags;
  if (attributes.readUInt32LE(PROJECT_OFFSET) === project && flags === wanted) return;
  attributes.writeUInt32LE(wanted, 0);
  attributes.writeUInt32LE(project, PROJECT_OFFSET);
  await ioctl(fd, FSSETXATTR, attributes);
}

/** The folder first: what appears in it meanwhile inherits. Names are resolved in the open folder, one step each. */
async function labelFolder(folder: FileHandle, project: number): Promise<void> {
  await label(folder.fd, project, true);
  const path = `/proc/self/fd/${folder.fd}`;
  for (const entry of await readdir(path, { withFileTypes: true, encoding: 'buffer' })) {
    if (!entry.isDirectory() && !entry.isFile()) continue;
    const inside = Buffer.concat([Buffer.from(`${path}/`), entry.name]);
    await using child = await openIfThere(inside, entry.isDirectory() ? FOLDER : FILE);
    if (child === undefined) continue;
    if (entry.isDirectory()) await labelFolder(child, project);
    else await label(child.fd, project, false);
  }
}

/** Undefined for what a guest removed or replaced meanwhile. */
async function openIfThere(path: Buffer, flags: number): Promise<FileHandle | undefined> {
  try {
    return await open(path, flags);
  } catch (error) {
    if (['ENOENT', 'ELOOP', 'ENOTDIR', 'ENXIO'].includes(errnoOf(error) ?? '')) return undefined;
    throw error;
  }
}
