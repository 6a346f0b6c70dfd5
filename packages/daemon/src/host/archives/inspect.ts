import { Writable } from 'node:stream';
import { open, stat } from 'node:fs/promises';
import { errors, type KeelsonError } from '../../core/errors.ts';
import { CommandError } from '../run.ts';
import { catSquashfs, checkSquashfsLength, listSquashfs } from '../tools/squashfs.ts';
import { catTar, listTar } from '../tools/tar.ts';
import { type ArchiveEntry, displayName, parseSquashfsLine, parseTarLine } from './entries.ts';
import { type ArchiveFormat, formatOfFile } from './format.ts';
import { type ArchiveContent, type ArchiveLimits, DEFAULT_LIMITS, TreeCheck, type TreeSummary } from './tree-check.ts';

/** An image's files: `root` only when it is split; `disk` when that is a virtual machine's `rootfs.img`. */
export interface ImageFileSet {
  readonly main: string;
  readonly root?: { readonly path: string; readonly disk: boolean };
}

/** What a clean image holds. */
export interface InspectedImage {
  readonly type: 'container' | 'virtual-machine';
  /** Text of metadata.yaml. */
  readonly metadata: string;
  /** Text of the files in templates/, by file name. */
  readonly templates: ReadonlyMap<string, string>;
  /** Bytes of the root's files once unpacked. */
  readonly unpackedBytes: number;
}

export interface InspectOptions {
  readonly limits?: ArchiveLimits;
  readonly signal?: AbortSignal;
}

/**
 * Reads a whole image once and checks every entry before anything is kept.
 * @throws bad-request naming the entry, or with LXD's text when it is no image at all.
 */
export async function inspectImage(files: ImageFileSet, options: InspectOptions = {}): Promise<InspectedImage> {
  const [head, root] = await Promise.all([
    inspectHead(files, options),
    files.root === undefined ? undefined : splitRoot(files.root, options),
  ]);
  const { texts, summary } = head;
  const metadata = texts.get('metadata.yaml');
  if (metadata === undefined) throw errors.badRequest('Metadata tarball is missing metadata.yaml');
  texts.delete('metadata.yaml');
  return { metadata, templates: texts, ...(root ?? unifiedRoot(summary)) };
}

/** The archive that holds metadata.yaml: all of a unified image, one part of a split one. */
async function inspectHead(
  { main, root }: ImageFileSet,
  options: InspectOptions,
): Promise<{ texts: Map<string, string>; summary: TreeSummary }> {
  const format = await formatOfFile(main);
  const content = root === undefined ? 'unified' : 'metadata';
  const summary = await checkArchive(main, { format, content }, options);
  return { texts: await readMetadata(main, format, summary), summary };
}

type RootKind = Pick<InspectedImage, 'type' | 'unpackedBytes'>;

function unifiedRoot(summary: TreeSummary): RootKind {
  if (summary.disk !== undefined && summary.rootNames.length > 0)
    throw errors.badRequest('Refused archive entry "rootfs.img": the image also has a rootfs folder');
  if (summary.disk !== undefined) return { type: 'virtual-machine', unpackedBytes: summary.disk.size };
  if (summary.rootNames.length === 0) throw errors.badRequest('Invalid instance type');
  return { type: 'container', unpackedBytes: summary.bytes };
}

async function splitRoot(root: { path: string; disk: boolean }, options: InspectOptions): Promise<RootKind> {
  const format = await formatOfFile(root.path);
  if (root.disk) {
    if (format.kind !== 'qcow2') throw errors.badRequest('The disk of a virtual machine image must be in qcow2 format');
    return { type: 'virtual-machine', unpackedBytes: await checkQcow2(root.path) };
  }
  const summary = await checkArchive(root.path, { format, content: 'root' }, options);
  if (summary.entries === 0) throw errors.badRequest('The root file system of the image is empty');
  return { type: 'container', unpackedBytes: summary.bytes };
}

interface ArchiveKind {
  readonly format: ArchiveFormat;
  readonly content: ArchiveContent;
}

