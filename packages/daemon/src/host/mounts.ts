import { close, constants } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { promisify } from 'node:util';
import { retry } from '../core/retry.ts';
import {
  AT_FDCWD,
  errnoOf,
  MNT_DETACH,
  MOUNT_ATTR_IDMAP,
  MOUNT_ATTR_RDONLY,
  mountCall,
  mountSetattr,
  moveMount,
  O_PATH,
  openat2Sync,
  openTreeClone,
  RESOLVE_NO_XDEV,
  UMOUNT_NOFOLLOW,
  umount2,
} from './syscalls.ts';

const closeFd = promisify(close);

/** One line of `/proc/self/mountinfo`. */
export interface MountEntry {
  readonly id: number;
  readonly parent: number;
  /** `major:minor`. */
  readonly device: string;
  /** Path inside the mounted file system that forms the mount's root. */
  readonly root: string;
  readonly target: string;
  readonly options: readonly string[];
  readonly type: string;
  readonly source: string;
  readonly superOptions: readonly string[];
}

/** Mounts of this process, oldest first. */
export async function readMounts(): Promise<MountEntry[]> {
  return parseMountInfo(await readFile('/proc/self/mountinfo', 'utf8'));
}

export function parseMountInfo(text: string): MountEntry[] {
  const entries: MountEntry[] = [];
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const [left = '', right = ''] = line.split(' - ', 2);
    const [id, parent, device, root, target, options] = left.split(' ');
    const [type, source, superOptions] = right.split(' ');
    if (target === undefined || type === undefined) continue;
    entries.push({
      id: Number(id),
      parent: Number(parent),
      device: device ?? '',
      root: unescapeOctal(root ?? '/'),
      target: unescapeOctal(target),
      options: (options ?? '').split(','),
      type,
      source: unescapeOctal(source ?? ''),
      superOptions: (superOptions ?? '').split(','),
    });
  }
  return entries;
}

function unescapeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}

/** Whether something is mounted exactly at `path` (which must not end in a slash). False when it does not exist. */
export function isMountPoint(path: string): boolean {
  const flags = O_PATH | constants.O_DIRECTORY;
  let parent: number;
  try {
    parent = openat2Sync(AT_FDCWD, dirname(path), { flags, resolve: 0 });
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return false;
    throw error;
  }
  try {
    const how = { flags: O_PATH | constants.O_NOFOLLOW, resolve: RESOLVE_NO_XDEV };
    close(openat2Sync(parent, basename(path), how), () => undefined);
    return false;
  } catch (error) {
    if (errnoOf(error) === 'EXDEV') return true;
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  } finally {
    close(parent, () => undefined);
  }
}

export interface CloneOptions {
  /** User namespace whose mapping the clone shows; undefined = the ids on disk. */
  readonly usernsFd?: number | undefined;
  readonly readOnly?: boolean;
  /** With the mounts below `source`. */
  readonly recursive?: boolean;
}

/** Mounts the tree at `source` again at `target` (a bind mount), id-mapped when asked. */
export async function cloneMount(source: string, target: string, options: CloneOptions = {}): Promise<void> {
  const tree = await openTreeClone(source, options.recursive);
  try {
    const set =
      (options.usernsFd === undefined ? 0 : MOUNT_ATTR_IDMAP) | (options.readOnly === true ? MOUNT_ATTR_RDONLY : 0);
    if (set !== 0) {
      await mountSetattr(tree, { set, ...(options.usernsFd === undefined ? {} : { usernsFd: options.usernsFd }) });
    }
    await moveMount(tree, target);
  } finally {
    await closeFd(tree);
  }
}

export interface OverlayOptions {
  /** Topmost first; at least one. */
  readonly lower: readonly string[];
  /** Both or neither; without them the overlay is read-only. */
  readonly upper?: string;
  readonly work?: string;
}

/** Longest option string mount(2) takes. */
const OVERLAY_DATA_LIMIT = 4000;

export function overlayData(options: OverlayOptions): string {
  const lower = options.lower.map((path) => path.replace(/([\\:,])/g, '\\$1')).join(':');
  const escape = (path: string) => path.replace(/([\\,])/g, '\\$1');
  const parts = [`lowerdir=${lower}`];
  if (options.upper !== undefined)
    parts.push(`upperdir=${escape(options.upper)}`, `workdir=${escape(options.work ?? '')}`);
  // Renaming a folder of the image must work as on any file system; hard link indexes would tie a layer to its place.
  parts.push('redirect_dir=on', 'index=off', 'metacopy=off', 'xino=auto');
  return parts.join(',');
}

export function fitsOverlay(options: OverlayOptions): boolean {
  return overlayData(options).length <= OVERLAY_DATA_LIMIT;
}

export async function mountOverlay(target: string, options: OverlayOptions): Promise<void> {
  await mountCall({ source: 'overlay', target, type: 'overlay', data: overlayData(options) });
}

/** How long a busy mount is waited for: a look at it by another process (a scan of the host's disks) passes soon. */
const BUSY = { attempts: 9, delay: 10, maxDelay: 1000, retryable: (error: unknown) => errnoOf(error) === 'EBUSY' };

/**
 * Removes every mount stacked at `path`. Idempotent; absent = no effect. `lazy` detaches busy mounts at once.
 * @throws SyscallError EBUSY when something keeps using it for some seconds and `lazy` is not set.
 */
export async function unmountAll(path: string, options: { readonly lazy?: boolean } = {}): Promise<void> {
  const flags = UMOUNT_NOFOLLOW | (options.lazy === true ? MNT_DETACH : 0);
  while (isMountPoint(path)) {
    try {
      await retry(() => umount2(path, flags), BUSY);
    } catch (error) {
      if (errnoOf(error) === 'EINVAL' || errnoOf(error) === 'ENOENT') return; // another caller was faster
      throw error;
    }
  }
}

/** Detaches every mount at or below `path`, deepest first. For clean-up after a crash. */
export async function unmountTree(path: string): Promise<void> {
  const below = (await readMounts()).filter((entry) => entry.target === path || entry.target.startsWith(`${path}/`));
  for (const entry of below.reverse()) {
    try {
      await umount2(entry.target, MNT_DETACH | UMOUNT_NOFOLLOW);
    } catch (error) {
      if (errnoOf(error) !== 'EINVAL' && errnoOf(error) !== 'ENOENT') throw error;
    }
  }
}
