import type { Readable, Writable } from 'node:stream';
import type { TarCompression } from '../archives/format.ts';
import { eachLine, runStream } from '../run-stream.ts';

/** Options that GNU tar takes for each compression; the decompressor runs as its child. */
const compressionFlag: Readonly<Record<TarCompression, readonly string[]>> = {
  none: [],
  gzip: ['--gzip'],
  xz: ['--xz'],
  zstd: ['--zstd'],
  bzip2: ['--bzip2'],
  lzma: ['--lzma'],
};

/** Address space of a tar that reads foreign bytes: a header may claim a name of many gigabytes. */
const MEMORY_LIMIT = 2 * 1024 ** 3;
const MAX_LINE = 64 * 1024;

export interface TarFile {
  readonly path: string;
  readonly compression: TarCompression;
}

function reading(tar: TarFile, action: readonly string[]): string[] {
  const args = ['--file', tar.path, '--force-local', ...compressionFlag[tar.compression], '--numeric-owner'];
  return [`--as=${MEMORY_LIMIT}`, '--core=0', 'tar', ...action, ...args];
}

/**
 * Lists every member as a line for `parseTarLine`; a `+` behind the mode tells an ACL that is a text. The program that lists is the one that extracts, so both see
 * the same names. @throws CommandError when the archive is damaged or ends early, what `onLine` throws.
 */
export async function listTar(tar: TarFile, onLine: (line: string) => void, signal?: AbortSignal): Promise<void> {
  const format = ['--quoting-style=c', '--acls', '--full-time', '--absolute-names', '--verbose'];
  await runStream('prlimit', [...reading(tar, ['--list']), ...format], {
    stdout: (output) => eachLine(output, MAX_LINE, onLine),
    ...(signal === undefined ? {} : { signal }),
  });
}

/** Content of the named members one after the other, in the order of the archive; stops once all were found. */
export async function catTar(tar: TarFile, names: readonly string[], sink: Writable): Promise<void> {
  const args = reading(tar, ['--extract', '--to-stdout', '--occurrence=1', '--no-recursion', '--no-wildcards']);
  await runStream('prlimit', [...args, '--', ...names], { stdout: sink });
}

export interface ExtractTarOptions {
  /** Only these members and what is below them; default all. */
  readonly members?: readonly string[];
  /** How the archive holds ACLs; default `text`, as `tar --acls` does. LXD's tarballs have them as attributes. */
  readonly acls?: 'text' | 'attributes';
  /** Leading path parts to drop. */
  readonly strip?: number;
  readonly signal?: AbortSignal;
}

/**
 * Extracts a checked archive as root: owners by number, modes, user and capability attributes, ACLs, hard links,
 * holes. Attributes of class `trusted` stay behind: on overlayfs they would steer the kernel.
 */
export async function extractTar(tar: TarFile, target: string, options: ExtractTarOptions = {}): Promise<void> {
  const args = [
    ...reading(tar, ['--extract']),
    '--directory',
    target,
    '--same-owner',
    '--same-permissions',
    '--delay-directory-restore',
    // With --acls a member without a text loses the ACL that its attributes bring.
    ...(options.acls === 'attributes' ? ['--xattrs-include=system.posix_acl_*'] : ['--acls']),
    '--xattrs',
    '--xattrs-include=user.*',
    '--xattrs-include=security.capability',
    `--strip-components=${options.strip ?? 0}`,
    '--no-wildcards',
    ...(options.members === undefined ? [] : ['--', ...options.members]),
  ];
  await runStream('prlimit', args, options.signal === undefined ? {} : { signal: options.signal });
}

export interface PackTarOptions {
  /** Prefix of every member: `rootfs` makes `rootfs/etc/…`. Must be a plain word. */
  readonly prefix: string;
  /** Runs inside this user namespace map, so that members carry guest ids. */
  readonly idRange?: { readonly base: number; readonly size: number };
  readonly signal?: AbortSignal;
}

/**
 * Program and arguments that pack the folder they run in to standard output, each member below `prefix`: characters
 * that `sed` would obey are escaped by the caller. `idRange` is the user namespace map to run in.
 */
export function packCommand(
  prefix: string,
  idRange: PackTarOptions['idRange'],
  more: readonly string[],
): readonly [program: string, args: readonly string[]] {
  const args = [
    '--create',
    '--file=-',
    '--format=posix',
    '--numeric-owner',
    '--xattrs',
    '--xattrs-include=user.*',
    '--xattrs-include=security.capability',
    '--sparse',
    '--one-file-system',
    ...more,
    `--transform=flags=rSh;s,^\\.\\(/\\|$\\),${prefix}\\1,`,
    '.',
  ];
  if (idRange === undefined) return ['tar', args];
  return ['lxc-usernsexec', ['-m', `b:0:${idRange.base}:${idRange.size}`, '--', 'tar', ...args]];
}

/** Streams the content of a folder as an uncompressed tar. Sockets are left out; the folder is the process's cwd. */
export async function packTar(
  folder: string,
  options: PackTarOptions,
  sink: (output: Readable) => Promise<void>,
): Promise<void> {
  const [name, args] = packCommand(options.prefix, options.idRange, ['--acls', '--warning=no-file-ignored']);
  // 1: a file changed while it was read, which a running guest does all the time.
  await runStream(name, args, {
    cwd: folder,
    stdout: sink,
    ok: [0, 1],
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
}

/** Command that compresses its standard input to its standard output. */
export function compressCommand(compression: Exclude<TarCompression, 'none'>): readonly [string, readonly string[]] {
  const commands: Readonly<Record<Exclude<TarCompression, 'none'>, readonly [string, readonly string[]]>> = {
    gzip: ['gzip', ['-c', '-n']],
    xz: ['xz', ['-c', '-T0']],
    zstd: ['zstd', ['-c', '-q', '-T0']],
    bzip2: ['bzip2', ['-c']],
    lzma: ['xz', ['-c', '--format=lzma']],
  };
  return commands[compression];
}