/** Passes every entry through the checks. @throws bad-request naming the entry, or when the archive is damaged. */
export async function checkArchive(path: string, kind: ArchiveKind, options: InspectOptions): Promise<TreeSummary> {
  const { size } = await stat(path);
  const check = new TreeCheck(kind.content, size, options.limits ?? DEFAULT_LIMITS);
  const { format } = kind;
  if (format.kind === 'qcow2') throw errors.badRequest('Unsupported compression');
  const parse = format.kind === 'tar' ? parseTarLine : parseSquashfsLine;
  let last = '';
  const onLine = (line: string): void => {
    const entry = parse(line);
    if (entry === undefined) throw errors.badRequest(`Refused archive entry: cannot understand "${displayName(line)}"`);
    check.add(entry);
    last = displayName(entry.name);
  };
  try {
    if (format.kind === 'tar') await listTar({ path, compression: format.compression }, onLine, options.signal);
    else {
      await checkSquashfsLength(path);
      await listSquashfs(path, onLine, options.signal);
    }
  } catch (error) {
    throw unreadable(error, last);
  }
  return check.summary;
}

/** Content of metadata.yaml and the templates, as checked: the sizes of the listing bound what is read. */
async function readMetadata(path: string, format: ArchiveFormat, summary: TreeSummary): Promise<Map<string, string>> {
  const entries = summary.metadata;
  const texts = new Map<string, string>();
  if (entries.length === 0 || format.kind === 'qcow2') return texts;
  const limit = entries.reduce((sum, entry) => sum + entry.size, 0);
  try {
    if (format.kind === 'squashfs') {
      for (const entry of entries) {
        const content = await collect(entry.size, (sink) => catSquashfs(path, argument(entry), sink));
        texts.set(fileName(entry), content.toString('utf8'));
      }
      return texts;
    }
    const { compression } = format;
    const content = await collect(limit, (sink) => catTar({ path, compression }, entries.map(argument), sink));
    let offset = 0;
    for (const entry of entries) {
      texts.set(fileName(entry), content.toString('utf8', offset, offset + entry.size));
      offset += entry.size;
    }
    return texts;
  } catch (error) {
    throw unreadable(error);
  }
}

/** The member's name as a command argument; only names that are UTF-8 survive the way there. */
function argument(entry: ArchiveEntry): string {
  const text = displayName(entry.name);
  if (Buffer.from(text, 'utf8').toString('latin1') !== entry.name)
    throw errors.badRequest(`Refused archive entry "${text}": its name is not UTF-8`);
  return text;
}

function fileName(entry: ArchiveEntry): string {
  return displayName(entry.name.slice(entry.name.lastIndexOf('/') + 1));
}

async function collect(size: number, produce: (sink: Writable) => Promise<void>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      length += chunk.length;
      chunks.push(chunk);
      done(length > size ? errors.badRequest('The image metadata is larger than the archive says') : null);
    },
  });
  await produce(sink);
  if (length !== size) throw errors.badRequest('The image metadata is shorter than the archive says');
  return Buffer.concat(chunks);
}

/** A tool that gave up on the archive means the archive is bad; everything else stays what it is. */
function unreadable(error: unknown, last = ''): unknown {
  if (error instanceof CommandError) {
    const place = last === '' ? '' : ` after entry "${last}"`;
    const reason = error.stderr.trim().split('\n')[0] ?? '';
    return errors.badRequest(`The image archive is damaged or ends early${place}: ${reason}`, error);
  }
  if (error instanceof RangeError) return errors.badRequest('Refused archive entry: its name is too long', error);
  return error;
}

const QCOW2_HEADER = 104;
const EXTERNAL_DATA_FILE = 4n;

/** Virtual size of a disk that stands alone. @throws bad-request when it points at other files of the host. */
async function checkQcow2(path: string): Promise<number> {
  await using file = await open(path, 'r');
  const head = Buffer.alloc(QCOW2_HEADER);
  const { bytesRead } = await file.read(head, 0, QCOW2_HEADER, 0);
  const refused = (reason: string): KeelsonError => errors.badRequest(`Refused disk image: ${reason}`);
  if (bytesRead < QCOW2_HEADER) throw refused('it is truncated');
  if (head.readBigUInt64BE(8) !== 0n) throw refused('it names a backing file');
  if (head.readUInt32BE(4) >= 3 && (head.readBigUInt64BE(72) & EXTERNAL_DATA_FILE) !== 0n)
    throw refused('it names an external data file');
  return Number(head.readBigUInt64BE(24));
}
