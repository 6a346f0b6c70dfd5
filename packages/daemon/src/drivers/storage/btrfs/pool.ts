import { chmod, mkdir, readdir, rm, rmdir, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { KeyedQueue } from '../../../core/keyed-queue.ts';
import type { Log } from '../../../core/log.ts';
import { pathExists, removeTree } from '../../../host/files.ts';
import type { UserNamespaces } from '../../../host/idmap.ts';
import { growLoop, mountDevice, mountLoop } from '../../../host/loop.ts';
import { cloneMount, isMountPoint, unmountAll, unmountTree } from '../../../host/mounts.ts';
import {
  enableQuotas,
  growFileSystem,
  isSubvolume,
  limitReferenced,
  referencedBytes,
  referencedLimit,
  syncFileSystem,
} from '../../../host/tools/btrfs.ts';
import { deleteSubvolume } from '../../../host/tools/btrfs-tree.ts';
import { FolderRecovery, OWN_NOTES } from '../common/recovery.ts';
import { Trash } from '../common/trash.ts';
import { POOL_FOLDERS, volumePath } from '../common/volume-names.ts';
import type {
  NativeTransfer,
  PoolRecovery,
  PoolSpec,
  Quota,
  Roots,
  Snapshots,
  StoragePool,
  VolumeRef,
  Volumes,
} from '../contract.ts';
import { adoptRoot } from './adopt.ts';
import { type BtrfsContext } from './context.ts';
import { recoverPublications } from './publish.ts';
import { sizeIn, sourceOf } from './source.ts';
import { BtrfsTransfer } from './transfer.ts';
import { BtrfsVolumes, rootsOf, snapshotsOf } from './volumes.ts';

export interface BtrfsHost {
  readonly namespaces: UserNamespaces;
  readonly newId: () => string;
  readonly log: Log;
}

const OWN_FOLDERS = ['staging', 'trash', OWN_NOTES];

/** A pool on btrfs: a loop file, a block device or a subvolume of the host's own btrfs. */
export class BtrfsPool implements StoragePool {
  spec: PoolSpec;
  readonly volumes: Volumes;
  readonly roots: Roots;
  readonly snapshots: Snapshots;
  readonly quota: Quota;
  readonly transfer: NativeTransfer;
  readonly recovery: PoolRecovery;
  readonly #pool: BtrfsContext;
  readonly #volumes: BtrfsVolumes;

  constructor(spec: PoolSpec, { namespaces, newId, log }: BtrfsHost) {
    this.spec = spec;
    const { path } = spec;
    // Only a sync makes btrfs look for the space of deleted subvolumes before half a minute is over.
    const afterwards = (): Promise<void> => syncFileSystem(path);
    const trash = new Trash({ folder: join(path, 'trash'), newId, log, purge, afterwards });
    this.#pool = { path, staging: join(path, 'staging'), trash, queue: new KeyedQueue(), newId, log };
    this.#volumes = new BtrfsVolumes(this.#pool);
    this.volumes = this.#volumes;
    this.roots = rootsOf(this.#volumes);
    this.snapshots = snapshotsOf(this.#volumes);
    this.transfer = new BtrfsTransfer(this.#pool);
    this.recovery = new FolderRecovery({
      path,
      snapshotsOf: (volume) => this.#volumes.listSnapshots(volume),
      adopt: (volume, options) => adoptRoot(this.#pool, namespaces, volume, options),
    });
    this.quota = { set: (volume, size) => this.#limit(volume, size) };
  }

  async mount(): Promise<void> {
    const { path, config, name } = this.spec;
    await mkdir(path, { recursive: true, mode: 0o711 });
    if (!isMountPoint(path)) {
      const source = await sourceOf(this.spec);
      const options = (config['btrfs.mount_options'] ?? 'user_subvol_rm_allowed')
        .split(',')
        .filter((option) => option !== '');
      const at = source.kind === 'loop' ? source.file : source.kind === 'device' ? source.device : source.path;
      if (!(await pathExists(at))) throw errors.unavailable(`Source "${at}" of the pool "${name}" doesn't exist`);
      if (source.kind === 'path') await cloneMount(source.path, path);
      else if (source.kind === 'loop') await mountLoop(source.file, path, 'btrfs', options);
      else await mountDevice(source.device, path, 'btrfs', options);
    }
    for (const { name: folder, mode } of [...POOL_FOLDERS, ...OWN_FOLDERS.map((own) => ({ name: own, mode: 0o700 }))]) {
      await mkdir(join(path, folder), { recursive: true });
      await chmod(join(path, folder), mode);
    }
    await chmod(path, 0o711);
  }

  async unmount(): Promise<void> {
    await this.#pool.trash.close();
    await unmountAll(this.spec.path);
    await rmdir(this.spec.path).catch(() => undefined); // it is made again by the next mount
  }

  async destroy(): Promise<void> {
    await this.#pool.trash.close();
    const { path } = this.spec;
    const source = await sourceOf(this.spec);
    if (isMountPoint(path) && !(source.kind === 'loop' && source.own)) {
      for (const folder of [...POOL_FOLDERS.map(({ name }) => name), ...OWN_FOLDERS]) {
        if (await pathExists(join(path, folder))) await purge(join(path, folder));
      }
    }
    await unmountAll(path, { lazy: true });
    if (source.kind === 'loop' && source.own) await rm(source.file, { force: true });
    await rmdir(path).catch(() => undefined);
    // A subvolume that `create` made goes; one that holds what is not ours stays.
    if (source.kind === 'path' && (await pathExists(source.path)) && (await readdir(source.path)).length === 0) {
      if (await isSubvolume(source.path)) await deleteSubvolume(source.path);
    }
  }

  async update(config: Readonly<Record<string, string>>): Promise<void> {
    const before = this.spec.config['size'] ?? '';
    const after = config['size'] ?? '';
    if (after !== before && (await sourceOf(this.spec)).kind === 'loop') await this.#resize(after);
    this.spec = { ...this.spec, config };
  }

  async resources(): Promise<{ space: { used: number; total: number }; inodes: { used: number; total: number } }> {
    const { bsize, blocks, bfree } = await statfs(this.spec.path);
    return { space: { used: bsize * (blocks - bfree), total: bsize * blocks }, inodes: { used: 0, total: 0 } };
  }

  async recover(_known: readonly VolumeRef[]): Promise<void> {
    const { staging, trash } = this.#pool;
    await recoverPublications(this.#pool);
    for (const name of await readdir(staging)) {
      await unmountTree(join(staging, name));
      await trash.discard(join(staging, name));
    }
    await trash.resume();
  }

  async #resize(text: string): Promise<void> {
    const { path } = this.spec;
    const source = await sourceOf(this.spec);
    const loopFile = source.kind === 'loop' ? source.file : this.spec.loopFile;
    const current = (await stat(loopFile)).size;
    const wanted = text === '' ? current : sizeIn(text);
    if (wanted < current)
      throw errors.badRequest(`Invalid value for option "size": A loop pool cannot shrink below its ${current} bytes`);
    await growLoop(loopFile, wanted);
    await growFileSystem(path);
  }

  async #limit(volume: VolumeRef, size: number | undefined): Promise<void> {
    const { path } = this.#pool;
    const folder = volumePath(path, volume);
    if (volume.type === 'custom' && volume.contentType !== 'filesystem') {
      if (size !== undefined) await this.#volumes.resizeBlock(volume, size);
      return;
    }
    if (size === undefined) {
      if ((await referencedLimit(folder)) !== undefined) await limitReferenced(folder, undefined);
      return;
    }
    if ((await referencedBytes(folder)) === undefined) await enableQuotas(path);
    await syncFileSystem(folder);
    const used = (await referencedBytes(folder)) ?? 0;
    if (used > size)
      throw errors.badRequest(`Cannot limit volume "${volume.name}" to ${size} bytes: ${used} bytes are in use`);
    await limitReferenced(folder, size);
  }
}

/** Removes a tree with all its subvolumes. */
async function purge(path: string): Promise<void> {
  if (!(await stat(path)).isDirectory()) return removeTree(path);
  if (await isSubvolume(path)) return deleteSubvolume(path);
  for (const entry of await readdir(path, { withFileTypes: true })) {
    if (entry.isDirectory()) await purge(join(path, entry.name));
  }
  await removeTree(path);
}
