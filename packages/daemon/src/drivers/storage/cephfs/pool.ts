import { chmod, mkdir, readdir, rmdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errors, isKeelsonError } from '../../../core/errors.ts';
import { KeyedQueue } from '../../../core/keyed-queue.ts';
import type { Log } from '../../../core/log.ts';
import { pathExists, removeTree } from '../../../host/files.ts';
import { isMountPoint, readMounts, unmountAll } from '../../../host/mounts.ts';
import { NoAnswerError, ReachProbe } from '../../../host/reach.ts';
import { CommandError } from '../../../host/run.ts';
import { errnoOf } from '../../../host/syscalls.ts';
import { askCephfs, cephfsClient, cephfsSpace, type CephfsMount, mountCephfs } from '../../../host/tools/cephfs.ts';
import { FolderRecovery, OWN_NOTES } from '../common/recovery.ts';
import { Trash } from '../common/trash.ts';
import type { PoolRecovery, PoolSpec, Quota, Roots, Snapshots, StoragePool, VolumeRef, Volumes } from '../contract.ts';
import type { CephfsContext } from './context.ts';
import { snapshotFolder } from './context.ts';
import { sourceOf } from './source.ts';
import { CephfsVolumes, quotaOf, snapshotsOf } from './volumes.ts';

export interface CephfsHost {
  readonly newId: () => string;
  readonly log: Log;
  /** Where the configurations of clusters are. */
  readonly cephFolder: string;
}

const FOLDERS = ['custom', 'staging', 'trash'];

/** A folder of a CephFS, mounted at the pool's path. */
export class CephfsPool implements StoragePool {
  spec: PoolSpec;
  readonly volumes: Volumes;
  readonly roots: Roots = noRoots;
  readonly snapshots: Snapshots;
  readonly quota: Quota;
  readonly recovery: PoolRecovery;
  #mapsIds = true;
  #mounting: Promise<void> | undefined;
  readonly #source: CephfsMount;
  readonly #pool: CephfsContext;
  readonly #volumes: CephfsVolumes;
  readonly #probe: ReachProbe;

