import { createWriteStream } from 'node:fs';
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { addAbortSignal, PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { runStream, type RunStreamOptions } from '../run-stream.ts';
import { contentSize } from '../tools/block-fs.ts';
import { packCommand } from '../tools/tar.ts';
import { INDEX } from './backup-check.ts';
import {
  BLOCK,
  contentLength,
  LAST_MEMBER,
  memberHeader,
  padding,
  RECORD,
  TAIL,
  TAR_END,
  textMember,
  withSize,
} from './tar-members.ts';

/** One volume or snapshot of a backup. */
export interface VolumeArchivePart {
  /** Path of the member: a folder's, or a block file's own name. */
  readonly name: string;
  /** Host folder or file. */
  readonly source: string;
  readonly block: boolean;
  /** Content of a small file, instead of what is at `source`. */
  readonly text?: string;
  /** Content whose length is not known before its end, instead of what is at `source`. */
  readonly open?: () => Promise<Readable>;
  /** Host ids in the folder that stand for guest ids from 0; the members then carry guest ids. */
  readonly idRange?: { readonly base: number; readonly size: number } | undefined;
}

export interface ArchiveContent {
  readonly index: string;
  readonly parts: readonly VolumeArchivePart[];
}

const DAY = 24 * 3_600_000;
const MODE = 0o600;

/** Where a tar goes. */
interface TarSink {
  /** Whole blocks. */
  bytes(chunk: Buffer): Promise<void>;
  /** A tar of `command`, which packs `LAST_MEMBER` last, without that and its end. */
  packed(command: readonly [string, readonly string[]], options: RunStreamOptions): Promise<void>;
  /** A file member: the content of a host file or device, or of a stream. */
  file(name: string, source: string | (() => Promise<Readable>), signal: AbortSignal | undefined): Promise<void>;
}

/** Writes an uncompressed backup to the end of an empty file open for reading and appending. */
export async function writeBackup(
  file: { readonly handle: FileHandle; readonly path: string },
  content: ArchiveContent,
  signal?: AbortSignal,
): Promise<void> {
  await writeTar(content, new FileSink(file.handle, file.path), signal);
}

/** An uncompressed backup as a stream, which fails when the packing does. */
export function streamBackup(content: ArchiveContent, scratch: string, signal?: AbortSignal): Readable {
  const out = new PassThrough({ highWaterMark: 256 * 1024 });
  writeTar(content, new StreamSink(out, scratch), signal).then(
    () => out.end(),
    (error: unknown) => out.destroy(error instanceof Error ? error : new Error(String(error))),
  );
  return out;
}

/** index.yaml, then the parts in order. */
async function writeTar({ index, parts }: ArchiveContent, sink: TarSink, signal: AbortSignal | undefined) {
  await sink.bytes(await textMember({ name: INDEX, mode: 0o644 }, index));
  for (const part of parts) {
    signal?.throwIfAborted();
    const { name, text, source, open: opened, block, idRange } = part;
    if (text !== undefined) await sink.bytes(await textMember({ name, mode: MODE }, text));
    else if (opened !== undefined) await sink.file(name, opened, signal);
    else if (block) await sink.file(name, source, signal);
    else {
      // 1: a file changed while it was read.
      const options = { cwd: source, timeout: DAY, ok: [0, 1], ...(signal === undefined ? {} : { signal }) };
      await sink.packed(folderCommand(name, idRange), options);
    }
  }
  await sink.bytes(TAR_END);
}

function folderCommand(name: string, idRange: VolumeArchivePart['idRange']): readonly [string, readonly string[]] {
  const prefix = name.replace(/[\\&,;]/g, '\\$&');
  const acls = '--xattrs-include=system.posix_acl_*'; // the form that LXD reads
  const record = `--blocking-factor=${RECORD / BLOCK}`;
  const [command, args] = packCommand(prefix, idRange, [acls, record]);
  return [command, [...args, LAST_MEMBER]];
}

/** The programs write into the file by themselves: no byte of a volume passes through this process. */
class FileSink implements TarSink {
  readonly #handle: FileHandle;
  readonly #path: string;

  constructor(handle: FileHandle, path: string) {
    this.#handle = handle;
    this.#path = path;
  }

  bytes(chunk: Buffer): Promise<void> {
    return this.#handle.appendFile(chunk);
  }

  async packed([command, args]: readonly [string, readonly string[]], options: RunStreamOptions): Promise<void> {
    await runStream(command, args, { ...options, stdout: { fd: this.#handle.fd } });
    const size = await this.#size();
    const start = Math.max(size - TAIL, 0);
    const tail = Buffer.alloc(size - start);
    await this.#handle.read(tail, 0, tail.length, start);
    await this.#handle.truncate(start + contentLength(tail));
  }

  /** The header gets its size when the end of the content was seen. */
  async file(name: string, source: string | (() => Promise<Readable>), signal: AbortSignal | undefined): Promise<void> {
    const header = await memberHeader({ name, mode: MODE }, 0);
    await this.bytes(header);
    const start = await this.#size();
    const flow = signal === undefined ? {} : { signal };
    if (typeof source === 'string')
      await runStream('cat', ['--', source], { ...flow, timeout: DAY, stdout: { fd: this.#handle.fd } });
    else {
      const content = await source();
      if (signal !== undefined) addAbortSignal(signal, content);
      for await (const chunk of content as AsyncIterable<Buffer>) await this.bytes(chunk);
    }
    const size = (await this.#size()) - start;
    await this.bytes(padding(size));
    // What is open for appending is written at its end, wherever one says.
    await using again = await open(this.#path, 'r+');
    await again.write(withSize(header, size), 0, header.length, start - header.length);
  }

  #size(): Promise<number> {
    return this.#handle.stat().then(({ size }) => size);
  }
}

class StreamSink implements TarSink {
  readonly #out: PassThrough;
  readonly #scratch: string;

  constructor(out: PassThrough, scratch: string) {
    this.#out = out;
    this.#scratch = scratch;
  }

  bytes(chunk: Buffer): Promise<void> {
    if (this.#out.destroyed) return Promise.reject(this.#out.errored ?? new Error('The archive was closed early'));
    return this.#out.write(chunk) ? Promise.resolve() : drained(this.#out);
  }

  async packed([command, args]: readonly [string, readonly string[]], options: RunStreamOptions): Promise<void> {
    const held: Buffer[] = [];
    let length = 0;
    const stdout = async (output: Readable): Promise<void> => {
      for await (const chunk of output as AsyncIterable<Buffer>) {
        held.push(chunk);
        length += chunk.length;
        for (let [first] = held; first !== undefined && length - first.length >= TAIL; [first] = held) {
          held.shift();
          length -= first.length;
          await this.bytes(first);
        }
      }
    };
    await runStream(command, args, { ...options, stdout });
    const all = Buffer.concat(held);
    const start = all.length % BLOCK;
    await this.bytes(all.subarray(0, start + contentLength(all.subarray(start))));
  }

  async file(name: string, source: string | (() => Promise<Readable>), signal: AbortSignal | undefined): Promise<void> {
    if (typeof source === 'string') return this.#whole(name, source, signal);
    // The header, which comes first, tells the length.
    const folder = await mkdtemp(join(this.#scratch, 'backup-part-'));
    try {
      const path = join(folder, 'content');
      await pipeline(await source(), createWriteStream(path, { mode: 0o600 }), signal === undefined ? {} : { signal });
      await this.#whole(name, path, signal);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  async #whole(name: string, path: string, signal: AbortSignal | undefined): Promise<void> {
    const size = await contentSize(path);
    await this.bytes(await memberHeader({ name, mode: MODE }, size));
    await using file = await open(path, 'r');
    const content = file.createReadStream({
      highWaterMark: 1024 ** 2,
      end: Math.max(size - 1, 0),
      ...(signal === undefined ? {} : { signal }),
    });
    let sent = 0;
    for await (const chunk of content as AsyncIterable<Buffer>) {
      sent += chunk.length;
      await this.bytes(chunk);
    }
    if (sent !== size) throw new Error(`"${path}" has ${sent} bytes instead of ${size}`);
    await this.bytes(padding(size));
  }
}

function drained(out: PassThrough): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = () => {
      out.off('drain', done);
      out.off('close', closed);
      resolve();
    };
    const closed = () => reject(out.errored ?? new Error('The archive was closed early'));
    out.once('drain', done);
    out.once('close', closed);
  });
}
