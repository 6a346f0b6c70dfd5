import { errors } from '../../core/errors.ts';
import { displayName, parseTarLine } from './entries.ts';
import { LinkPaths } from './link-paths.ts';

/** Member that tells what a backup is. */
export const INDEX = 'backup/index.yaml';
const MIB = 1024 ** 2;
const MAX_ENTRIES = 2_000_000;
/** What Linux takes as a path. */
const MAX_NAME = 4096;
/** Folders that everything else of a backup stands in. */
const FRAME =
  /^backup(\/(container(\/rootfs|\/templates)?|volume|(volume-)?snapshots|snapshots\/[^/]+\/(rootfs|templates)))?$/;
/** null, zero, full, random, urandom, the terminals, fuse, tun; and 0,0, with which overlays hide files. */
const DEVICE = /^character (?:0,0|1,(?:3|5|7|8|9)|4,\d+|5,(?:0|1|2)|1[34]\d,\d+|10,200|10,229)$/;

/** Refuses what could leave its folder when it is extracted. */
export class BackupCheck {
  hasIndex = false;
  whiteouts = false;
  textAcls = false;
  /** Files that are worth looking for holes in. */
  readonly large: string[] = [];
  /** Files at the top of the backup and beside its volumes, as extraction names them, and their bytes. */
  readonly files = new Map<string, number>();
  readonly #links = new LinkPaths();
  #entries = 0;

  add(line: string): void {
    const entry = parseTarLine(line);
    if (entry === undefined) throw errors.badRequest('The backup holds an entry of an unknown kind');
    if (line[10] === '+') this.textAcls = true;
    if (entry.name.length > MAX_NAME) throw errors.badRequest('The backup holds an entry whose name is too long');
    const name = entry.name.replace(/^\.\//, '').replace(/\/+$/, '');
    const parts = name.split('/');
    const volume = volumeOf(parts);
    const refuse = (why: string): never => {
      throw errors.badRequest(`Backup entry "${displayName(entry.name).slice(0, 200)}" ${why}`);
    };
    if (++this.#entries > MAX_ENTRIES) refuse('is one too many');
    if (parts[0] !== 'backup' || !isPlain(parts)) refuse('is outside the backup');
    if (this.#links.leadsTo(parts)) refuse('lies behind a link');
    if (entry.type === 'symlink') {
      if (parts.length <= volume.length || FRAME.test(name)) refuse('must be a folder or a file');
      this.#links.add(parts);
    } else this.#links.delete(parts);
    if (FRAME.test(name) && entry.type !== 'directory') refuse('must be a folder');
    if (entry.type === 'hardlink') {
      const target = (entry.link ?? '').replace(/^\.\//, '').split('/');
      if (!isPlain(target) || !volume.every((part, at) => target[at] === part)) refuse('links outside its volume');
      if (this.#links.leadsTo(target)) refuse('links to what lies behind a link');
      if (this.#links.has(target)) this.#links.add(parts); // it is that link, too
    }
    if (entry.device === '0,0') this.whiteouts = true;
    if ((entry.type === 'character' || entry.type === 'block') && !DEVICE.test(`${entry.type} ${entry.device ?? ''}`))
      refuse(`is a device (${entry.device ?? ''}) that a backup may not bring`);
    if (entry.type === 'file' && parts.length <= 3) this.files.set(name, entry.size);
    else if (entry.type === 'file' && entry.size >= MIB) this.large.push(name);
    if (name === INDEX) {
      if (entry.type !== 'file' || entry.size > MIB) refuse('is not a small file');
      this.hasIndex = true;
    }
  }
}

/** Whether a path has one way to be read only. */
function isPlain(parts: readonly string[]): boolean {
  return parts.every((part) => part !== '' && part !== '.' && part !== '..');
}

/** The part of a member's path that names its volume or snapshot: `backup/container`, `backup/snapshots/<name>`. */
function volumeOf(parts: readonly string[]): readonly string[] {
  return parts.slice(0, parts[1] === 'snapshots' || parts[1] === 'volume-snapshots' ? 3 : 2);
}