  constructor(spec: PoolSpec, { newId, log, cephFolder }: CephfsHost) {
    this.spec = spec;
    this.#source = sourceOf(spec, cephFolder);
    const { path } = spec;
    this.#probe = new ReachProbe(() => askCephfs(path));
    const trash = new Trash({ folder: join(path, 'trash'), newId, log, purge });
    const ready = () => this.#ready();
    this.#pool = { path, staging: join(path, 'staging'), trash, queue: new KeyedQueue(), newId, ready };
    this.#volumes = new CephfsVolumes(this.#pool);
    this.volumes = this.#volumes;
    this.snapshots = snapshotsOf(this.#volumes);
    this.quota = quotaOf(this.#volumes);
    this.recovery = recoveryOf(this.#pool, this.snapshots);
  }

  /** The kernel maps ids of its own client's mounts, not of a process's. */
  get mapsIds(): boolean {
    return this.#mapsIds;
  }

  async mount(): Promise<void> {
    const { path } = this.spec;
    await this.#ready();
    const mounted = (await readMounts()).findLast(({ target }) => target === path);
    this.#mapsIds = mounted?.type === 'ceph';
    for (const name of FOLDERS) {
      await mkdir(join(path, name), { recursive: true });
      await chmod(join(path, name), 0o700);
    }
    await chmod(path, 0o711);
  }

  async unmount(): Promise<void> {
    if (!isMountPoint(this.spec.path)) return;
    await this.#ready();
    await this.#pool.trash.close();
    await unmountAll(this.spec.path);
  }

  /** The folder in the file system goes too, when nothing else is in it. */
  async destroy(): Promise<void> {
    const { path } = this.spec;
    if (!isMountPoint(path)) {
      try {
        await this.#mount();
      } catch (error) {
        if (!isKeelsonError(error, 'not-found')) throw error;
      }
    }
    if (isMountPoint(path)) {
      await this.#ready();
      await this.#pool.trash.close();
      for (const name of [...FOLDERS, OWN_NOTES]) await purge(join(path, name));
      await unmountAll(path, { lazy: true }); // the pool's own trash may still be at work
      if (this.#source.folder !== '/')
        await this.withFileSystem((root) => removeEmpty(join(root, this.#source.folder)));
    }
    await rmdir(path).catch(() => undefined);
  }

  async update(config: Readonly<Record<string, string>>): Promise<void> {
    for (const key of FIXED_KEYS) {
      if ((config[key] ?? '') !== (this.spec.config[key] ?? ''))
        throw errors.badRequest(`Invalid option "${key}": it cannot change while the pool is there`);
    }
    this.spec = { ...this.spec, config };
  }

  async resources(): Promise<{ space: { used: number; total: number }; inodes: { used: number; total: number } }> {
    await this.#ready();
    try {
      return { space: await cephfsSpace(this.spec.path), inodes: { used: 0, total: 0 } };
    } catch (error) {
      throw this.#unreachable(error);
    }
  }

  async recover(_known: readonly VolumeRef[]): Promise<void> {
    await this.#ready();
    await this.#volumes.recover();
    await this.#pool.trash.resume();
  }

  /** Whether the pool's folder is empty, or not there yet. @throws bad-request when the file system is not. */
  async isEmptySource(): Promise<boolean> {
    return (await this.#content()).length === 0;
  }

  /** Whether the pool's folder holds a pool. @throws as `isEmptySource`. */
  async holdsPool(): Promise<boolean> {
    return (await this.#content()).includes('custom');
  }

  /** What is in the pool's folder. */
  async #content(): Promise<readonly string[]> {
    const { path } = this.spec;
    try {
      await this.#mount();
    } catch (error) {
      if (!isKeelsonError(error, 'not-found')) throw error;
      await this.#assertFileSystem();
      return [];
    } finally {
      if (!isMountPoint(path)) await rmdir(path).catch(() => undefined);
    }
    try {
      return await readdir(path);
    } finally {
      await unmountAll(path);
      await rmdir(path);
    }
  }

  /** Calls `use` with the root of the whole file system, mounted at the pool's path. @throws not-found. */
  async withFileSystem(use: (root: string) => Promise<unknown>): Promise<void> {
    const { path } = this.spec;
    await this.#mount('/');
    try {
      await use(path);
    } finally {
      await unmountAll(path);
    }
  }

  /** @throws bad-request in LXD's words when there is no such file system. */
  async #assertFileSystem(): Promise<void> {
    try {
      await this.withFileSystem(() => Promise.resolve());
    } catch (error) {
      if (isKeelsonError(error, 'not-found'))
        throw errors.badRequest(`The requested '${this.#source.fileSystem}' CEPHFS doesn't exist`, error);
      throw error;
    } finally {
      await rmdir(this.spec.path).catch(() => undefined);
    }
  }

  async #mount(folder = this.#source.folder): Promise<void> {
    const found = await cephfsClient();
    if ('reason' in found) throw errors.unavailable(found.reason);
    if (!(await pathExists(this.#source.conf)))
      throw errors.unavailable(`The configuration "${this.#source.conf}" of the Ceph cluster doesn't exist`);
    await mkdir(this.spec.path, { recursive: true, mode: 0o711 });
    await mountCephfs(found.client, { ...this.#source, folder }, this.spec.path);
  }

  /** What is not mounted is mounted, and a mount whose process died is made anew. */
  async #ready(): Promise<void> {
    if (!isMountPoint(this.spec.path)) return (this.#mounting ??= this.#mountOnce());
    try {
      await this.#probe.check();
    } catch (error) {
      if (!(error instanceof CommandError && /not connected/.test(error.stderr))) throw this.#unreachable(error);
      await unmountAll(this.spec.path, { lazy: true });
      await (this.#mounting ??= this.#mountOnce());
    }
  }

  async #mountOnce(): Promise<void> {
    try {
      await this.#mount();
    } finally {
      this.#mounting = undefined;
    }
  }

  #unreachable(error: unknown): unknown {
    const { fileSystem } = this.#source;
    if (error instanceof NoAnswerError)
      return errors.unavailable(`CephFS "${fileSystem}" does not answer; it is tried again at the next use`, error);
    if (error instanceof CommandError)
      return errors.unavailable(`CephFS "${fileSystem}" cannot be used: ${error.stderr.trim()}`, error);
    return error;
  }
}

/** A pool stays where it was made, and whom it asks is part of that. */
const FIXED_KEYS = ['cephfs.cluster_name', 'cephfs.path', 'cephfs.user.name', 'cephfs.fscache'];

const refuse = (): Promise<never> => Promise.reject(errors.badRequest('Storage pool does not support instance type'));

const noRoots: Roots = {
  createFromImage: refuse,
  createFilled: refuse,
  copy: refuse,
  mount: refuse,
  unmount: async () => undefined,
  imageOf: async () => undefined,
};

/** As of a pool in folders, once the file system answers; every volume of it is a file system. */
function recoveryOf({ path, ready }: CephfsContext, snapshots: Snapshots): PoolRecovery {
  const folders = new FolderRecovery({ path, snapshotsOf: (volume) => snapshots.list(volume), adopt: refuse });
  const after = <T>(work: () => Promise<T>): Promise<T> => ready().then(work);
  return {
    scan: () =>
      after(async () =>
        (await folders.scan()).map((found) => ({ ...found, volume: { ...found.volume, contentType: 'filesystem' } })),
      ),
    describe: (volume, files) => after(() => folders.describe(volume, files)),
    forget: (volume) => after(() => folders.forget(volume)),
    read: (volume, name) => after(() => folders.read(volume, name)),
    adopt: (volume, options) => folders.adopt(volume, options),
  };
}

async function removeEmpty(path: string): Promise<void> {
  try {
    await rmdir(path);
  } catch (error) {
    if (errnoOf(error) !== 'ENOTEMPTY' && errnoOf(error) !== 'ENOENT') throw error;
  }
}

/** Removes a tree; a folder with snapshots, a guest's own among them, is not empty for `rm`. */
async function purge(path: string): Promise<void> {
  if (!(await pathExists(path))) return;
  if ((await stat(path)).isDirectory()) await dropSnapshots(path, false);
  try {
    await removeTree(path);
  } catch {
    await dropSnapshots(path, true);
    await removeTree(path);
  }
}

async function dropSnapshots(folder: string, deep: boolean): Promise<void> {
  for (const name of await readdir(snapshotFolder(folder))) {
    if (!name.startsWith('_')) await rmdir(snapshotFolder(folder, name));
  }
  for (const entry of deep ? await readdir(folder, { withFileTypes: true }) : []) {
    if (entry.isDirectory()) await dropSnapshots(join(folder, entry.name), true);
  }
}
