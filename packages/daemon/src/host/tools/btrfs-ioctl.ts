import { close, constants } from 'node:fs';
import { promisify } from 'node:util';
import { AT_FDCWD, openat2 } from '../syscalls.ts';

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
