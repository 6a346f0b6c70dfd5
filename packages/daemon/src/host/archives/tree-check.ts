import { errors, type KeelsonError } from '../../core/errors.ts';
import { type ArchiveEntry, displayName, type EntryType } from './entries.ts';

/** Bounds that every archive has to keep. */
export interface ArchiveLimits {
  /** Bytes of all files once extracted. */
  readonly totalBytes: number;
  /** Extracted bytes may be this many times the archive's own size … */
  readonly ratio: number;
  /** … once they exceed this. */
  readonly ratioFloor: number;
  readonly entries: number;
  /** Bytes of metadata.yaml. */
  readonly metadataBytes: number;
  /** Bytes of one template, and of all. */
  readonly templateBytes: number;
  readonly templatesBytes: number;
}

const MiB = 1024 ** 2;
const GiB = 1024 ** 3;

export const DEFAULT_LIMITS: ArchiveLimits = {
  totalBytes: 1024 * GiB,
  ratio: 200,
  ratioFloor: 2 * GiB,
  entries: 5_000_000,
  metadataBytes: MiB,
  templateBytes: MiB,
  templatesBytes: 8 * MiB,
};

/** `root`: a root file system. `unified`: metadata.yaml, templates/ and rootfs/. `metadata`: the first two alone. */
export type ArchiveContent = 'root' | 'unified' | 'metadata';

/** What a clean archive holds. */
export interface TreeSummary {
  readonly entries: number;
  readonly bytes: number;
  /** metadata.yaml and the regular files directly in templates/, in the archive's order. */
  readonly metadata: readonly ArchiveEntry[];
  /** How the archive writes `rootfs`: with or without `./`; empty when there is none. */
  readonly rootNames: readonly string[];
  /** `rootfs.img`: the archive is a virtual machine's. */
  readonly disk: ArchiveEntry | undefined;
}

/** Devices a root file system may carry in dev/: null, zero, full, random, urandom, terminals, fuse and tun. */
const HARMLESS_DEVICE = /^(?:1,(?:3|5|7|8|9)|4,\d+|5,(?:0|1|2)|1[34]\d,\d+|10,200|10,229)$/;
const MAX_NAME = 4096;

/**
 * Checks the members of one archive in their order, one call each; refuses what could reach beyond the extracted
 * tree or what two readers could understand differently. Holds one map entry per member.
 */
export class TreeCheck {
  readonly #content: ArchiveContent;
  readonly #limits: ArchiveLimits;
  readonly #maxBytes: number;
  readonly #seen = new Map<string, ArchiveEntry>();
  readonly #metadata: ArchiveEntry[] = [];
  readonly #rootNames = new Set<string>();
  #count = 0;
  #bytes = 0;
  #templatesBytes = 0;
  #disk: ArchiveEntry | undefined;

  constructor(content: ArchiveContent, archiveBytes: number, limits: ArchiveLimits = DEFAULT_LIMITS) {
    this.#content = content;
    this.#limits = limits;
    this.#maxBytes = Math.min(limits.totalBytes, Math.max(limits.ratioFloor, limits.ratio * archiveBytes));
  }

