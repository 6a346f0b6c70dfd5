import { errors } from '../../core/errors.ts';
import { displayName, parseTarLine } from './entries.ts';

/** Member that tells what a backup is. */
export const INDEX = 'backup/index.yaml';
const MIB = 1024 ** 2;
const MAX_ENTRIES = 2_000_000;
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
  /** Files at the top of the backup and beside its volumes, as extraction names them. */
  readonly files = new Set<string>();
  readonly #links = new Set<string>();
  #entries = 0;

  add(line: string): void {
    const entry = parseTarLine(line);
    if (entry === undefined) throw errors.badRequest('The backup holds an entry of an unknown kind');
    if (line[10] === '+') this.textAcls = true;
    const name = entry.name.replace(/^\.\//, '').replace(/\/+$/, '');
    const parts = name.split('/');
    const volume = volumeOf(parts);
    const refuse = (why: string): never => {
      throw errors.badRequest(`Backup entry "${displayName(entry.name).slice(0, 200)}" ${why}`);
    };
    if (++this.#entries > MAX_ENTRIES) refuse('is one too many');
    if (parts[0] !== 'backup' || parts.includes('..') || parts.includes('')) refuse('is outside the backup');
    for (let end = parts.length - 1; end > 0; end--) {
      if (this.#links.has(parts.slice(0, end).join('/'))) refuse('lies behind a link');
    }
    if (entry.type === 'symlink') {
      if (parts.length <= volume.length || FRAME.test(name)) refuse('must be a folder or a file');
      this.#links.add(name);
    } else this.#links.delete(name);
    if (FRAME.test(name) && entry.type !== 'directory') refuse('must be a folder');
    if (entry.type === 'hardlink') {
      const target = (entry.link ?? '').replace(/^\.\//, '').split('/');
      if (target.includes('..') || !volume.every((part, at) => target[at] === part)) refuse('links outside its volume');
    }
    if (entry.device === '0,0') this.whiteouts = true;
    if ((entry.type === 'character' || entry.type === 'block') && !DEVICE.test(`${entry.type} ${entry.device ?? ''}`))
      refuse(`is a device (${entry.device ?? ''}) that a backup may not bring`);
    if (entry.type === 'file' && parts.length <= 3) this.files.add(name);
    else if (entry.type === 'file' && entry.size >= MIB) this.large.push(name);
    if (name === INDEX) {
      if (entry.type !== 'file' || entry.size > MIB) refuse('is not a small file');
      this.hasIndex = true;
    }
  }
}

/** The part of a member's path that names its volume or snapshot: `backup/container`, `backup/snapshots/<name>`. */
function volumeOf(parts: readonly string[]): readonly string[] {
  return parts.slice(0, parts[1] === 'snapshots' || parts[1] === 'volume-snapshots' ? 3 : 2);
}
