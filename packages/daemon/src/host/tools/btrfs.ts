import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { run } from '../run.ts';
import { errnoOf, ioctl } from '../syscalls.ts';
import { ioBoth, ioRead, ioWrite, searchTree, SUBVOLUME_INODE, subvolumeId, withFolder } from './btrfs-ioctl.ts';
import { descendants } from './btrfs-tree.ts';

const SYNC = 0x9408;
const SUBVOL_CREATE = ioWrite(14, 4096);
const QUOTA_CTL = ioBoth(40, 16);
const QGROUP_LIMIT = ioRead(43, 48);

const QUOTA_TREE = 8n;
const QGROUP_INFO_KEY = 242;
const QGROUP_LIMIT_KEY = 244;
const LIMIT_MAX_RFER = 1n;
const UNLIMITED = 0xffff_ffff_ffff_ffffn;

function nameArguments(name: string, offset: number): Buffer {
  const buffer = Buffer.alloc(4096);
  buffer.write(name, offset);
  return buffer;
}

export async function createSubvolume(path: string): Promise<void> {
  await withFolder(dirname(path), (fd) => ioctl(fd, SUBVOL_CREATE, nameArguments(basename(path), 8)));
}

/** Whether `path` is the root of a subvolume; it must lie on btrfs. */
export async function isSubvolume(path: string): Promise<boolean> {
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    return (await handle.stat()).ino === SUBVOLUME_INODE;
  } finally {
    await handle.close();
  }
}

/** Value of one item of the quota tree, or undefined (also where quotas are off). */
async function quotaItem(fd: number, type: number, id: bigint): Promise<Buffer | undefined> {
  try {
    return (await searchTree(fd, { tree: QUOTA_TREE, object: 0n, type, offset: id }))[0]?.data;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** Bytes the subvolume and those inside refer to; undefined where the file system does not count them. */
export function referencedBytes(path: string): Promise<number | undefined> {
  return withFolder(path, async (fd) => {
    const id = await subvolumeId(fd);
    let total: number | undefined;
    for (const one of [id, ...(await descendants(fd, id))]) {
      const item = await quotaItem(fd, QGROUP_INFO_KEY, one);
      if (item !== undefined) total = (total ?? 0) + Number(item.readBigUInt64LE(8));
    }
    return total;
  });
}

/** Limit in bytes, or undefined. */
export function referencedLimit(path: string): Promise<number | undefined> {
  return withFolder(path, async (fd) => {
    const item = await quotaItem(fd, QGROUP_LIMIT_KEY, await subvolumeId(fd));
    if (item === undefined || (item.readBigUInt64LE(0) & LIMIT_MAX_RFER) === 0n) return undefined;
    const limit = item.readBigUInt64LE(8);
    return limit === UNLIMITED || limit === 0n ? undefined : Number(limit);
  });
}

/** Counts and limits from now on; a file system that does already stays as it is. */
export async function enableQuotas(path: string): Promise<void> {
  await withFolder(path, async (fd) => {
    const command = Buffer.alloc(16);
    command.writeBigUInt64LE(1n, 0);
    await ioctl(fd, QUOTA_CTL, command);
  });
  await run('btrfs', ['quota', 'rescan', '-w', '--', path], { timeout: 600_000, ok: [0, 1] });
}

export async function limitReferenced(path: string, bytes: number | undefined): Promise<void> {
  await withFolder(path, async (fd) => {
    const buffer = Buffer.alloc(48);
    buffer.writeBigUInt64LE(await subvolumeId(fd), 0);
    buffer.writeBigUInt64LE(LIMIT_MAX_RFER, 8);
    buffer.writeBigUInt64LE(bytes === undefined ? UNLIMITED : BigInt(bytes), 16);
    await ioctl(fd, QGROUP_LIMIT, buffer);
  });
}

/** Writes everything back, so that counters are right. */
export async function syncFileSystem(path: string): Promise<void> {
  await withFolder(path, (fd) => ioctl(fd, SYNC, null));
}

/** @throws CommandError with mkfs' own words. */
export async function makeFileSystem(target: string, label: string): Promise<void> {
  await run('mkfs.btrfs', ['--quiet', '--label', label.slice(0, 255), '--', target], { timeout: 600_000 });
}

/** Grows a mounted file system to its device. */
export async function growFileSystem(path: string): Promise<void> {
  await run('btrfs', ['filesystem', 'resize', 'max', path]);
}

/** Version of the tools; undefined when they are not there. */
export async function btrfsVersion(): Promise<string | undefined> {
  try {
    const { stdout } = await run('btrfs', ['--version']);
    return /v(\S+)/.exec(stdout)?.[1];
  } catch {
    return undefined;
  }
}
