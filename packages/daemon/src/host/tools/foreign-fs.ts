import { open } from 'node:fs/promises';
import { errors } from '../../core/errors.ts';
import { run } from '../run.ts';
import type { BlockFileSystem } from './block-fs.ts';

const HOUR = 3_600_000;

// Places in the superblock of ext4, which begins at 1024, and in that of btrfs.
const EXT4 = {
  start: 1024,
  length: 1024,
  incompatible: 0x60,
  journal: 0xe4,
  options: 0x200,
  optionsLength: 64,
} as const;
/** The device is a journal, or another one holds it. */
const JOURNAL_DEVICE = 0x8;
const BTRFS = { start: 65_536, length: 4096, devices: 0x88 } as const;

/**
 * Looks at an unmounted file system that somebody else made: one that would make this host use another device, or mount
 * with options of its own, is refused; ext4 is checked and its journal replayed.
 * @throws bad-request, CommandError when it is broken.
 */
export async function checkForeign(device: string, type: BlockFileSystem): Promise<void> {
  if (type === 'ext4') await checkExt4(device);
  if (type === 'btrfs') await checkBtrfs(device);
}

async function checkExt4(device: string): Promise<void> {
  const found = await bytesOf(device, EXT4);
  const elsewhere = (found.readUInt32LE(EXT4.incompatible) & JOURNAL_DEVICE) !== 0;
  if (elsewhere || found.readUInt32LE(EXT4.journal) !== 0)
    throw errors.badRequest('The file system wants to keep its journal on another device');
  if (found.subarray(EXT4.options, EXT4.options + EXT4.optionsLength).some((byte) => byte !== 0))
    throw errors.badRequest('The file system brings mount options of its own');
  // 1: something was mended.
  await run('e2fsck', ['-f', '-p', device], { ok: [0, 1], timeout: HOUR });
}

async function checkBtrfs(device: string): Promise<void> {
  const found = await bytesOf(device, BTRFS);
  if (found.readBigUInt64LE(BTRFS.devices) !== 1n)
    throw errors.badRequest('The file system wants to have other devices too');
}

async function bytesOf(device: string, { start, length }: { readonly start: number; readonly length: number }) {
  await using file = await open(device, 'r');
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, start);
  if (bytesRead < length) throw errors.badRequest('The file system is cut off');
  return buffer;
}
