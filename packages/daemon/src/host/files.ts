import { mkdir, open, rename, stat, truncate } from 'node:fs/promises';
import { copyToDevice } from './device-copy.ts';
import { run, type RunOptions } from './run.ts';
import { runStream, type RunStreamOptions } from './run-stream.ts';
import { errnoOf } from './syscalls.ts';
import { contentSize } from './tools/block-fs.ts';

export async function pathExists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return false;
    throw error;
  }
}

/** Replaces the file in one step and waits until the disk has it. */
export async function writeFileAtomic(path: string, content: string, mode = 0o600): Promise<void> {
  const temporary = `${path}.new`;
  const handle = await open(temporary, 'w', mode);
  try {
    await handle.writeFile(content);
    await handle.datasync();
  } finally {
    await handle.close();
  }
  await rename(temporary, path);
}

/** Which folder of which file system is at `path`; undefined when there is none. */
export async function folderIdentity(path: string): Promise<string | undefined> {
  const found = await stat(path).catch(() => undefined);
  return found === undefined ? undefined : `${found.dev}:${found.ino}`;
}

/** Removes the tree at `path` without following links or entering other mounts. Absent = no effect. */
export async function removeTree(path: string, signal?: AbortSignal): Promise<void> {
  await run('rm', ['-rf', '--one-file-system', '--', path], {
    timeout: 3_600_000,
    ...(signal === undefined ? {} : { signal }),
  });
}

export interface CopyTreeOptions {
  /** `always` fails where the file system cannot share blocks. */
  readonly reflink?: 'auto' | 'always' | 'never';
  /**
   * A guest may change the source meanwhile. Files that vanish are left out, and no folder it swaps for a link is ever
   * followed; blocks are not shared.
   */
  readonly live?: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Told some times a second how many bytes were read. */
  readonly onBytes?: ((bytes: number) => void) | undefined;
  /** `rsync.bwlimit` as rsync takes it; empty or 0: as fast as it goes. */
  readonly bandwidth?: string | undefined;
}

const DAY = 24 * 3_600_000;

/**
 * Content of folder `source` into the new or empty folder `target` with owners, modes, times, links, hard links, ACLs,
 * extended attributes, device nodes and holes. Links are copied, never followed; other mounts are left out.
 */
export async function copyTree(source: string, target: string, options: CopyTreeOptions = {}): Promise<void> {
  await mkdir(target, { recursive: true });
  const limits = limitsOf(options);
  if (options.live === true) {
    await copyLive(source, target, limits);
    return;
  }
  if (isLimit(options.bandwidth)) {
    await mirrorTree(source, target, options.signal, options);
    return;
  }
  const args = ['-a', `--reflink=${options.reflink ?? 'auto'}`, '--sparse=auto', '-T', '-x'];
  await run('cp', [...args, '--', source, target], limits);
}

/** GNU tar walks by descriptors (openat, no links followed), which cp and rsync do not. */
async function copyLive(source: string, target: string, limits: RunStreamOptions): Promise<void> {
  const attributes = ['--numeric-owner', '--acls', '--xattrs', '--xattrs-include=*'];
  const pack = ['--create', '--file=-', '--format=posix', '--sparse', '--one-file-system', ...attributes];
  const unpack = [
    '--extract',
    '--file=-',
    '--same-owner',
    '--same-permissions',
    '--delay-directory-restore',
    ...attributes,
  ];
  await runStream('tar', [...pack, '--warning=no-file-ignored', '.'], {
    ...limits,
    cwd: source,
    ok: [0, 1], // 1: a file changed or vanished while it was read
    stdout: async (stdin) => {
      const { onRead: _, ...others } = limits;
      await runStream('tar', unpack, { ...others, cwd: target, stdin });
    },
  });
}

/** Makes folder `target` hold what `source` holds, copying only what differs. Nobody may change the source meanwhile. */
export async function mirrorTree(
  source: string,
  target: string,
  signal?: AbortSignal,
  { onBytes, bandwidth }: Pick<CopyTreeOptions, 'onBytes' | 'bandwidth'> = {},
): Promise<void> {
  // The size and the whole second of a file are not enough to call it unchanged.
  const args = ['-aHAXS', '--modify-window=-1', '--numeric-ids', '--devices', '--delete', '--one-file-system'];
  const limit = isLimit(bandwidth) ? [`--bwlimit=${bandwidth}`] : [];
  await run('rsync', [...args, ...limit, '--', `${source}/`, target], limitsOf({ signal, onBytes }));
}

/** As `mirrorTree`, but contents are compared also where size and time are the same. */
export async function mirrorTreeExactly(source: string, target: string, signal?: AbortSignal): Promise<void> {
  const args = ['-aHAXS', '--checksum', '--numeric-ids', '--devices', '--delete', '--one-file-system'];
  await run('rsync', [...args, '--', `${source}/`, target], {
    timeout: DAY,
    ...(signal === undefined ? {} : { signal }),
  });
}

/** One regular file with its holes, sharing blocks where the file system can; either side may be a block device. */
export async function copyFile(
  source: string,
  target: string,
  options: Pick<CopyTreeOptions, 'signal' | 'onBytes'> = {},
): Promise<void> {
  if ((await isBlockDevice(source)) || (await isBlockDevice(target))) return copyDevice(source, target, options);
  await run('cp', ['-a', '--reflink=auto', '--sparse=always', '-T', '--', source, target], limitsOf(options));
}

async function isBlockDevice(path: string): Promise<boolean> {
  const found = await stat(path).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  });
  return found?.isBlockDevice() === true;
}

/** A device keeps its size; a file becomes what the device holds, with holes for zeroes. */
async function copyDevice(
  source: string,
  target: string,
  options: Pick<CopyTreeOptions, 'signal' | 'onBytes'>,
): Promise<void> {
  if (await isBlockDevice(target)) return copyToDevice(source, target, options);
  const args = [`if=${source}`, `of=${target}`, 'bs=64K', 'conv=sparse,fsync', 'status=none'];
  await run('dd', args, limitsOf(options));
  await truncate(target, await contentSize(source));
}

function isLimit(bandwidth: string | undefined): boolean {
  return bandwidth !== undefined && bandwidth !== '' && bandwidth !== '0';
}

function limitsOf({ signal, onBytes }: Pick<CopyTreeOptions, 'signal' | 'onBytes'>): RunOptions {
  return {
    timeout: DAY,
    ...(signal === undefined ? {} : { signal }),
    ...(onBytes === undefined ? {} : { onRead: onBytes }),
  };
}
