import { readFile, realpath, stat, statfs } from 'node:fs/promises';
import { sep } from 'node:path';
import { parseSize } from '@keelson/api';
import { errors } from '../../../core/errors.ts';
import { pathExists } from '../../../host/files.ts';
import type { PoolSpec } from '../contract.ts';

export type BtrfsSource =
  /** `own`: the daemon made the file, and removes it with the pool. */
  | { readonly kind: 'loop'; readonly file: string; readonly own: boolean }
  | { readonly kind: 'device'; readonly device: string }
  | { readonly kind: 'path'; readonly path: string };

const GIB = 1024 ** 3;
const BTRFS_MAGIC = 0x9123683e;
/** mkfs.btrfs refuses less. */
const SMALLEST = 114_294_784;
const DEVICE_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Where the pool's content is, from its stored config. */
export async function sourceOf(spec: PoolSpec): Promise<BtrfsSource> {
  const source = spec.config['source'] ?? '';
  if (source === '' || source === spec.loopFile) return { kind: 'loop', file: spec.loopFile, own: true };
  if (DEVICE_ID.test(source)) return { kind: 'device', device: `/dev/disk/by-uuid/${source}` };
  const found = await stat(source).catch(() => undefined);
  if (found?.isBlockDevice() === true) return { kind: 'device', device: source };
  if (found?.isFile() === true) return { kind: 'loop', file: source, own: false };
  return { kind: 'path', path: source };
}

/** Size of a new loop file: what the user wants, else a fifth of the free space between 5 and 30 GiB. @throws bad-request. */
export async function loopSize(spec: PoolSpec, folder: string): Promise<number> {
  const asked = spec.config['size'] ?? '';
  if (asked === '') {
    const { bsize, bavail } = await statfs(folder);
    const fifth = Math.floor((bsize * bavail) / 5 / GIB) * GIB;
    return Math.min(Math.max(fifth, 5 * GIB), 30 * GIB);
  }
  const size = sizeIn(asked);
  if (size < SMALLEST)
    throw errors.badRequest(
      `Invalid value for option "size": "${asked}" is less than the ${SMALLEST} bytes btrfs needs`,
    );
  return size;
}

/** @throws bad-request naming the key. */
export function sizeIn(text: string): number {
  const parsed = parseSize(text);
  if (!parsed.ok) throw errors.badRequest(`Invalid value for option "size": ${parsed.message}`);
  return parsed.value;
}

/** A folder the user brings: an empty subvolume, or a name on btrfs that does not exist yet. @throws bad-request. */
export async function checkPath(path: string, spec: PoolSpec): Promise<void> {
  if (!path.startsWith('/')) throw errors.badRequest(`Source path '${path}' must be absolute`);
  const there = await pathExists(path);
  const base = there ? path : path.slice(0, path.lastIndexOf('/')) || '/';
  if (!(await pathExists(base))) throw errors.badRequest(`Source path '${path}' doesn't exist`);
  if ((await statfs(base)).type !== BTRFS_MAGIC)
    throw errors.badRequest('Provided path does not reside on a btrfs filesystem');
  if (spec.path.startsWith((await realpath(base)) + sep))
    throw errors.badRequest(`Source path '${path}' cannot hold a storage pool`);
}

/** @throws bad-request when something on the host uses the device. */
export async function checkDevice(device: string): Promise<void> {
  const real = await realpath(device);
  const mounts = await readFile('/proc/self/mounts', 'utf8');
  const swaps = await readFile('/proc/swaps', 'utf8').catch(() => '');
  const used = [mounts, swaps].some((text) => text.split('\n').some((line) => line.split(/\s/)[0] === real));
  if (used) throw errors.badRequest(`Block device "${device}" is in use`);
}
