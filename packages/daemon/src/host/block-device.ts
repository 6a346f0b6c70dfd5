import { readFile, realpath, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { readMounts } from './mounts.ts';
import { mountOf } from './project-quota.ts';

/**
 * The whole disk that holds the file or folder at `path`, as `major:minor`; of a partition its disk, which is what
 * cgroups limit. Undefined when no single block device does (a network or memory file system, a path that is gone).
 */
export async function blockDeviceOf(path: string): Promise<string | undefined> {
  const real = await realpath(path).catch(() => undefined);
  if (real === undefined) return undefined;
  const found = await stat(real);
  if (found.isBlockDevice()) return wholeDisk(numbers(found.rdev));
  const own = numbers(found.dev);
  if (!own.startsWith('0:')) return wholeDisk(own);
  // btrfs and others show a number of their own: the mount names the device.
  const source = mountOf(real, await readMounts())?.source ?? '';
  const device = source.startsWith('/') ? await stat(source).catch(() => undefined) : undefined;
  return device?.isBlockDevice() === true ? wholeDisk(numbers(device.rdev)) : undefined;
}

async function wholeDisk(device: string): Promise<string> {
  const folder = await realpath(join('/sys/dev/block', device)).catch(() => undefined);
  if (folder === undefined) return device;
  const partition = await stat(join(folder, 'partition')).catch(() => undefined);
  return partition === undefined ? device : (await readFile(join(dirname(folder), 'dev'), 'utf8')).trim();
}

/** Device numbers as Linux packs them (glibc's makedev), as `major:minor`. */
export function numbers(device: number): string {
  const wide = BigInt(device);
  const major = ((wide >> 8n) & 0xfffn) | ((wide >> 32n) & 0xfffff000n);
  const minor = (wide & 0xffn) | ((wide >> 12n) & 0xffffff00n);
  return `${major}:${minor}`;
}
