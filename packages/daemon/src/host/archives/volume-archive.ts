import { createReadStream, createWriteStream } from 'node:fs';
import { type FileHandle, mkdir, mkdtemp, open, rename, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { errors } from '../../core/errors.ts';
import type { FolderGate } from '../../core/folder-gate.ts';
import { CommandError } from '../run.ts';
import { runStream } from '../run-stream.ts';
import { compressCommand } from '../tools/tar.ts';
import { type ArchiveContent, streamBackup, writeBackup } from './backup-writer.ts';
import type { TarCompression } from './format.ts';
import { parallelGzip } from './parallel-gzip.ts';
import { ReceivedBackup } from './received-backup.ts';

const MIB = 1024 ** 2;
const DAY = 24 * 3_600_000;
const FLUSH_EVERY = 250;
const codecs: readonly TarCompression[] = ['gzip', 'bzip2', 'lzma', 'xz', 'zstd'];

export interface WriteOptions {
  readonly compression: string;
  readonly signal?: AbortSignal;
  /** Bytes of the file so far. */
  readonly onBytes?: (bytes: number) => void;
}

/** Makes and reads the tarballs of volume backups, in the layout that LXD reads and writes. */
export class VolumeArchives {
  readonly #scratch: string;
  readonly #gate: FolderGate;

  /** `scratch`: for what is on its way in or out; `gate` keeps it and the backups in their place. */
  constructor(scratch: string, gate: FolderGate) {
    this.#scratch = scratch;
    this.#gate = gate;
  }

  /** Writes the whole file or none. `compression` is `none` or one that `compressCommand` knows. @throws bad-request. */
  async write(target: string, content: ArchiveContent, options: WriteOptions): Promise<void> {
    const codec = codecs.find((known) => known === options.compression);
    if (options.compression !== 'none' && codec === undefined)
      throw errors.badRequest(`Invalid compression algorithm "${options.compression}"`);
    using _ = await this.#gate.enter();
    for (const folder of [dirname(target), this.#scratch]) await mkdir(folder, { recursive: true, mode: 0o700 });
    const partial = `${target}.part`;
    await rm(partial, { force: true });
    try {
      if (codec === undefined || codec === 'none') await writePlain(partial, content, options);
      else await this.#writeCompressed(partial, content, { ...options, codec });
      await rename(partial, target);
    } catch (error) {
      throw isFull(error)
        ? errors.unavailable('No space left for the backup; free some where backups are kept', error)
        : error;
    } finally {
      await rm(partial, { force: true });
    }
  }

  async #writeCompressed(
    path: string,
    content: ArchiveContent,
    { codec, signal, onBytes }: WriteOptions & { readonly codec: Exclude<TarCompression, 'none'> },
  ): Promise<void> {
    const out = createWriteStream(path, { mode: 0o600, flush: true });
    const counted = counter(onBytes);
    const tar = streamBackup(content, this.#scratch, signal);
    const flow = signal === undefined ? {} : { signal };
    if (codec === 'gzip') return pipeline(tar, parallelGzip(), counted, out, flow);
    const [command, args] = compressCommand(codec);
    const stdout = (output: Readable): Promise<void> => pipeline(output, counted, out, flow);
    await runStream(command, args, { stdin: tar, stdout, timeout: DAY, ...flow });
    if (tar.errored !== null) throw tar.errored;
  }

  /** Keeps a foreign backup in the scratch folder until it is disposed. @throws bad-request for what is no archive. */
  async receive(content: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<ReceivedBackup> {
    await using received = new AsyncDisposableStack();
    const folder = await this.#incoming(received);
    const path = join(folder, 'upload');
    await pipeline(content, createWriteStream(path, { mode: 0o600 }), { signal });
    const backup = await ReceivedBackup.check(folder, path);
    backup.closes(received.move());
    return backup;
  }

  /** Bytes as they come, for what is no archive. */
  async receiveFile(
    content: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<{ readonly path: string } & AsyncDisposable> {
    await using received = new AsyncDisposableStack();
    const path = join(await this.#incoming(received), 'upload');
    await pipeline(content, createWriteStream(path, { mode: 0o600 }), { signal });
    const kept = received.move();
    return { path, [Symbol.asyncDispose]: () => kept.disposeAsync() };
  }

  async #incoming(received: AsyncDisposableStack): Promise<string> {
    received.use(await this.#gate.enter());
    await mkdir(this.#scratch, { recursive: true, mode: 0o700 });
    const folder = await mkdtemp(join(this.#scratch, 'import-'));
    received.defer(() => rm(folder, { recursive: true, force: true }));
    return folder;
  }

  read(path: string): Readable {
    return createReadStream(path, { highWaterMark: 256 * 1024 });
  }

  async size(path: string): Promise<number> {
    using _ = await this.#gate.enter();
    return (await stat(path)).size;
  }

  async move(from: string, to: string): Promise<void> {
    using _ = await this.#gate.enter();
    await mkdir(dirname(to), { recursive: true, mode: 0o700 });
    await rename(from, to);
  }

  /** What a killed daemon left half written goes too. */
  async moveFolder(from: string, to: string): Promise<void> {
    using _ = await this.#gate.enter();
    if ((await stat(from).catch(() => undefined)) === undefined) return;
    // Empty: what is left when the last backup of a volume of that name went.
    await rmdir(to).catch(() => undefined);
    await mkdir(dirname(to), { recursive: true, mode: 0o700 });
    await rename(from, to);
  }

  async removeFolder(path: string): Promise<void> {
    using _ = await this.#gate.enter();
    await rm(path, { recursive: true, force: true });
  }

  async remove(path: string): Promise<void> {
    using _ = await this.#gate.enter();
    for (const one of [path, `${path}.part`]) await rm(one, { force: true });
  }
}

async function writePlain(path: string, content: ArchiveContent, { signal, onBytes }: WriteOptions): Promise<void> {
  await using handle = await open(path, 'ax+', 0o600);
  const stop = new AbortController();
  const flushed = flushing(handle, stop.signal, onBytes);
  flushed.catch(() => undefined); // awaited below
  try {
    await writeBackup({ handle, path }, content, signal);
  } finally {
    stop.abort();
  }
  await flushed;
  await handle.datasync();
}

/**
 * Sends to disk what others write into a file while they write it, so that little is left at the end. What it throws is
 * told once: a later flush does not fail again.
 */
async function flushing(
  handle: FileHandle,
  stop: AbortSignal,
  onBytes: ((bytes: number) => void) | undefined,
): Promise<void> {
  while (await wait(FLUSH_EVERY, true, { signal: stop }).catch(() => false)) {
    await handle.datasync();
    onBytes?.((await handle.stat()).size);
  }
}

function isFull(error: unknown): boolean {
  if (error instanceof CommandError)
    return /No space left on device|Disk quota exceeded|Wrote only \d+ of/.test(error.stderr);
  return error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT');
}

/** Passes bytes on and tells their number, at most a few times a second. */
function counter(onBytes: ((bytes: number) => void) | undefined): Transform {
  let bytes = 0;
  let told = 0;
  return new Transform({
    highWaterMark: 256 * 1024,
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (onBytes !== undefined && bytes - told >= 4 * MIB) {
        told = bytes;
        onBytes(bytes);
      }
      done(null, chunk);
    },
  });
}