  /** @throws bad-request naming the entry. */
  add(entry: ArchiveEntry): void {
    const path = this.#path(entry);
    this.#count += 1;
    this.#bytes += entry.size;
    if (this.#count > this.#limits.entries) throw errors.badRequest('Archive has too many entries');
    if (this.#bytes > this.#maxBytes) throw refuse(entry, `the archive unpacks to more than ${this.#maxBytes} bytes`);
    this.#checkDuplicate(path, entry);
    this.#checkParents(path, entry);
    this.#checkDevice(path, entry);
    this.#checkHardLink(path, entry);
    if (path === '.' && entry.type !== 'directory') throw refuse(entry, 'the root must be a directory');
    if (this.#content !== 'root') this.#checkTop(path, entry);
    this.#seen.set(path, entry);
  }

  get summary(): TreeSummary {
    return {
      entries: this.#count,
      bytes: this.#bytes,
      metadata: this.#metadata,
      rootNames: [...this.#rootNames],
      disk: this.#disk,
    };
  }

  #path(entry: ArchiveEntry): string {
    return canonicalPath(entry.name, (reason) => refuse(entry, reason));
  }

  #checkDuplicate(path: string, entry: ArchiveEntry): void {
    const before = this.#seen.get(path);
    if (before === undefined || (before.type === 'directory' && entry.type === 'directory')) return;
    if (before.type !== entry.type)
      throw refuse(entry, `it appears first as a ${before.type}, then as a ${entry.type}`);
    throw refuse(entry, 'it appears twice');
  }

  /** Every parent that the archive names must be a directory, so that nothing is written through a link. */
  #checkParents(path: string, entry: ArchiveEntry): void {
    for (let slash = path.lastIndexOf('/'); slash > 0; slash = path.lastIndexOf('/', slash - 1)) {
      const parent = this.#seen.get(path.slice(0, slash));
      if (parent === undefined) continue;
      if (parent.type !== 'directory') throw refuse(entry, `its parent is a ${parent.type}`);
      return;
    }
  }

  #checkDevice(path: string, entry: ArchiveEntry): void {
    if (entry.type !== 'character' && entry.type !== 'block') return;
    const folder = this.#content === 'unified' ? 'rootfs/dev/' : 'dev/';
    const allowed = entry.type === 'character' && path.startsWith(folder) && HARMLESS_DEVICE.test(entry.device ?? '');
    if (!allowed || this.#content === 'metadata')
      throw refuse(entry, `device node ${entry.device ?? ''} is not allowed`);
  }

  #checkHardLink(path: string, entry: ArchiveEntry): void {
    if (entry.type !== 'hardlink') return;
    const target = canonicalPath(entry.link ?? '', (reason) =>
      refuse(entry, `its hard link target is refused: ${reason}`),
    );
    const found = this.#seen.get(target);
    if (found === undefined)
      throw refuse(entry, `it is a hard link to "${displayName(target)}", which does not come before it`);
    if (found.type === 'directory') throw refuse(entry, 'it is a hard link to a directory');
    if (this.#content === 'unified' && top(path) !== top(target)) throw refuse(entry, 'its hard link leaves the root');
  }

  #checkTop(path: string, entry: ArchiveEntry): void {
    const first = top(path);
    if (first === 'metadata.yaml') this.#checkMetadata(entry);
    else if (first === 'templates') this.#checkTemplate(path, entry);
    else if (first === 'rootfs') this.#checkRoot(path, entry);
    else if (path === 'rootfs.img' && entry.type === 'file') this.#disk = entry;
    else if (path !== '.' && entry.type !== 'file' && entry.type !== 'directory')
      throw refuse(entry, `a ${entry.type} is not allowed outside rootfs`);
  }

  #checkMetadata(entry: ArchiveEntry): void {
    if (entry.type !== 'file') throw refuse(entry, `it must be a regular file, not a ${entry.type}`);
    if (entry.size > this.#limits.metadataBytes)
      throw refuse(entry, `it is larger than ${this.#limits.metadataBytes} bytes`);
    this.#metadata.push(entry);
  }

  #checkTemplate(path: string, entry: ArchiveEntry): void {
    const folder = path === 'templates';
    const wanted: EntryType = folder ? 'directory' : 'file';
    if (entry.type !== wanted && !(entry.type === 'directory' && !folder))
      throw refuse(entry, `it must be a regular ${wanted}, not a ${entry.type}`);
    if (entry.type === 'directory') return;
    if (entry.size > this.#limits.templateBytes)
      throw refuse(entry, `it is larger than ${this.#limits.templateBytes} bytes`);
    this.#templatesBytes += entry.size;
    if (this.#templatesBytes > this.#limits.templatesBytes) throw refuse(entry, 'the templates are too large together');
    if (!path.slice('templates/'.length).includes('/')) this.#metadata.push(entry);
  }

  #checkRoot(path: string, entry: ArchiveEntry): void {
    if (this.#content === 'metadata') return;
    if (path === 'rootfs' && entry.type !== 'directory')
      throw refuse(entry, `it must be a directory, not a ${entry.type}`);
    this.#rootNames.add(entry.name.startsWith('./') ? './rootfs' : 'rootfs');
  }
}

/** The one spelling of a member's path: no leading `./`, no trailing slash; `.` for the top. */
function canonicalPath(name: string, refused: (reason: string) => KeelsonError): string {
  if (name.length > MAX_NAME) throw refused('the name is too long');
  if (name.startsWith('/')) throw refused('absolute paths are not allowed');
  const path = name.replace(/^\.\//, '').replace(/\/$/, '');
  if (path === '' || path === '.') {
    if (name === '') throw refused('the name is empty');
    return '.';
  }
  for (const segment of path.split('/')) {
    if (segment === '..') throw refused('".." is not allowed in a path');
    if (segment === '' || segment === '.') throw refused('the path is not in its plain form');
    if (segment.includes('\0')) throw refused('the name holds a zero byte');
  }
  return path;
}

function top(path: string): string {
  const slash = path.indexOf('/');
  return slash < 0 ? path : path.slice(0, slash);
}

function refuse(entry: ArchiveEntry, reason: string): KeelsonError {
  return errors.badRequest(`Refused archive entry "${displayName(entry.name)}": ${reason}`);
}
