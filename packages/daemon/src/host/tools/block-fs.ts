import { mkdir, mkdtemp, open, rmdir, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mountDevice } from '../loop.ts';
import { unmountAll } from '../mounts.ts';
import { run } from '../run.ts';
import { syncfs } from '../syscalls.ts';

/** File systems a volume on a block device may have. */
export type BlockFileSystem = 'ext4' | 'xfs' | 'btrfs';

export const BLOCK_FILE_SYSTEMS: readonly BlockFileSystem[] = ['btrfs', 'ext4', 'xfs'];

const HOUR = 3_600_000;

export function isBlockFileSystem(text: string): text is BlockFileSystem {
  return BLOCK_FILE_SYSTEMS.some((name) => name === text);
}

/** Command line that makes a file system. `zeroed`: the device reads as zeroes, so that nothing has to be written there. */
export function makeCommand(
  device: string,
  type: BlockFileSystem,
  options: { readonly zeroed: boolean },
): readonly string[] {
  if (type === 'xfs') return ['mkfs.xfs', '-q', '-K', '-f', device];
  if (type === 'btrfs') return ['mkfs.btrfs', '-q', '-K', '-f', device];
  const lazy = options.zeroed ? 1 : 0;
  return ['mkfs.ext4', '-q', '-F', '-E', `nodiscard,lazy_itable_init=1,lazy_journal_init=${lazy}`, device];
}

/** Command line that grows the file system to its device; xfs and btrfs must be mounted, at `path`. */
export function growCommand(device: string, type: BlockFileSystem, path: string | undefined): readonly string[] {
  if (type === 'ext4') return ['resize2fs', device];
  if (path === undefined) throw new Error(`${type} grows only while it is mounted`);
  return type === 'xfs' ? ['xfs_growfs', path] : ['btrfs', 'filesystem', 'resize', 'max', path];
}

/** Command line that gives an unmounted copy an identity of its own, so that it can be mounted beside the original. */
export function identityCommand(device: string, type: BlockFileSystem): readonly string[] | undefined {
  if (type === 'xfs') return ['xfs_admin', '-U', 'generate', device];
  if (type === 'btrfs') return ['btrfstune', '-f', '-m', device];
  return undefined; // the kernel does not tell ext4 apart by its UUID
}

/**
 * Mount options in force: `nouuid` lets xfs be mounted beside its original; an ext4 could say itself that the host is to
 * panic when it is broken.
 */
export function mountOptions(type: BlockFileSystem, options: string, readOnly = false): string[] {
  const asked = options
    .split(',')
    .map((option) => option.trim())
    .filter((option) => option !== '');
  const first = type === 'ext4' ? ['errors=remount-ro'] : [];
  return [...first, ...asked, ...(type === 'xfs' ? ['nouuid'] : []), ...(readOnly ? ['ro'] : [])];
}

export async function makeBlockFileSystem(
  device: string,
  type: BlockFileSystem,
  options: { readonly zeroed: boolean },
): Promise<void> {
  const [command = '', ...args] = makeCommand(device, type, options);
  await run(command, args, { timeout: HOUR });
}

/** The file system on the device, or undefined. */
export async function blockFileSystem(device: string): Promise<BlockFileSystem | undefined> {
  const { stdout } = await run('blkid', ['-p', '-o', 'value', '-s', 'TYPE', '--', device], { ok: [0, 2] });
  const type = stdout.trim();
  return isBlockFileSystem(type) ? type : undefined;
}

/** Bytes of a block device or a file. */
export async function contentSize(path: string): Promise<number> {
  const found = await stat(path);
  if (!found.isBlockDevice()) return found.size;
  const { stdout } = await run('blockdev', ['--getsize64', path]);
  return Number(stdout.trim());
}

/** Grows the file system to its device; `path`: where it is mounted, if it is. */
export async function growBlockFileSystem(
  device: string,
  type: BlockFileSystem,
  path: string | undefined,
): Promise<void> {
  const grow = async (mounted: string | undefined) => {
    const [command = '', ...args] = growCommand(device, type, mounted);
    await run(command, args, { timeout: HOUR });
  };
  if (path !== undefined) return grow(path);
  if (type !== 'ext4') return withMounted(device, type, grow);
  await checkFileSystem(device);
  return grow(undefined);
}

/** Shrinks an unmounted ext4 to `size` bytes. @throws CommandError when its content needs more. */
export async function shrinkExt4(device: string, size: number): Promise<void> {
  await checkFileSystem(device);
  await run('resize2fs', [device, `${Math.floor(size / 1024)}K`], { timeout: HOUR });
}

/** A resize of an unmounted ext4 wants a check before. */
async function checkFileSystem(device: string): Promise<void> {
  await run('e2fsck', ['-f', '-y', device], { ok: [0, 1], timeout: HOUR });
}

/** Gives an unmounted copy an identity of its own. Its log is replayed first, where one is left. */
export async function renewIdentity(device: string, type: BlockFileSystem): Promise<void> {
  const command = identityCommand(device, type);
  if (command === undefined) return;
  // A copy of a mounted xfs has a log, which only a mount replays; a btrfs beside its original cannot be mounted for that.
  if (type === 'xfs') await withMounted(device, type, () => Promise.resolve());
  else await run('btrfs', ['rescue', 'zero-log', device]);
  const [name = '', ...args] = command;
  await run(name, args, { timeout: HOUR });
}

/** Mounts the device aside while `use` runs. */
async function withMounted(device: string, type: BlockFileSystem, use: (path: string) => Promise<void>): Promise<void> {
  const path = await mkdtemp(join(tmpdir(), 'keelson-mount-'));
  try {
    await mountDevice(device, path, type, mountOptions(type, ''));
    try {
      await use(path);
    } finally {
      await unmountAll(path);
    }
  } finally {
    await rmdir(path);
  }
}

/** Mounts the device at `path`, which is made. */
export async function mountBlock(
  device: string,
  path: string,
  options: { readonly type: BlockFileSystem; readonly options: string; readonly readOnly?: boolean },
): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  await mountDevice(device, path, options.type, mountOptions(options.type, options.options, options.readOnly));
}

/** Writes everything of the file system at `path` back. */
export async function syncMounted(path: string): Promise<void> {
  await using folder = await open(path, 'r');
  await syncfs(folder.fd);
}

export interface CopyBlocksOptions {
  /** The target reads as zeroes: holes need not be written. */
  readonly zeroed: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** Content of one device or file into another that is at least as large. */
export async function copyBlocks(source: string, target: string, options: CopyBlocksOptions): Promise<void> {
  const conversion = options.zeroed ? 'conv=notrunc,sparse,fsync' : 'conv=notrunc,fsync';
  await run('dd', [`if=${source}`, `of=${target}`, 'bs=64K', conversion, 'status=none'], {
    timeout: 24 * HOUR,
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
}
