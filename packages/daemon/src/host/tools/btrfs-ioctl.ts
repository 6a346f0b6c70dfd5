import { close, constants } from 'node:fs';
import { promisify } from 'node:util';
import { AT_FDCWD, ioctl, openat2 } from '../syscalls.ts';

const closeFd = promisify(close);

// _IO(type 0x94, number, size) as <linux/btrfs.h> has them.
export const ioWrite = (number: number, size: number): number => (0x4000_0000 | (size << 16) | 0x9400 | number) >>> 0;
export const ioRead = (number: number, size: number): number => (0x8000_0000 | (size << 16) | 0x9400 | number) >>> 0;
export const ioBoth = (number: number, size: number): number => (0xc000_0000 | (size << 16) | 0x9400 | number) >>> 0;

/** Opens a folder for as long as `use` runs. */
export async function withFolder<T>(path: string, use: (fd: number) => Promise<T>): Promise<T> {
  const fd = await openat2(AT_FDCWD, path, { flags: constants.O_RDONLY | constants.O_DIRECTORY, resolve: 0 });
  try {
    return await use(fd);
  } finally {
    await closeFd(fd);
  }
}

const TREE_SEARCH_V2 = ioBoth(17, 112);
const INO_LOOKUP = ioBoth(18, 4096);
const SEARCH_HEADER = 112;
const SEARCH_ROOM = 64 * 1024;
const ITEM_HEADER = 32;
const LARGEST = 0xffff_ffff_ffff_ffffn;

/** Inode of a subvolume's root folder. */
export const SUBVOLUME_INODE = 256;

export interface TreeKey {
  readonly tree: bigint;
  readonly object: bigint;
  readonly type: number;
  /** The only offset wanted; default all. */
  readonly offset?: bigint;
}

/** Items of one object and one type, by offset. @throws ENOENT when the file system has no such tree. */
export async function searchTree(fd: number, key: TreeKey): Promise<{ offset: bigint; data: Buffer }[]> {
  const found: { offset: bigint; data: Buffer }[] = [];
  const last = key.offset ?? LARGEST;
  for (let first = key.offset ?? 0n; ; ) {
    const buffer = Buffer.alloc(SEARCH_HEADER + SEARCH_ROOM);
    const range = [key.tree, key.object, key.object, first, last, 0n, LARGEST];
    for (const [index, value] of range.entries()) buffer.writeBigUInt64LE(value, index * 8);
    buffer.writeUInt32LE(key.type, 56);
    buffer.writeUInt32LE(key.type, 60);
    buffer.writeUInt32LE(0xffff_ffff, 64);
    buffer.writeBigUInt64LE(BigInt(SEARCH_ROOM), 104);
    await ioctl(fd, TREE_SEARCH_V2, buffer);
    const count = buffer.readUInt32LE(64);
    let at = SEARCH_HEADER;
    for (let index = 0; index < count; index++) {
      const length = buffer.readUInt32LE(at + 28);
      found.push({
        offset: buffer.readBigUInt64LE(at + 16),
        data: buffer.subarray(at + ITEM_HEADER, at + ITEM_HEADER + length),
      });
      at += ITEM_HEADER + length;
    }
    const next = (found.at(-1)?.offset ?? last) + 1n;
    if (count === 0 || next > last) return found;
    first = next;
  }
}

/** Id of the subvolume that the descriptor lies in. */
export async function subvolumeId(fd: number): Promise<bigint> {
  const buffer = Buffer.alloc(4096);
  buffer.writeBigUInt64LE(BigInt(SUBVOLUME_INODE), 8);
  await ioctl(fd, INO_LOOKUP, buffer);
  return buffer.readBigUInt64LE(0);
}

/** Path of a folder inside subvolume `id`, with a slash at its end; empty for the subvolume's root. */
export async function folderPath(fd: number, id: bigint, inode: bigint): Promise<string> {
  const buffer = Buffer.alloc(4096);
  buffer.writeBigUInt64LE(id, 0);
  buffer.writeBigUInt64LE(inode, 8);
  await ioctl(fd, INO_LOOKUP, buffer);
  return buffer.toString('utf8', 16, buffer.indexOf(0, 16));
}
