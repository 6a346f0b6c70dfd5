import { chmod, mkdir, readdir, rm, rmdir, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { KeyedQueue } from '../../../core/keyed-queue.ts';
import type { Log } from '../../../core/log.ts';
import { pathExists } from '../../../host/files.ts';
import { unmountTree } from '../../../host/mounts.ts';
import { CommandError } from '../../../host/run.ts';
import { removePoints } from '../common/mount-points.ts';
import { POOL_FOLDERS } from '../common/volume-names.ts';
import { NOTES_NAME, type VolumeNotes } from '../common/volume-notes.ts';
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
import { notesOf, recoveryOf } from './adopt.ts';
import { Datasets, type ZfsContext } from './context.ts';
import { POOL_DATASETS, STAGING } from './names.ts';
import { rootsOf, snapshotsOf } from './parts.ts';
import { bytesIn, destroy, destroyOrder, getProperties, parseProperties } from './plan.ts';
import { mountsMapIds } from './shifted.ts';
import { rootDataset, sourceOf, type ZfsSource, zpoolOf } from './source.ts';
import { ZfsTransfer } from './transfer.ts';
import { ZfsVolumes } from './volumes.ts';

export interface ZfsHost {
  readonly newId: () => string;
  readonly log: Log;
  /** Whether mounts map ids; default: as the kernel's version says. */
  readonly mapsIds?: () => Promise<boolean>;
}

/** What every dataset of the pool inherits; an older zfs that does not know one goes without. */
const POLICY = ['relatime=on', 'setuid=on', 'exec=on', 'devices=on', 'acltype=posixacl', 'xattr=sa'];

/** Marks a dataset that `create` made: it goes with the pool. */
export const MADE = 'keelson:made';

/** A pool of datasets: a zpool on a loop file or device, or a dataset of one that is there. */
export class ZfsPool implements StoragePool {
  spec: PoolSpec;
  readonly volumes: Volumes;
  readonly roots: Roots;
  readonly snapshots: Snapshots;
  readonly quota: Quota;
  /** Without mapped mounts the streams would carry ids of this host. */
  transfer?: NativeTransfer;
  readonly recovery: PoolRecovery;
  readonly #pool: ZfsContext;
  readonly #notes: VolumeNotes;
  readonly #volumes: ZfsVolumes;
  readonly #ask: () => Promise<boolean>;
  #mapsIds = true;

  constructor(spec: PoolSpec, { newId, log, mapsIds: asked = mountsMapIds }: ZfsHost) {
    this.#ask = asked;
    this.spec = spec;
    const { path } = spec;
    const datasets = new Datasets(rootDataset(spec));
    const config = () => this.spec.config;
    const staging = join(path, 'staging');
    const mapsIds = () => this.#mapsIds;
    this.#pool = { path, staging, datasets, config, mapsIds, queue: new KeyedQueue(), newId, log };
    const volumes = new ZfsVolumes(this.#pool);
    this.volumes = volumes;
    this.#volumes = volumes;
    this.roots = rootsOf(volumes);
    this.snapshots = snapshotsOf(volumes);
    this.quota = { set: (volume, size, options) => volumes.limit(volume, size, options) };
    this.transfer = new ZfsTransfer(this.#pool);
    this.#notes = notesOf(this.#pool, volumes);
    this.recovery = recoveryOf(this.#pool, this, { all: volumes, notes: this.#notes });
  }

  get mapsIds(): boolean {
    return this.#mapsIds;
  }

  async mount(): Promise<void> {
    const { path } = this.spec;
    this.#mapsIds = await this.#ask();
    if (!this.#mapsIds) delete this.transfer;
    await this.#import();
    await this.#makeDatasets();
    await mkdir(path, { recursive: true, mode: 0o711 });
    for (const { name: folder, mode } of [...POOL_FOLDERS, { name: 'staging', mode: 0o700 }]) {
      await mkdir(join(path, folder), { recursive: true });
      await chmod(join(path, folder), mode);
    }
    await chmod(path, 0o711);
    this.#notes.open();
  }

  async unmount(): Promise<void> {
    await this.#notes.close();
    await this.#unmountFolders(() => true);
    const { datasets } = this.#pool;
    const keep = ['false', '0', 'no', 'off'].includes((this.spec.config['zfs.export'] ?? '').toLowerCase());
    if (keep || datasets.root.includes('/') || !(await datasets.exists(datasets.root))) return;
    await datasets.run(['zpool', 'export', datasets.root]);
  }

  async destroy(): Promise<void> {
    const { path } = this.spec;
    await this.#notes.close();
    const source = sourceOf(this.spec);
    await this.#unmountFolders(() => true);
    if (source.kind === 'loop' && (await pathExists(source.file))) await this.#import().catch(() => undefined);
    await this.#destroyDatasets(source.kind !== 'dataset');
    if (source.kind === 'loop') await rm(source.file, { force: true });
    for (const name of [...POOL_FOLDERS.map((folder) => folder.name), 'staging']) {
      await removePoints(join(path, name));
      await rmdir(join(path, name)).catch(() => undefined);
    }
    await rmdir(path).catch(() => undefined);
  }

  async update(config: Readonly<Record<string, string>>): Promise<void> {
    const changed = (key: string) => (config[key] ?? '') !== (this.spec.config[key] ?? '');
    if (changed('zfs.pool_name')) throw errors.badRequest('zfs.pool_name cannot be modified');
    if (changed('size')) await this.#grow(config);
    this.spec = { ...this.spec, config };
  }

  async resources(): Promise<{ space: { used: number; total: number }; inodes: { used: number; total: number } }> {
    const { datasets } = this.#pool;
    const values = parseProperties(await datasets.run(getProperties(datasets.root, ['used', 'available'])));
    const used = Number(values.get('used') ?? 0);
    return { space: { used, total: used + Number(values.get('available') ?? 0) }, inodes: { used: 0, total: 0 } };
  }

  async recover(_known: readonly VolumeRef[]): Promise<void> {
    const { path, staging, datasets, newId } = this.#pool;
    await this.#notes.settle();
    await this.#unmountFolders((name) => name === 'images' || name === 'staging' || name.endsWith('-snapshots'));
    for (const name of await readdir(staging)) await rm(join(staging, name), { recursive: true, force: true });
    const below = (folder: string) => `${datasets.root}/${folder}/`;
    const left = (await datasets.all()).filter(
      ({ name }) => name.startsWith(below(STAGING)) || /^deleted\/[^/]+\/./.test(name.slice(datasets.root.length + 1)),
    );
    for (const { name } of left) await datasets.delete(name, newId());
    await this.#volumes.mounter.owners.finish();
    for (const { name } of POOL_FOLDERS) await removePoints(join(path, name));
  }

  /** @throws unavailable when the zpool or the dataset is not there. */
  async #import(): Promise<void> {
    const { datasets } = this.#pool;
    if (await datasets.exists(datasets.root)) return;
    const source = sourceOf(this.spec);
    try {
      await datasets.run(['zpool', 'import', ...importOptions(source), zpoolOf(datasets.root)]);
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      throw errors.unavailable(
        `The dataset "${datasets.root}" of the pool "${this.spec.name}" is not there: ${error.stderr.trim()}`,
        error,
      );
    }
  }

  async #makeDatasets(): Promise<void> {
    const { datasets, log } = this.#pool;
    const there = new Set((await datasets.all()).map(({ name }) => name));
    const missing = POOL_DATASETS.map((name) => `${datasets.root}/${name}`).filter((name) => !there.has(name));
    if (missing.length === 0) return;
    await datasets.run(['zfs', 'set', 'mountpoint=legacy', datasets.root]);
    for (const property of POLICY) {
      await datasets.run(['zfs', 'set', property, datasets.root]).catch((error: unknown) => {
        log.warn('a property of the dataset cannot be set', { dataset: datasets.root, property, error });
      });
    }
    for (const name of missing) await datasets.run(['zfs', 'create', '-o', 'mountpoint=legacy', name]);
  }

  /** A zpool that was made for the pool goes whole; of one that was there only what is ours. */
  async #destroyDatasets(whole: boolean): Promise<void> {
    const { datasets } = this.#pool;
    const { root } = datasets;
    if (!(await datasets.exists(root))) return;
    if (whole) {
      await datasets.run(['zpool', 'destroy', '-f', root]);
      return;
    }
    const made = (await datasets.property(root, MADE)) === 'true';
    const ours = (await datasets.all()).filter(
      ({ name }) =>
        name !== root && [...POOL_DATASETS, NOTES_NAME].some((own) => `${name}/`.startsWith(`${root}/${own}/`)),
    );
    for (const name of destroyOrder(ours)) await datasets.run(destroy(name));
    if (made && (await datasets.all()).length === 1) await datasets.run(destroy(root));
  }

  async #grow(config: Readonly<Record<string, string>>): Promise<void> {
    const source = sourceOf(this.spec);
    if (source.kind !== 'loop') throw errors.badRequest('Cannot resize non-loopback pools');
    const current = (await stat(source.file)).size;
    const wanted = bytesIn(config, 'size') ?? current;
    if (wanted < current)
      throw errors.badRequest(`Invalid value for option "size": A loop pool cannot shrink below its ${current} bytes`);
    await truncate(source.file, wanted);
    await this.#pool.datasets.run(['zpool', 'online', '-e', this.#pool.datasets.root, source.file]);
  }

  async #unmountFolders(which: (name: string) => boolean): Promise<void> {
    for (const name of [...POOL_FOLDERS.map((folder) => folder.name), 'staging'])
      if (which(name)) await unmountTree(join(this.spec.path, name));
  }
}

/** Nothing of a zpool that is the pool's own is mounted by ZFS; one that others use too is imported as they would. */
function importOptions(source: ZfsSource): readonly string[] {
  if (source.kind === 'dataset') return [];
  return source.kind === 'loop' ? ['-N', '-f', '-d', source.file] : ['-N'];
}
