import { chmod, mkdir, readdir, rmdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { KeyedQueue } from '../../../core/keyed-queue.ts';
import type { Log } from '../../../core/log.ts';
import { pathExists, removeTree } from '../../../host/files.ts';
import type { UserNamespaces } from '../../../host/idmap.ts';
import { deleteSubvolumesBelow } from '../../../host/tools/btrfs-tree.ts';
import { cloneMount, isMountPoint, unmountAll, unmountTree } from '../../../host/mounts.ts';
import type { PoolRecovery, PoolSpec, Quota, Roots, Snapshots, StoragePool, VolumeRef, Volumes } from '../contract.ts';
import { FolderRecovery, OWN_NOTES } from '../common/recovery.ts';
import { Trash } from '../common/trash.ts';
import { isRootVolume, POOL_FOLDERS, volumePath } from '../common/volume-names.ts';
import { adoptRoot, snapshotNames } from './adopt.ts';
import type { DirContext } from './context.ts';
import { FolderVolumes } from './folder-volumes.ts';
import { Layers } from './layers.ts';
import { headLayer } from './manifest.ts';
import { FolderProjects } from './projects.ts';
import { RootIndex } from './root-index.ts';
import { RootMounts } from './root-mounts.ts';
import { DirRoots } from './roots.ts';
import { DirRootSnapshots } from './snapshots.ts';

export interface DirHost {
  readonly namespaces: UserNamespaces;
  readonly newId: () => string;
  readonly log: Log;
}

const BTRFS_MAGIC = 0x9123683e;
const OWN_FOLDERS = ['layers', 'staging', 'trash', OWN_NOTES];

/** A pool that is a folder of any file system. A `source` elsewhere is bind-mounted at the pool's path. */
export class DirPool implements StoragePool {
  spec: PoolSpec;
  readonly roots: Roots;
  readonly volumes: Volumes;
  readonly snapshots: Snapshots;
  readonly quota: Quota;
  readonly recovery: PoolRecovery;
  readonly snapshotsCopy = true;
  readonly #dir: DirContext;
  #loaded = false;

  constructor(spec: PoolSpec, host: DirHost) {
    this.spec = spec;
    const path = spec.path;
    const staging = join(path, 'staging');
    const { newId, log } = host;
    const trash = new Trash({ folder: join(path, 'trash'), newId, log, purge });
    const layers = new Layers({ folder: join(path, 'layers'), newId, trash });
    const imageRoot = (fingerprint: string) => join(path, 'images', fingerprint, 'rootfs');
    const mounts = new RootMounts({ layers, namespaces: host.namespaces, imageRoot, staging, newId });
    const projects = new FolderProjects(path, newId);
    const index = new RootIndex(path, layers, (from, to) =>
      projects.carry(layers.files(from), [layers.files(to), layers.work(to)]),
    );
    this.#dir = { path, staging, layers, index, mounts, trash, projects, queue: new KeyedQueue(), newId, log };
    const roots = new DirRoots(this.#dir);
    const folders = new FolderVolumes(this.#dir);
    this.roots = roots;
    this.volumes = volumesOf(this.#dir, roots, folders);
    this.snapshots = snapshotsOf(new DirRootSnapshots(this.#dir), folders);
    this.recovery = new FolderRecovery({
      path,
      snapshotsOf: (volume) => snapshotNames(this.#dir, folders, volume),
      adopt: (volume, options) => adoptRoot(this.#dir, volume, options),
    });
    this.quota = { set: (volume, size) => setSize(this.#dir, folders, volume, size) };
  }

  async mount(): Promise<void> {
    const { path, config } = this.spec;
    const source = config['source'] ?? path;
    await mkdir(path, { recursive: true, mode: 0o711 });
    if (source !== path && !isMountPoint(path)) {
      if (!(await pathExists(source))) throw errors.unavailable(`Source path '${source}' doesn't exist`);
      await cloneMount(source, path);
    }
    await this.#makeFolders();
    await this.#dir.projects.detect();
    if (!this.#loaded) await this.#dir.index.load();
    this.#loaded = true;
  }

  async unmount(): Promise<void> {
    await this.#dir.trash.close();
    const { path, config } = this.spec;
    if ((config['source'] ?? path) !== path) {
      await unmountAll(path);
      await rmdir(path).catch(() => undefined); // it is made again by the next mount
    }
    this.#loaded = false;
  }

  async destroy(): Promise<void> {
    const { path, config } = this.spec;
    await this.#dir.trash.close();
    await unmountTreeBelow(path);
    for (const name of [...POOL_FOLDERS.map((folder) => folder.name), ...OWN_FOLDERS])
      await removeTree(join(path, name));
    if ((config['source'] ?? path) !== path) await unmountAll(path, { lazy: true });
    await removeTree(path);
    this.#loaded = false;
  }

  async update(config: Readonly<Record<string, string>>): Promise<void> {
    this.spec = { ...this.spec, config }; // nothing of a folder depends on it
  }

  async resources(): Promise<{ space: { used: number; total: number }; inodes: { used: number; total: number } }> {
    const { bsize, blocks, bfree, files, ffree } = await statfs(this.spec.path);
    return {
      space: { used: bsize * (blocks - bfree), total: bsize * blocks },
      inodes: { used: files - ffree, total: files },
    };
  }

  async recover(_known: readonly VolumeRef[]): Promise<void> {
    const { staging, trash, index, log } = this.#dir;
    await unmountTreeBelow(staging);
    for (const name of await readdir(staging)) await trash.discard(join(staging, name));
    await index.load();
    if (index.unreadable.length > 0)
      log.error('unreadable volume manifests: no space is freed', { volumes: index.unreadable });
    await index.sweep();
    await trash.resume();
  }

  async #makeFolders(): Promise<void> {
    const own = OWN_FOLDERS.map((name) => ({ name, mode: 0o700 }));
    for (const { name, mode } of [...POOL_FOLDERS, ...own]) {
      await mkdir(join(this.spec.path, name), { recursive: true });
      await chmod(join(this.spec.path, name), mode);
    }
    if (this.spec.config['source'] === this.spec.path || this.spec.config['source'] === undefined)
      await chmod(this.spec.path, 0o711);
  }
}

async function unmountTreeBelow(path: string): Promise<void> {
  for (const name of await readdir(path).catch(() => [])) await unmountTree(join(path, name));
}

/** Removes a tree that nobody uses any more. On btrfs a guest may have made subvolumes in it, which look like other mounts. */
async function purge(path: string): Promise<void> {
  await unmountTree(path);
  try {
    await removeTree(path);
  } catch (error) {
    if ((await statfs(path)).type !== BTRFS_MAGIC) throw error;
    await deleteSubvolumesBelow(path);
    await removeTree(path);
  }
}

/** Sends each volume to the part of the pool that keeps its type. */
function volumesOf(dir: DirContext, roots: DirRoots, folders: FolderVolumes): Volumes {
  return {
    create: (volume, options) => folders.create(volume, options),
    createFilled: (volume, fill) => folders.createFilled(volume, fill),
    copy: (source, target, options) => folders.copy(source, target, options),
    rename: (volume, newName) =>
      isRootVolume(volume) ? roots.rename(volume, newName) : folders.rename(volume, newName),
    delete: (volume) => (isRootVolume(volume) ? roots.delete(volume) : folders.delete(volume)),
    exists: (volume) => (isRootVolume(volume) ? pathExists(volumePath(dir.path, volume)) : folders.exists(volume)),
    mount: (volume) => folders.mount(volume),
    unmount: () => folders.unmount(),
    usage: async (volume) => (isRootVolume(volume) ? rootUsage(dir, volume) : folders.usage(volume)),
  };
}

function snapshotsOf(roots: DirRootSnapshots, folders: FolderVolumes): Snapshots {
  return {
    create: (volume, name, options) =>
      isRootVolume(volume) ? roots.create(volume, name, options) : folders.createSnapshot(volume, name),
    list: (volume) => (isRootVolume(volume) ? roots.list(volume) : folders.listSnapshots(volume)),
    rename: (volume, name, newName) =>
      isRootVolume(volume) ? roots.rename(volume, name, newName) : folders.renameSnapshot(volume, name, newName),
    delete: (volume, name) =>
      isRootVolume(volume) ? roots.delete(volume, name) : folders.deleteSnapshot(volume, name),
    restore: (volume, name) => (isRootVolume(volume) ? roots.restore(volume, name) : folders.restore(volume, name)),
    mount: (volume, name, options) =>
      isRootVolume(volume) ? roots.mount(volume, name, options) : folders.mountSnapshot(volume, name),
    unmount: async (volume, name) => (isRootVolume(volume) ? roots.unmount(volume, name) : undefined),
  };
}

async function rootUsage({ index, layers, projects }: DirContext, volume: VolumeRef): Promise<number | undefined> {
  const manifest = index.find(volume);
  return manifest === undefined ? undefined : projects.used(layers.files(headLayer(manifest)));
}

/** A folder of a file system without project quotas cannot be limited: like the peers, `size` is then only noted. */
async function setSize(
  { index, layers, projects, path }: DirContext,
  folders: FolderVolumes,
  volume: VolumeRef,
  size: number | undefined,
): Promise<void> {
  if (volume.contentType !== 'filesystem' && volume.type === 'custom') {
    if (size !== undefined) await folders.resize(volume, size);
    return;
  }
  if (!projects.active) return;
  if (!isRootVolume(volume)) return projects.limit(volume.name, [volumePath(path, volume)], size);
  const head = headLayer(index.get(volume));
  // Files are renamed between the two folders, which only works inside one project.
  await projects.limit(volume.name, [layers.files(head), layers.work(head)], size);
}
