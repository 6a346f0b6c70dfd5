import { createHash } from 'node:crypto';
import { constants, createReadStream } from 'node:fs';
import { type FileHandle, mkdir, mkdtemp, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { errors } from '../../core/errors.ts';
import type { FolderGate } from '../../core/folder-gate.ts';
import { BatchWriter } from './batch-writer.ts';
import { formatOfFile, formatSuffix } from './format.ts';
import { type ImageFileSet, inspectImage, type InspectedImage } from './inspect.ts';
import type { ArchiveLimits } from './tree-check.ts';
import { type UnpackOptions, unpackImage } from './unpack.ts';

/** Where the files of an image that is coming in are gathered; gone with `dispose` unless it was kept. */
export interface IncomingImage extends AsyncDisposable {
  /** Bytes received so far. */
  readonly size: number;
  /** True once a root or disk part came. */
  readonly split: boolean;
  /** Takes one part, main file first. @throws too-large beyond the limit, the signal's reason. */
  receive(part: ImagePart, source: AsyncIterable<Uint8Array>, options?: ReceiveOptions): Promise<void>;
  /** Ends the reception: the fingerprint over all parts in the order they came. */
  fingerprint(): string;
  /** @throws bad-request naming the entry that is refused. */
  inspect(signal?: AbortSignal): Promise<InspectedImage>;
  /** Puts the files in place, durably, under the fingerprint. */
  keep(fingerprint: string, inspected: InspectedImage): Promise<void>;
}

/** `main`: unified image or metadata; `root`: squashfs or tar; `disk`: a virtual machine's `rootfs.img`. */
export type ImagePart = 'main' | 'root' | 'disk';

export interface ReceiveOptions {
  readonly signal?: AbortSignal;
  readonly onBytes?: (total: number) => void;
}

export interface StoredPart {
  readonly path: string;
  readonly size: number;
  /** `.tar.xz`, `.squashfs`, … by content. */
  readonly suffix: string;
}

export interface ImageStoreOptions {
  /** Folder of `<fingerprint>` and `<fingerprint>.rootfs`. */
  readonly images: string;
  /** Kept from being moved while something is written there. */
  readonly gate: FolderGate;
  /** Bytes an image may have; default 100 GiB. */
  readonly maxBytes?: number;
  readonly limits?: ArchiveLimits;
}

const DEFAULT_MAX = 100 * 1024 ** 3;
/** Start of the names of folders for what is on its way. */
const INCOMING = '.incoming-';
const FINGERPRINT = /^[0-9a-f]{64}$/;

/** The image files of the state folder. Nothing appears there before it was checked and is on disk. */
export class ImageStore {
  readonly #options: ImageStoreOptions;

  constructor(options: ImageStoreOptions) {
    this.#options = options;
  }

  async begin(): Promise<IncomingImage> {
    const { images } = this.#options;
    using entered = new DisposableStack();
    entered.use(await this.#options.gate.enter());
    await mkdir(images, { recursive: true, mode: 0o700 });
    const folder = await mkdtemp(join(images, INCOMING));
    return new Incoming(folder, this.#options, entered.move());
  }

  /** The files of a stored image, for unpacking. */
  async files(fingerprint: string, type: 'container' | 'virtual-machine', split: boolean): Promise<ImageFileSet> {
    const main = this.#path(fingerprint);
    return split ? { main, root: { path: `${main}.rootfs`, disk: type === 'virtual-machine' } } : { main };
  }

  /** What an export sends. @throws not-found when the files are gone. */
  async part(fingerprint: string, part: 'main' | 'root'): Promise<StoredPart> {
    const path = part === 'main' ? this.#path(fingerprint) : `${this.#path(fingerprint)}.rootfs`;
    using _ = await this.#options.gate.enter();
    try {
      const { size } = await stat(path);
      return { path, size, suffix: formatSuffix(await formatOfFile(path)) };
    } catch (error) {
      throw errors.notFound(`The files of image "${fingerprint}" are missing`, error);
    }
  }

  read(part: StoredPart): Readable {
    return createReadStream(part.path, { highWaterMark: 256 * 1024 });
  }

  /** Metadata and templates as they were when the image came in; read again from its archive when the copy is lost. */
  async details(fingerprint: string, type: 'container' | 'virtual-machine', split: boolean): Promise<ImageDetails> {
    using _ = await this.#options.gate.enter();
    const saved = await readFile(`${this.#path(fingerprint)}.meta`, 'utf8').catch(() => undefined);
    if (saved !== undefined) return decodeDetails(saved);
    const { limits } = this.#options;
    return inspectImage(await this.files(fingerprint, type, split), limits === undefined ? {} : { limits });
  }

  /** `rootfs/` or `root.img` into an existing empty folder. */
  async unpack(image: StoredImage, target: string, options: UnpackOptions = {}): Promise<void> {
    const signal = options.signal === undefined ? {} : { signal: options.signal };
    using _ = await this.#options.gate.enter();
    await unpackImage(await this.files(image.fingerprint, image.type, image.split), target, signal);
  }

  /** Absent files are no error. */
  async remove(fingerprint: string): Promise<void> {
    const path = this.#path(fingerprint);
    using _ = await this.#options.gate.enter();
    for (const suffix of ['', '.rootfs', '.meta']) await rm(path + suffix, { force: true });
    await syncFolder(this.#options.images);
  }

  /** Removes what a crash left: files of fingerprints that `known` denies, and everything on its way. */
  async sweep(known: (fingerprint: string) => boolean): Promise<readonly string[]> {
    const { images } = this.#options;
    using _ = await this.#options.gate.enter();
    const removed: string[] = [];
    for (const name of await readdir(images).catch(() => [])) {
      if (name.startsWith(INCOMING)) {
        await rm(join(images, name), { recursive: true, force: true });
        removed.push(name);
      }
      const fingerprint = name.replace(/\.(?:rootfs|meta)$/, '');
      if (!FINGERPRINT.test(fingerprint) || known(fingerprint)) continue;
      await rm(join(images, name), { force: true });
      removed.push(name);
    }
    return removed;
  }

  #path(fingerprint: string): string {
    if (!FINGERPRINT.test(fingerprint)) throw errors.badRequest(`Invalid fingerprint "${fingerprint}"`);
    return join(this.#options.images, fingerprint);
  }
}

/** What the store has to know of an image's record. */
export interface StoredImage {
  readonly fingerprint: string;
  readonly type: 'container' | 'virtual-machine';
  readonly split: boolean;
}

export type ImageDetails = Pick<InspectedImage, 'metadata' | 'templates'>;

class Incoming implements IncomingImage {
  readonly #folder: string;
  readonly #options: ImageStoreOptions;
  readonly #entered: Disposable;
  readonly #hash = createHash('sha256');
  #digest: string | undefined;
  readonly #parts = new Map<ImagePart, string>();
  #size = 0;

  constructor(folder: string, options: ImageStoreOptions, entered: Disposable) {
    this.#folder = folder;
    this.#options = options;
    this.#entered = entered;
  }

  get size(): number {
    return this.#size;
  }

  get split(): boolean {
    return this.#parts.has('root') || this.#parts.has('disk');
  }

  async receive(part: ImagePart, source: AsyncIterable<Uint8Array>, options: ReceiveOptions = {}): Promise<void> {
    const path = join(this.#folder, part);
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
    await using file = await open(path, flags, 0o600);
    await using writer = new BatchWriter((batch) => this.#write(file, batch).catch(explain));
    for await (const chunk of source) {
      options.signal?.throwIfAborted();
      this.#count(chunk.length);
      await writer.add(chunk);
      options.onBytes?.(this.#size);
    }
    await writer.flush();
    await file.sync();
    this.#parts.set(part, path);
  }

  fingerprint(): string {
    this.#digest ??= this.#hash.digest('hex');
    return this.#digest;
  }

  inspect(signal?: AbortSignal): Promise<InspectedImage> {
    const { limits } = this.#options;
    return inspectImage(this.#files(), {
      ...(limits === undefined ? {} : { limits }),
      ...(signal === undefined ? {} : { signal }),
    });
  }

  async keep(fingerprint: string, inspected: InspectedImage): Promise<void> {
    const target = join(this.#options.images, fingerprint);
    const { main, root } = this.#files();
    await writeSynced(join(this.#folder, 'meta'), encodeDetails(inspected));
    if (root !== undefined) await rename(root.path, `${target}.rootfs`);
    await rename(join(this.#folder, 'meta'), `${target}.meta`);
    await rename(main, target);
    await syncFolder(this.#options.images);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    using _ = this.#entered;
    await rm(this.#folder, { recursive: true, force: true });
  }

  #files(): ImageFileSet {
    const main = this.#parts.get('main');
    if (main === undefined) throw errors.badRequest('Invalid multipart image');
    const root = this.#parts.get('root');
    const disk = this.#parts.get('disk');
    if (root !== undefined) return { main, root: { path: root, disk: false } };
    return disk === undefined ? { main } : { main, root: { path: disk, disk: true } };
  }

  #count(bytes: number): void {
    this.#size += bytes;
    const limit = this.#options.maxBytes ?? DEFAULT_MAX;
    if (this.#size > limit) throw errors.tooLarge(`Image is larger than ${limit} bytes`);
  }

  /** Hashing a batch takes the loop less than a millisecond: no more than handing it to another process would. */
  async #write(file: FileHandle, batch: Uint8Array): Promise<void> {
    const written = writeAll(file, batch);
    this.#hash.update(batch);
    await written;
  }
}

function explain(error: unknown): never {
  if (error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT')) {
    throw errors.unavailable('No space left for the image; free some below the state folder', error);
  }
  throw error;
}

async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let offset = 0; offset < chunk.length; ) {
    const { bytesWritten } = await file.write(chunk, offset, chunk.length - offset);
    offset += bytesWritten;
  }
}

async function writeSynced(path: string, text: string): Promise<void> {
  await using file = await open(path, 'wx', 0o600);
  await file.writeFile(text);
  await file.sync();
}

async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, 'r');
  await folder.sync();
}

function encodeDetails({ metadata, templates }: ImageDetails): string {
  return JSON.stringify({ metadata, templates: Object.fromEntries(templates) });
}

function decodeDetails(text: string): ImageDetails {
  const { metadata, templates } = JSON.parse(text) as { metadata: string; templates: Record<string, string> };
  return { metadata, templates: new Map(Object.entries(templates)) };
}
