import { close, constants } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { promisify } from 'node:util';
import { AT_FDCWD, errnoOf, ioctl, openat2 } from '../syscalls.ts';

const closeFd = promisify(close);

/** `BLKZNAME` of <sys/fs/zfs.h>: the dataset behind a device. */
const NAME = 0x8100_127d;
const LONGEST = 256;

/** Link that udev makes for a zvol. */
export function zvolLink(dataset: string): string {
  return `/dev/zvol/${dataset.replaceAll(' ', '+')}`;
}

/**
 * Device of a zvol, undefined while there is none. The kernel is asked: udev's links come late, may still stand for what
 * had the name before, and are not there at all without udev.
 */
export async function findZvol(dataset: string): Promise<string | undefined> {
  const link = zvolLink(dataset);
  if ((await zvolName(link)) === dataset) return link;
  for (const name of await readdir('/sys/block'))
    if (/^zd\d+$/.test(name) && (await zvolName(`/dev/${name}`)) === dataset) return `/dev/${name}`;
  return undefined;
}

/** Dataset behind a device; undefined when it is no zvol, or gone. */
async function zvolName(device: string): Promise<string | undefined> {
  try {
    const fd = await openat2(AT_FDCWD, device, { flags: constants.O_RDONLY | constants.O_NONBLOCK, resolve: 0 });
    try {
      const name = Buffer.alloc(LONGEST);
      await ioctl(fd, NAME, name);
      return name.toString('utf8', 0, name.indexOf(0));
    } finally {
      await closeFd(fd);
    }
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return undefined;
  }
}
