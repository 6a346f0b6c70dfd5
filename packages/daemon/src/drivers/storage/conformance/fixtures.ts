import { execFileSync } from 'node:child_process';
import {
  chmod,
  chown,
  link,
  lstat,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { IdRange, PoolSpec, RootOptions, StorageDriver, StoragePool, VolumeRef } from '../contract.ts';

export interface ConformanceTarget {
  /** A driver of its own, as a daemon that just started has one. */
  readonly newDriver: () => StorageDriver;
  /** Pool definition; `folder` is scratch space on the file system under test. */
  readonly spec: (folder: string) => PoolSpec;
  /** Where scratch folders are made; default the system's temporary folder. */
  readonly base?: string;
  /** What the services say of every volume; default nothing. */
  readonly volumeConfig?: Readonly<Record<string, string>>;
  /** `newest`: a snapshot with later ones is not restored while they are there. Default `any`. */
  readonly restores?: 'any' | 'newest';
  /** `own`: roots are laid out otherwise than LXD does. */
  readonly layout?: 'own';
  /** Snapshots that are many for this driver; default 40. */
  readonly many?: number;
  /** Native streams say when their data changed on the way; default true. */
  readonly checksums?: boolean;
}

export const RANGE: IdRange = { base: 1_000_000, size: 65_536 };
export const OTHER: IdRange = { base: 2_000_000, size: 65_536 };
export const image: VolumeRef = { type: 'image', name: 'a'.repeat(64), contentType: 'filesystem' };

export function container(name: string): VolumeRef {
  return { type: 'container', name, contentType: 'filesystem' };
}

export function custom(name: string, contentType: VolumeRef['contentType'] = 'filesystem'): VolumeRef {
  return { type: 'custom', name, contentType };
}

/** A pool of the driver under test with one image, and short ways to look into roots. */
export class ConformanceWorld {
  readonly target: ConformanceTarget;
  readonly config: Readonly<Record<string, string>>;
  #folder = '';
  #spec: PoolSpec | undefined;
  #pool: StoragePool | undefined;

  constructor(target: ConformanceTarget) {
    this.target = target;
    this.config = target.volumeConfig ?? {};
  }

  get pool(): StoragePool {
    if (this.#pool === undefined) throw new Error('the pool was not made');
    return this.#pool;
  }

  get spec(): PoolSpec {
    if (this.#spec === undefined) throw new Error('the pool was not made');
    return this.#spec;
  }

  async open(): Promise<void> {
    this.#folder = await mkdtemp(join(this.target.base ?? tmpdir(), 'storage-conformance-'));
    const asked = this.target.spec(this.#folder);
    const driver = this.target.newDriver();
    this.#spec = { ...asked, config: await driver.prepare(asked) };
    await driver.create(this.#spec);
    this.#pool = driver.open(this.#spec);
    await this.#pool.mount();
    await this.#pool.volumes.createFilled(image, fillImage, { config: this.config });
  }

  async close(): Promise<void> {
    await this.#pool?.destroy();
    if (this.#folder !== '') await rm(this.#folder, { recursive: true, force: true });
  }

  /** The pool as a daemon sees it that was killed and started again. */
  readonly reopen = async (): Promise<void> => {
    this.#pool = this.target.newDriver().open(this.spec);
    await this.#pool.mount();
    await this.#pool.recover([]);
  };

  readonly options = (idRange: IdRange | undefined = RANGE, nesting = false): RootOptions => ({
    idRange,
    clone: 'auto',
    nesting,
    config: this.config,
  });

  /** Calls `use` with the mounted root and what to add to a guest's ids there. */
  readonly withRoot = async <T>(
    volume: VolumeRef,
    use: (path: string, base: number) => Promise<T>,
    how: RootOptions = this.options(),
  ): Promise<T> => {
    const { path, ids } = await this.pool.roots.mount(volume, how);
    try {
      return await use(path, ids === 'shifted' ? (how.idRange?.base ?? 0) : 0);
    } finally {
      await this.pool.roots.unmount(volume);
    }
  };

  readonly read = (volume: VolumeRef, file: string): Promise<string> =>
    this.withRoot(volume, (path) => readFile(join(path, file), 'utf8'));

  readonly write = (volume: VolumeRef, file: string, text: string): Promise<void> =>
    this.withRoot(volume, async (path, base) => {
      await writeFile(join(path, file), text);
      await chown(join(path, file), base, base);
    });
}

/** Bytes of a file or a block device. */
export async function sizeAt(path: string): Promise<number> {
  const found = await stat(path);
  if (!found.isBlockDevice()) return found.size;
  return Number(execFileSync('blockdev', ['--getsize64', path], { encoding: 'utf8' }));
}

/** An image volume with the tree below as its root. */
export async function fillImage(folder: string): Promise<void> {
  await mkdir(join(folder, 'rootfs'));
  await fillTree(join(folder, 'rootfs'));
  await chmod(join(folder, 'rootfs'), 0o755);
}

/** A small tree with everything a copy can lose. */
export async function fillTree(root: string): Promise<void> {
  await mkdir(join(root, 'etc'));
  await writeFile(join(root, 'etc/hostname'), 'image');
  await chown(join(root, 'etc/hostname'), 1, 2);
  await mkdir(join(root, 'bin'));
  await writeFile(join(root, 'bin/tool'), '#!');
  await chmod(join(root, 'bin/tool'), 0o4755);
  await link(join(root, 'bin/tool'), join(root, 'bin/tool2'));
  await symlink('/etc/hostname', join(root, 'bin/link'));
  await mkdir(join(root, 'srv'));
  const sparse = await open(join(root, 'srv/data'), 'w');
  await sparse.truncate(1024 * 1024);
  await sparse.close();
  execFileSync('setfattr', ['-n', 'user.note', '-v', 'kept', join(root, 'etc/hostname')]);
}

/** Everything a copy can lose, line by line. */
export async function manifestOf(root: string): Promise<string[]> {
  const lines: string[] = [];
  for (const entry of (await readdir(root, { recursive: true })).sort()) {
    const found = await lstat(join(root, entry));
    const { mode, uid, gid, nlink, blocks } = found;
    const size = found.isDirectory() ? 0 : found.size; // a folder's is the file system's own affair
    lines.push([entry, mode.toString(8), uid, gid, size, nlink, size > 0 && blocks === 0 ? 'sparse' : ''].join(' '));
  }
  const note = execFileSync('getfattr', [
    '--absolute-names',
    '--only-values',
    '-n',
    'user.note',
    join(root, 'etc/hostname'),
  ]);
  return [...lines, note.toString()];
}

/** Mounts whose target starts so. */
export function mountsBelow(prefix: string): { target: string; type: string }[] {
  return execFileSync('findmnt', ['--list', '--noheadings', '--output', 'TARGET,FSTYPE'], { encoding: 'utf8' })
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .map(([target = '', type = '']) => ({ target, type }))
    .filter(({ target }) => target.startsWith(prefix));
}
