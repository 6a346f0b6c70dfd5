import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { run } from '../run.ts';
import { errnoOf, ioctl } from '../syscalls.ts';
import { ioBoth, ioRead, ioWrite, withFolder } from './btrfs-ioctl.ts';

const SYNC = 0x9408;
const SUBVOL_CREATE = ioWrite(14, 4096);
const SNAP_DESTROY = ioWrite(15, 4096);
const TREE_SEARCH_V2 = ioBoth(17, 112);
const INO_LOOKUP = ioBoth(18, 4096);
const SNAP_CREATE_V2 = ioWrite(23, 4096);
const SUBVOL_GETFLAGS = ioRead(25, 8);
const SUBVOL_SETFLAGS = ioWrite(26, 8);
const QUOTA_CTL = ioBoth(40, 16);
const QGROUP_LIMIT = ioRead(43, 48);

const SUBVOLUME_INODE = 256;
const SUBVOL_RDONLY = 2n;
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

/** A subvolume that shares all of `source`; made in one step. */
export async function snapshotSubvolume(
  source: string,
  target: string,
  options: { readonly readOnly: boolean },
): Promise<void> {
  await withFolder(source, (from) =>
    withFolder(dirname(target), (fd) => {
      const buffer = nameArguments(basename(target), 56);
      buffer.writeBigInt64LE(BigInt(from), 0);
      if (options.readOnly) buffer.writeBigUInt64LE(SUBVOL_RDONLY, 16);
      return ioctl(fd, SNAP_CREATE_V2, buffer);
    }),
  );
}

export async function setReadOnly(path: string, readOnly: boolean): Promise<void> {
  await withFolder(path, async (fd) => {
    const flags = Buffer.alloc(8);
    await ioctl(fd, SUBVOL_GETFLAGS, flags);
    const current = flags.readBigUInt64LE(0);
    const wanted = readOnly ? current | SUBVOL_RDONLY : current & ~SUBVOL_RDONLY;
    if (wanted === current) return;
    flags.writeBigUInt64LE(wanted, 0);
    await ioctl(fd, SUBVOL_SETFLAGS, flags);
  });
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

/** With the subvolumes a guest made inside, deepest first. */
export async function deleteSubvolume(path: string): Promise<void> {
  try {
    await destroy(path);
  } catch (error) {
    if (errnoOf(error) !== 'ENOTEMPTY') throw error;
    for (const nested of await nestedSubvolumes(path)) await destroy(nested);
    await destroy(path);
  }
}

async function destroy(path: string): Promise<void> {
  await withFolder(dirname(path), (fd) => ioctl(fd, SNAP_DESTROY, nameArguments(basename(path), 8)));
}

/** Subvolumes at any depth below `path`, deepest first. */
async function nestedSubvolumes(path: string): Promise<string[]> {
  const { stdout: inside } = await run('btrfs', ['subvolume', 'list', '-o', '--', path]);
  const { stdout: shown } = await run('btrfs', ['subvolume', 'show', '--', path]);
  const own = shown.split('\n')[0]?.trim() ?? '';
  const children = inside
    .split('\n')
    .map((line) => / path (.*)$/.exec(line)?.[1])
    .filter((found): found is string => found?.startsWith(`${own}/`) === true)
    .map((found) => join(path, found.slice(own.length + 1)));
  const deeper = await Promise.all(children.map(nestedSubvolumes));
  return children.flatMap((child, index) => [...(deeper[index] ?? []), child]);
}

async function subvolumeId(fd: number): Promise<bigint> {
  const buffer = Buffer.alloc(4096);
  buffer.writeBigUInt64LE(BigInt(SUBVOLUME_INODE), 8);
  await ioctl(fd, INO_LOOKUP, buffer);
  return buffer.readBigUInt64LE(0);
}

/** Value of one item of the quota tree, or undefined (also where quotas are off). */
async function quotaItem(fd: number, type: number, id: bigint): Promise<Buffer | undefined> {
  const buffer = Buffer.alloc(112 + 4096);
  const keys = [QUOTA_TREE, 0n, 0n, id, id, 0n, UNLIMITED];
  for (const [index, value] of keys.entries()) buffer.writeBigUInt64LE(value, index * 8);
  buffer.writeUInt32LE(type, 56);
  buffer.writeUInt32LE(type, 60);
  buffer.writeUInt32LE(1, 64);
  buffer.writeBigUInt64LE(4096n, 104);
  try {
    await ioctl(fd, TREE_SEARCH_V2, buffer);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
  return buffer.readUInt32LE(64) === 0 ? undefined : buffer.subarray(112 + 32);
}

/** Bytes the subvolume refers to; undefined where the file system does not count them. */
export function referencedBytes(path: string): Promise<number | undefined> {
  return withFolder(path, async (fd) => {
    const item = await quotaItem(fd, QGROUP_INFO_KEY, await subvolumeId(fd));
    return item === undefined ? undefined : Number(item.readBigUInt64LE(8));
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
