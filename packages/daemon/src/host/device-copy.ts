import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { errors } from '../core/errors.ts';
import { contentSize } from './tools/block-fs.ts';

/** Bytes read at once. */
const CHUNK = 1024 * 1024;
/** Bytes that are written or left as they are. */
const BLOCK = 64 * 1024;
/** Milliseconds between two tellings. */
const TELL = 100;

/**
 * Content of a file or device over a device that is at least as large. Blocks that are the same are not written: what
 * is zero takes no space in a thin device that is new, and what did not change is shared with the device's snapshots.
 * `onBytes` is told some times a second how much is done. @throws bad-request when the device is too small.
 */
export async function copyToDevice(
  source: string,
  device: string,
  {
    signal,
    onBytes,
  }: { readonly signal?: AbortSignal | undefined; readonly onBytes?: ((bytes: number) => void) | undefined },
): Promise<void> {
  const [size, room] = [await contentSize(source), await contentSize(device)];
  if (size > room) throw errors.badRequest(`The content has ${size} bytes, more than the ${room} of the target`);
  await using from = await open(source, constants.O_RDONLY);
  await using to = await open(device, constants.O_RDWR);
  const [wanted, there] = [Buffer.alloc(CHUNK), Buffer.alloc(CHUNK)];
  let told = performance.now();
  for (let at = 0; at < size; at += CHUNK) {
    signal?.throwIfAborted();
    const length = Math.min(CHUNK, size - at);
    const both = [readFully(from, wanted.subarray(0, length), at), readFully(to, there.subarray(0, length), at)];
    await Promise.all(both);
    for (const [start, end] of differences(wanted.subarray(0, length), there.subarray(0, length)))
      await writeFully(to, wanted.subarray(start, end), at + start);
    if (performance.now() - told < TELL) continue;
    told = performance.now();
    onBytes?.(at + length);
  }
  onBytes?.(size);
  await to.sync();
}

/** Runs of blocks that differ, as offsets. */
export function differences(wanted: Buffer, there: Buffer): (readonly [start: number, end: number])[] {
  const found: (readonly [number, number])[] = [];
  let start = -1;
  for (let at = 0; at < wanted.length; at += BLOCK) {
    const end = Math.min(at + BLOCK, wanted.length);
    const same = wanted.compare(there, at, end, at, end) === 0;
    if (!same && start < 0) start = at;
    if (same && start >= 0) {
      found.push([start, at]);
      start = -1;
    }
  }
  return start < 0 ? found : [...found, [start, wanted.length]];
}

async function readFully(file: FileHandle, buffer: Buffer, position: number): Promise<void> {
  for (let done = 0; done < buffer.length; ) {
    const { bytesRead } = await file.read(buffer, done, buffer.length - done, position + done);
    // A file that became shorter meanwhile: what is gone reads as zeroes.
    if (bytesRead === 0) {
      buffer.fill(0, done);
      return;
    }
    done += bytesRead;
  }
}

async function writeFully(file: FileHandle, buffer: Buffer, position: number): Promise<void> {
  for (let done = 0; done < buffer.length; )
    done += (await file.write(buffer, done, buffer.length - done, position + done)).bytesWritten;
}
