import { open } from 'node:fs/promises';
import type { Readable, Writable } from 'node:stream';
import { errors } from '../../core/errors.ts';
import { eachLine, runStream } from '../run-stream.ts';

const SUPERBLOCK = 96;
const BYTES_USED_OFFSET = 40;
const MAX_LINE = 64 * 1024;
/** Address space of unsquashfs: its caches take half a gigabyte. */
const MEMORY_LIMIT = 4 * 1024 ** 3;

/** @throws bad-request when the file is shorter than its own header says. */
export async function checkSquashfsLength(path: string): Promise<void> {
  await using file = await open(path, 'r');
  const head = Buffer.alloc(SUPERBLOCK);
  const { bytesRead } = await file.read(head, 0, SUPERBLOCK, 0);
  const { size } = await file.stat();
  if (bytesRead < SUPERBLOCK || head.readBigUInt64LE(BYTES_USED_OFFSET) > BigInt(size))
    throw errors.badRequest('The squashfs image is truncated');
}

function reading(args: readonly string[]): string[] {
  return [`--as=${MEMORY_LIMIT}`, '--core=0', 'unsquashfs', '-no-progress', ...args];
}

/** Lists every entry as a line for `parseSquashfsLine`, without reading any file's data. */
export async function listSquashfs(path: string, onLine: (line: string) => void, signal?: AbortSignal): Promise<void> {
  await runStream('prlimit', reading(['-lln', '-UTC', path]), {
    stdout: (output) => eachLine(output, MAX_LINE, onLine),
    ...(signal === undefined ? {} : { signal }),
  });
}

/** Content of one file. */
export async function catSquashfs(path: string, name: string, sink: Writable): Promise<void> {
  await runStream('prlimit', reading(['-no-wildcards', '-cat', path, name]), { stdout: sink });
}

/** Extracts all, or only what is below `member`; owners, modes, attributes, devices and holes are kept. */
export async function extractSquashfs(
  path: string,
  target: string,
  options: { readonly member?: string; readonly signal?: AbortSignal } = {},
): Promise<void> {
  const member = options.member === undefined ? [] : [options.member];
  const args = reading(['-quiet', '-force', '-strict-errors', '-no-wildcards', '-dest', target, path, ...member]);
  await runStream('prlimit', args, options.signal === undefined ? {} : { signal: options.signal });
}

/** Makes a squashfs of a tar stream; zstd, as our own images use. */
export async function squashfsFromTar(source: Readable, path: string, signal?: AbortSignal): Promise<void> {
  const args = ['-', path, '-tar', '-no-progress', '-quiet', '-comp', 'zstd', '-noappend'];
  await runStream('mksquashfs', args, { stdin: source, ...(signal === undefined ? {} : { signal }) });
}
