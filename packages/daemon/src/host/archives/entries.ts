/** What stands in an archive under one name. */
export type EntryType = 'file' | 'directory' | 'symlink' | 'hardlink' | 'character' | 'block' | 'fifo' | 'socket';

/**
 * One member as the extracting program itself reads it. Names hold one character per byte (latin1), so that two
 * names are equal exactly when their bytes are; `displayName` turns one into text.
 */
export interface ArchiveEntry {
  readonly name: string;
  readonly type: EntryType;
  /** Bytes of the content once extracted (apparent size of a sparse file); 0 for everything but files. */
  readonly size: number;
  /** Target of a symbolic or hard link. */
  readonly link?: string;
  /** `major,minor` of a device. */
  readonly device?: string;
}

const types: Readonly<Record<string, EntryType>> = {
  '-': 'file',
  d: 'directory',
  l: 'symlink',
  h: 'hardlink',
  c: 'character',
  b: 'block',
  p: 'fifo',
  s: 'socket',
};

export function displayName(name: string): string {
  return Buffer.from(name, 'latin1').toString('utf8');
}

const TAR_LINE =
  /^(.)[-rwxsStT]{9}\S* +\d+\/\d+ +(\d+|\d+,\d+) [^"]*"((?:[^"\\]|\\.)*)"(?: (?:->|link to) "((?:[^"\\]|\\.)*)")?$/;

/** A line of `tar --list --verbose --numeric-owner --quoting-style=c`; undefined when it is not one we understand. */
export function parseTarLine(line: string): ArchiveEntry | undefined {
  const match = TAR_LINE.exec(line);
  const type = types[match?.[1] ?? ''];
  const [size, name, link] = [match?.[2], match?.[3], match?.[4]];
  if (type === undefined || type === 'socket' || size === undefined || name === undefined) return undefined;
  return entry({ type, name: unquote(name), size }, link === undefined ? undefined : unquote(link));
}

const SQUASHFS_LINE =
  /^(.)[-rwxsStT]{9} +\d+\/\d+ +(\d+|\d+, *\d+) \d{4,}-\d\d-\d\d \d\d:\d\d squashfs-root(?:\/(.*))?$/;

/** A line of `unsquashfs -lln`; the root itself has the name `.`. Undefined when it is not one we understand. */
export function parseSquashfsLine(line: string): ArchiveEntry | undefined {
  const match = SQUASHFS_LINE.exec(line);
  const type = types[match?.[1] ?? ''];
  const size = match?.[2];
  if (type === undefined || type === 'hardlink' || size === undefined) return undefined;
  const path = match?.[3] ?? '.';
  // A name may itself hold " -> "; for the name we keep all, for the target only what follows the last arrow.
  const arrow = type === 'symlink' ? path.lastIndexOf(' -> ') : -1;
  return entry(
    { type, name: arrow < 0 ? path : path.slice(0, arrow), size },
    arrow < 0 ? undefined : path.slice(arrow + 4),
  );
}

function entry(found: { type: EntryType; name: string; size: string }, link: string | undefined): ArchiveEntry {
  const { type, name } = found;
  const device = type === 'character' || type === 'block';
  if (device !== found.size.includes(',')) return { name, type, size: 0, device: 'unknown' };
  return {
    name,
    type,
    size: type === 'file' ? Number(found.size) : 0,
    ...(link === undefined ? {} : { link }),
    ...(device ? { device: found.size.replace(/\s/g, '') } : {}),
  };
}

const escapes: Readonly<Record<string, string>> = {
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};

/** Undoes C quoting: `\n`, `\"`, `\\`, `\ooo`. */
function unquote(quoted: string): string {
  return quoted.replace(/\\([0-7]{3}|.)/g, (_, code: string) =>
    code.length === 3 ? String.fromCharCode(Number.parseInt(code, 8)) : (escapes[code] ?? code),
  );
}
