import { createReadStream, createWriteStream } from 'node:fs';
import { type FileHandle, mkdir, mkdtemp, open, rename, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
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
const LOOK_EVERY = 250;
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

  /**
   * Writes the whole file or none, and tells its bytes. The disk has all of them some seconds later: should the host go
   * down before, the file is shorter; what the disk does not take is removed. `compression` is `none` or one that
   * `compressCommand` knows. @throws bad-request.
   */
  async write(target: string, content: ArchiveContent, options: WriteOptions): Promise<number> {
    const codec = codecs.find((known) => known === options.compression);
    if (options.compression !== 'none' && codec === undefined)
      throw errors.badRequest(`Invalid compression algorithm "${options.compression}"`);
    using _ = await this.#gate.enter();
    for (const folder of [dirname(target), this.#scratch]) await mkdir(folder, { recursive: true, mode: 0o700 });
    const partial = `${target}.part`;
    await rm(partial, { force: true });
    await using stack = new AsyncDisposableStack();
    try {
      const handle = await open(partial, 'ax+', 0o600);
      stack.defer(() => handle.close());
      if (codec === undefined || codec === 'none') await writePlain(handle, partial, content, options);
      else await this.#writeCompressed(partial, content, { ...options, codec });
      const { size } = await handle.stat();
      await rename(partial, target);
      const later = stack.move();
      handle
        .datasync()
        .catch(() => rm(target, { force: true }))
        .catch(() => undefined)
        .finally(() => later.disposeAsync());
      return size;
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
    const out = createWriteStream(path, { flags: 'a' });
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

async function writePlain(
  handle: FileHandle,
  path: string,
  content: ArchiveContent,
  options: WriteOptions,
): Promise<void> {
  const { signal, onBytes } = options;
  using _ = watching(handle, onBytes);
  await writeBackup({ handle, path }, content, signal);
  onBytes?.((await handle.stat()).size);
}

/** Tells from time to time how much others have written into a file. */
function watching(handle: FileHandle, onBytes: ((bytes: number) => void) | undefined): Disposable {
  if (onBytes === undefined) return { [Symbol.dispose]: () => undefined };
  const look = async (): Promise<void> => onBytes((await handle.stat()).size);
  onBytes(0);
  const timer = setInterval(() => void look().catch(() => undefined), LOOK_EVERY);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

function isFull(error: unknown): boolean {
  if (error instanceof CommandError)
    return /No space left on device|Disk quota exceeded|Wrote only \d+ of/.test(error.stderr);
  return error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT');
}

/** Passes bytes on and tells their number: 0 at first, at most a few times a second, and all of them at the end. */
function counter(onBytes: ((bytes: number) => void) | undefined): Transform {
  let bytes = 0;
  let told = 0;
  onBytes?.(0);
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
    flush(done) {
      onBytes?.(bytes);
      done();
    },
  });
}
