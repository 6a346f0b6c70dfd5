import { createReadStream, createWriteStream } from 'node:fs';
import { chown, mkdir, mkdtemp, open, rename, rm, rmdir, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { PassThrough, type Readable, Transform, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { pack } from 'tar-stream';
import { errors } from '../../core/errors.ts';
import { CommandError } from '../run.ts';
import { copyTree } from '../files.ts';
import { runStream } from '../run-stream.ts';
import { catTar, compressCommand, extractTar, listTar, packCommand, packTar, type TarFile } from '../tools/tar.ts';
import { digHoles } from '../tools/fallocate.ts';
import { BackupCheck, INDEX } from './backup-check.ts';
import { displayName } from './entries.ts';
import { formatOfFile, type TarCompression } from './format.ts';
import { parallelGzip } from './parallel-gzip.ts';

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

/** Two blocks of zeros, which end a tar. */
const END_LENGTH = 1024;
const MIB = 1024 ** 2;
const DAY = 24 * 3_600_000;
const codecs: readonly TarCompression[] = ['gzip', 'bzip2', 'lzma', 'xz', 'zstd'];

export interface ArchiveContent {
  readonly index: string;
  readonly parts: readonly VolumeArchivePart[];
}

export interface WriteOptions {
  readonly compression: string;
  readonly signal?: AbortSignal;
  /** Bytes of the file so far. */
  readonly onBytes?: (bytes: number) => void;
}

/** Makes and reads the tarballs of volume backups, in the layout that LXD reads and writes. */
export class VolumeArchives {
  readonly #scratch: string;

  constructor(scratch: string) {
    this.#scratch = scratch;
  }

  /** Writes the whole file or none. `compression` is `none` or one that `compressCommand` knows. @throws bad-request. */
  async write(target: string, content: ArchiveContent, options: WriteOptions): Promise<void> {
    const codec = codecs.find((known) => known === options.compression);
    if (options.compression !== 'none' && codec === undefined)
      throw errors.badRequest(`Invalid compression algorithm "${options.compression}"`);
    await mkdir(dirname(target), { recursive: true, mode: 0o700 });
    const partial = `${target}.part`;
    const { signal, onBytes } = options;
    try {
      const out = createWriteStream(partial, { mode: 0o600, flush: true });
      const counted = counter(onBytes);
      const tar = tarOf(content, this.#scratch, signal);
      const flow = signal === undefined ? {} : { signal };
      if (codec === undefined || codec === 'none') await pipeline(tar, counted, out, flow);
      else if (codec === 'gzip') await pipeline(tar, parallelGzip(), counted, out, flow);
      else {
        const [command, args] = compressCommand(codec);
        const stdout = (output: Readable): Promise<void> => pipeline(output, counted, out, flow);
        await runStream(command, args, { stdin: tar, stdout, timeout: DAY, ...flow });
        if (tar.errored !== null) throw tar.errored;
      }
      await rename(partial, target);
    } finally {
      await rm(partial, { force: true });
    }
  }

  /** Keeps a foreign backup in the scratch folder until it is disposed. @throws bad-request for what is no archive. */
  async receive(content: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<ReceivedBackup> {
    const folder = await mkdtemp(join(this.#scratch, 'volume-import-'));
    try {
      const path = join(folder, 'upload');
      await pipeline(content, createWriteStream(path, { mode: 0o600 }), { signal });
      return await ReceivedBackup.check(folder, path);
    } catch (error) {
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }

  /** Bytes as they come, for what is no archive. */
  async receiveFile(
    content: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<{ readonly path: string } & AsyncDisposable> {
    const folder = await mkdtemp(join(this.#scratch, 'volume-import-'));
    const dispose = () => rm(folder, { recursive: true, force: true });
    try {
      const path = join(folder, 'upload');
      await pipeline(content, createWriteStream(path, { mode: 0o600 }), { signal });
      return { path, [Symbol.asyncDispose]: dispose };
    } catch (error) {
      await dispose();
      throw error;
    }
  }

  read(path: string): Readable {
    return createReadStream(path, { highWaterMark: 256 * 1024 });
  }

  size(path: string): Promise<number> {
    return stat(path).then(({ size }) => size);
  }

  async move(from: string, to: string): Promise<void> {
    await mkdir(dirname(to), { recursive: true, mode: 0o700 });
    await rename(from, to);
  }

  /** What a killed daemon left half written goes too. */
  async moveFolder(from: string, to: string): Promise<void> {
    if ((await stat(from).catch(() => undefined)) === undefined) return;
    // Empty: what is left when the last backup of a volume of that name went.
    await rmdir(to).catch(() => undefined);
    await this.move(from, to);
  }

  async remove(path: string): Promise<void> {
    for (const one of [path, `${path}.part`]) await rm(one, { force: true });
  }
}

/** A backup whose every entry was checked. */
export class ReceivedBackup implements AsyncDisposable {
  readonly #folder: string;
  readonly #tar: TarFile;

  /** Plain files next to the volumes' folders: streams and block images. */
  readonly #files: ReadonlySet<string>;
  /** Whether it holds devices 0,0, with which overlays hide files. */
  readonly whiteouts: boolean;
  /** Large files inside volumes, as the archive names them. */
  readonly #large: readonly string[];
  readonly #acls: 'text' | 'attributes';

  private constructor(folder: string, tar: TarFile, check: BackupCheck) {
    const { files, whiteouts, large } = check;
    this.#large = large;
    this.#acls = check.textAcls ? 'text' : 'attributes';
    this.#folder = folder;
    this.#tar = tar;
    this.#files = files;
    this.whiteouts = whiteouts;
  }

  static async check(folder: string, path: string): Promise<ReceivedBackup> {
    const format = await formatOfFile(path);
    if (format.kind !== 'tar') throw errors.badRequest('Unsupported compression');
    const tar = { path, compression: format.compression };
    const check = new BackupCheck();
    try {
      await listTar(tar, (line) => check.add(line));
    } catch (error) {
      if (error instanceof Error && error.name === 'KeelsonError') throw error;
      throw errors.badRequest('The backup is damaged or ends early', error);
    }
    if (!check.hasIndex) throw errors.badRequest('Backup is missing at "backup/index.yaml"');
    return new ReceivedBackup(folder, tar, check);
  }

  /** Text of index.yaml. */
  async index(): Promise<string> {
    const chunks: Buffer[] = [];
    const sink = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        chunks.push(chunk);
        done();
      },
    });
    await catTar(this.#tar, [INDEX], sink);
    return Buffer.concat(chunks).toString('utf8');
  }

  /** Text of a small file member; undefined when it is not in the backup. */
  async text(member: string): Promise<string | undefined> {
    const chunks: Buffer[] = [];
    let length = 0;
    const sink = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        length += chunk.length;
        chunks.push(chunk);
        done(length > MIB ? errors.badRequest(`"${member}" in the backup is too long`) : null);
      },
    });
    try {
      await catTar(this.#tar, [member], sink);
    } catch (error) {
      if (error instanceof CommandError) return undefined;
      throw error;
    }
    return Buffer.concat(chunks).toString('utf8');
  }

  /**
   * As `extract`, for members that carry host ids of `idRange` where guest ids are wanted. The tree passes through a
   * user namespace once more, so that attributes that hold ids follow.
   */
  async extractUnshifted(
    member: string,
    target: string,
    idRange: { readonly base: number; readonly size: number },
    signal?: AbortSignal,
  ): Promise<void> {
    const options = signal === undefined ? {} : { signal };
    await this.withExtracted(
      member,
      async (folder) => {
        await chown(folder, idRange.base, idRange.base); // the packing process has the guest's ids
        const path = join(this.#folder, 'unshifted.tar');
        await packTar(folder, { prefix: 'tree', idRange, ...options }, (output) =>
          pipeline(output, createWriteStream(path)),
        );
        await extractTar({ path, compression: 'none' }, target, { strip: 1, ...options });
        await rm(path);
      },
      signal,
    );
  }

  /** Content of a folder member into an existing folder. @throws bad-request when it is not in the backup. */
  async extract(member: string, target: string, signal?: AbortSignal): Promise<void> {
    const strip = member.split('/').length;
    await this.#reading(
      member,
      extractTar(this.#tar, target, {
        acls: this.#acls,
        members: [member],
        strip,
        ...(signal === undefined ? {} : { signal }),
      }),
    );
    await this.#digHoles(member, target, signal);
    await this.#reading(member, this.#restoreRoot(member, target));
  }

  /** LXD's tarballs do not tell holes: long runs of zeros become some. */
  async #digHoles(member: string, target: string, signal: AbortSignal | undefined): Promise<void> {
    for (const name of this.#large) {
      if (name.startsWith(`${member}/`)) await digHoles(target, name.slice(member.length + 1), signal);
    }
  }

  /** The member itself falls away with its name: what it has becomes that of `target`. */
  async #restoreRoot(member: string, target: string): Promise<void> {
    const folder = await mkdtemp(join(this.#folder, 'root-'));
    try {
      const acls = this.#acls === 'text' ? ['--acls'] : ['--xattrs-include=system.posix_acl_*'];
      const args = ['--extract', '--file', this.#tar.path, '--force-local', '--numeric-owner', '--same-owner', ...acls];
      const only = ['--xattrs', '--xattrs-include=user.*', '--same-permissions', '--no-recursion', '--no-wildcards'];
      await runStream('tar', [...args, ...only, '--occurrence=1', '--directory', folder, '--', member]);
      await copyTree(join(folder, member), target);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  /** Extracts into a scratch folder that lives while `use` runs. */
  async withExtracted<T>(member: string, use: (folder: string) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const folder = await mkdtemp(join(this.#folder, 'tree-'));
    try {
      await this.extract(member, folder, signal);
      return await use(folder);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  /** Content of a file member. @throws bad-request when it is not in the backup. */
  async open(member: string): Promise<Readable> {
    if (!this.#files.has(member)) throw errors.badRequest(`The backup lacks "${displayName(member)}"`);
    const out = new PassThrough({ highWaterMark: 256 * 1024 });
    catTar(this.#tar, [member], out).catch((error: unknown) =>
      out.destroy(error instanceof Error ? error : new Error(String(error))),
    );
    return out;
  }

  /** As `withExtracted`; `idRange` as `extractUnshifted` takes it. */
  async withTree<T>(
    member: string,
    idRange: { readonly base: number; readonly size: number } | undefined,
    use: (folder: string) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    if (idRange === undefined) return this.withExtracted(member, use, signal);
    const folder = await mkdtemp(join(this.#folder, 'guest-'));
    try {
      await this.extractUnshifted(member, folder, idRange, signal);
      return await use(folder);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  /** Content of a file member over an existing file. */
  async extractFile(member: string, target: string): Promise<void> {
    await using file = await open(target, 'r+');
    const device = (await file.stat()).isBlockDevice();
    if (!device) await file.truncate(0);
    // The stream closes the file: a handle with a stream that stays open never closes.
    await this.#reading(member, catTar(this.#tar, [member], file.createWriteStream({ start: 0 })));
    if (!device) await digHoles(dirname(target), basename(target));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #reading(member: string, work: Promise<unknown>): Promise<void> {
    try {
      await work;
    } catch (error) {
      if (error instanceof Error && error.name === 'CommandError')
        throw errors.badRequest(`Cannot read "${member}" from the backup`, error);
      throw error;
    }
  }
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

/** index.yaml, then the parts in order. */
function tarOf(content: ArchiveContent, scratch: string, signal: AbortSignal | undefined): PassThrough {
  const out = new PassThrough({ highWaterMark: 256 * 1024 });
  const work = async (): Promise<void> => {
    await append(out, packMember({ name: INDEX, mode: 0o644 }, content.index), false);
    for (const [position, part] of content.parts.entries()) {
      const last = position === content.parts.length - 1;
      if (part.text !== undefined) await append(out, packMember({ name: part.name, mode: 0o600 }, part.text), last);
      else if (part.open !== undefined)
        await spooled(part.open, scratch, (source) => packed({ ...part, source }, last));
      else if (part.block) await packed(part, last);
      else await packFolder(part, last, signal, (output) => append(out, output as AsyncIterable<Buffer>, last));
    }
    out.end();
  };
  const packed = async (part: VolumeArchivePart, last: boolean): Promise<void> =>
    append(out, packBlock(part, (await stat(part.source)).size), last);
  work().catch((error: unknown) => out.destroy(error instanceof Error ? error : new Error(String(error))));
  return out;
}

/** A tar tells the length of a member before its content: a stream is written to disk first. */
async function spooled(
  open: () => Promise<Readable>,
  scratch: string,
  use: (path: string) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(scratch, 'backup-part-'));
  try {
    const path = join(folder, 'content');
    await pipeline(await open(), createWriteStream(path, { mode: 0o600 }));
    await use(path);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function packMember(header: { name: string; mode: number }, text: string): AsyncIterable<Buffer> {
  const tar = pack();
  tar.entry(header, text);
  tar.finalize();
  return tar as AsyncIterable<Buffer>;
}

function packBlock(part: VolumeArchivePart, size: number): AsyncIterable<Buffer> {
  const tar = pack();
  const entry = tar.entry({ name: part.name, mode: 0o600, size }, (error) => error && tar.destroy(error));
  createReadStream(part.source, { highWaterMark: 1024 * 1024, end: Math.max(size - 1, 0) })
    .on('error', (error) => tar.destroy(error))
    .pipe(entry);
  entry.on('finish', () => tar.finalize());
  return tar as AsyncIterable<Buffer>;
}

async function packFolder(
  part: VolumeArchivePart,
  last: boolean,
  signal: AbortSignal | undefined,
  sink: (output: Readable) => Promise<void>,
): Promise<void> {
  const prefix = part.name.replace(/[\\&,;]/g, '\\$&');
  // Of a part in the middle exactly two blocks are cut off at its end.
  const acls = '--xattrs-include=system.posix_acl_*'; // the form that LXD reads
  const [command, args] = packCommand(prefix, part.idRange, [acls, ...(last ? [] : ['--blocking-factor=1'])]);
  await runStream(command, args, {
    cwd: part.source,
    stdout: sink,
    ok: [0, 1],
    ...(signal === undefined ? {} : { signal }),
  });
}

/** Passes a tar on, without its end unless it is the last. */
async function append(out: PassThrough, source: AsyncIterable<Buffer>, last: boolean): Promise<void> {
  let held: Buffer<ArrayBufferLike> = Buffer.alloc(0);
  for await (const chunk of source) {
    const all = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    const keep = last ? 0 : Math.min(END_LENGTH, all.length);
    held = all.subarray(all.length - keep);
    const pass = all.subarray(0, all.length - keep);
    if (pass.length > 0 && !out.write(pass)) await drained(out);
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
