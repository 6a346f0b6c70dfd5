import { chmod, mkdir, readdir, readFile, rm, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { KeyedQueue } from '../../../core/keyed-queue.ts';
import type { Log } from '../../../core/log.ts';
import { pathExists, removeTree, writeFileAtomic } from '../../../host/files.ts';
import { unmountTree } from '../../../host/mounts.ts';
import { ceph } from '../../../host/tools/ceph.ts';
import { findImage, listImages, rbd, type RbdPlace, unreachable } from '../../../host/tools/rbd.ts';
import { findMapper, type RbdMapper } from '../../../host/tools/rbd-map.ts';
import { removePoints } from '../common/mount-points.ts';
import { POOL_FOLDERS } from '../common/volume-names.ts';
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
import { recoveryOf, removeNotes } from './adopt.ts';
import { DEFAULT_PLACEMENT_GROUPS, imageArguments, placeOf, reusesPool } from './config.ts';
import type { CephContext } from './context.ts';
import { RbdImages } from './images.ts';
import { RbdLives } from './lives.ts';
import { isOwnImage, placeholder, serverMark } from './names.ts';
import { CephTransfer } from './transfer.ts';
import { CephVolumes, rootsOf, snapshotsOf } from './volumes.ts';

export interface CephHost {
  readonly newId: () => string;
  readonly log: Log;
  /** Where the configurations of clusters are. */
  readonly cephFolder: string;
}

/** Keys that name where the pool is. */
const FIXED_KEYS = [
  'ceph.cluster_name',
  'ceph.osd.data_pool_name',
  'ceph.osd.force_reuse',
  'ceph.osd.pg_num',
  'ceph.osd.pool_name',
  'ceph.user.name',
];

/** A pool of RBD images in one OSD pool. */
export class CephPool implements StoragePool {
  spec: PoolSpec;
  readonly volumes: Volumes;
  readonly roots: Roots;
  readonly snapshots: Snapshots;
  readonly quota: Quota;
  readonly recovery: PoolRecovery;
  readonly transfer: NativeTransfer;
  readonly #place: RbdPlace;
  readonly #volumes: CephVolumes;
  readonly #context: CephContext;
  #mapper: Promise<RbdMapper> | undefined;
  #mark = '';

  constructor(spec: PoolSpec, { newId, log, cephFolder }: CephHost) {
    this.spec = spec;
    const { path } = spec;
    const staging = join(path, 'staging');
    this.#place = placeOf(spec, cephFolder);
    const images = new RbdImages(this.#place);
    const context: CephContext = {
      path,
      staging,
      place: this.#place,
      images,
      lives: new RbdLives({ images, staging, mark: () => this.#mark, newId, log }),
      mark: () => this.#mark,
      mapper: () => (this.#mapper ??= this.#findMapper()),
      config: () => this.spec.config,
      queue: new KeyedQueue(),
      newId,
      log,
    };
    this.#context = context;
    this.#volumes = new CephVolumes(context);
    this.volumes = this.#volumes;
    this.roots = rootsOf(this.#volumes);
    this.snapshots = snapshotsOf(this.#volumes);
    this.transfer = new CephTransfer(context, this.#volumes);
    this.quota = { set: (volume, size) => this.#volumes.resize(volume, size) };
    this.recovery = recoveryOf(context, this, this.#volumes.mounter);
  }

  async mount(): Promise<void> {
    const { path, name } = this.spec;
    await this.#assertConfigured();
    if ((await findImage(this.#place, placeholder(this.#place.pool))) === undefined)
      throw errors.unavailable(`OSD pool "${this.#place.pool}" of the pool "${name}" is not there, or not this pool's`);
    await mkdir(path, { recursive: true, mode: 0o711 });
    for (const { name: folder, mode } of [...POOL_FOLDERS, ...OWN_FOLDERS]) {
      await mkdir(join(path, folder), { recursive: true });
      await chmod(join(path, folder), mode);
    }
    await chmod(path, 0o711);
    if (reusesPool(this.spec.config)) this.#mark = serverMark(await this.#serverId());
  }

  async unmount(): Promise<void> {
    const { path } = this.spec;
    for (const { name } of [...POOL_FOLDERS, ...OWN_FOLDERS]) {
      if (name === DEVICES || !(await pathExists(join(path, name)))) continue;
      for (const one of await readdir(join(path, name))) await unmountTree(join(path, name, one));
    }
    const mapper = await (this.#mapper ??= this.#findMapper());
    for (const image of await listImages(this.#place)) {
      if (isOwnImage(image)) await mapper.unmap(this.#place, image);
    }
    for (const { name } of POOL_FOLDERS) await removePoints(join(path, name));
  }

  /** An OSD pool that was empty when it was taken goes too; in another only what is this pool's. */
  async destroy(): Promise<void> {
    const { path, config } = this.spec;
    const marker = placeholder(this.#place.pool);
    await this.#assertConfigured();
    if (await this.#isOurs(marker)) {
      await this.unmount();
      if (config['volatile.pool.pristine'] === 'true') await this.#deleteOsdPool();
      else if (!reusesPool(config)) {
        await this.#removeImages();
        await removeNotes(this.#place);
        await rbd(this.#place, ['rm', '--no-progress', '--image', marker], { ok: [0, ENOENT] });
      }
    }
    for (const { name } of [...POOL_FOLDERS, ...OWN_FOLDERS]) await removeTree(join(path, name));
    await rm(join(path, SERVER), { force: true });
    await rmdir(path).catch(() => undefined);
  }

  async update(config: Readonly<Record<string, string>>): Promise<void> {
    for (const key of FIXED_KEYS) {
      if ((config[key] ?? '') !== (this.spec.config[key] ?? ''))
        throw errors.badRequest(`Invalid option "${key}": it cannot change while the pool is there`);
    }
    imageArguments(config);
    this.spec = { ...this.spec, config };
  }

  async resources(): Promise<{ space: { used: number; total: number }; inodes: { used: number; total: number } }> {
    const { pools } = await this.#ask<{ pools: { name: string; stats: { bytes_used: number; max_avail: number } }[] }>([
      'df',
    ]);
    const stats = pools.find(({ name }) => name === this.#place.pool)?.stats;
    if (stats === undefined) throw errors.unavailable(`The Ceph cluster tells no sizes of "${this.#place.pool}"`);
    const total = stats.max_avail + stats.bytes_used;
    return { space: { used: stats.bytes_used, total }, inodes: { used: 0, total: 0 } };
  }

  async recover(_known: readonly VolumeRef[]): Promise<void> {
    await this.#volumes.recover();
  }

  /** Checks what is there. @throws bad-request in LXD's words; the config to store. */
  async prepare(): Promise<Record<string, string>> {
    const { pool } = this.#place;
    const { config } = this.spec;
    imageArguments(config);
    await this.#assertConfigured();
    const there = (await this.#osdPools()).includes(pool);
    const images = there ? await listImages(this.#place) : [];
    const cluster = config['ceph.cluster_name'] ?? 'ceph';
    if (images.includes(placeholder(pool)) && !reusesPool(config))
      throw errors.badRequest(`Pool '${pool}' in cluster '${cluster}' seems to be in use by another LXD instance`);
    const data = config['ceph.osd.data_pool_name'] ?? '';
    if (data !== '' && !(await this.#osdPools()).includes(data))
      throw errors.badRequest(`Invalid value for option "ceph.osd.data_pool_name": OSD pool "${data}" doesn't exist`);
    const groups = there ? await this.#groupsOf(pool) : (config['ceph.osd.pg_num'] ?? DEFAULT_PLACEMENT_GROUPS);
    return {
      ...config,
      source: pool,
      'ceph.cluster_name': cluster,
      'ceph.osd.pg_num': groups,
      'ceph.osd.pool_name': pool,
      'ceph.user.name': config['ceph.user.name'] ?? 'admin',
      'volatile.pool.pristine': String(images.length === 0),
    };
  }

  /** Makes the OSD pool where there is none, and marks it as taken. */
  async create(): Promise<void> {
    const { pool } = this.#place;
    if (!(await this.#osdPools()).includes(pool)) {
      await this.#ask(['osd', 'pool', 'create', pool, this.spec.config['ceph.osd.pg_num'] ?? DEFAULT_PLACEMENT_GROUPS]);
      await rbd(this.#place, ['pool', 'init', pool]);
    }
    const marker = placeholder(pool);
    if ((await findImage(this.#place, marker)) === undefined)
      await rbd(this.#place, ['create', '--size', '0B', '--image-feature', 'layering', '--image', marker]);
    await this.mount();
  }

  /** The same for as long as the pool is there. */
  async #serverId(): Promise<string> {
    const file = join(this.spec.path, SERVER);
    const known = await readFile(file, 'utf8').catch(() => '');
    if (known !== '') return known;
    const id = this.#context.newId();
    await writeFileAtomic(file, id);
    return id;
  }

  async #isOurs(marker: string): Promise<boolean> {
    if (!(await this.#osdPools()).includes(this.#place.pool)) return false;
    return (await findImage(this.#place, marker)) !== undefined;
  }

  async #removeImages(): Promise<void> {
    const { images, lives, staging } = this.#context;
    await mkdir(staging, { recursive: true, mode: 0o700 });
    // Zombies go with their clones, or in a later round.
    for (let round = 0; round < 3; round++) {
      for (const image of (await images.list()).filter(isOwnImage)) await lives.remove(image);
    }
  }

  async #deleteOsdPool(): Promise<void> {
    const { pool } = this.#place;
    await this.#ask(['osd', 'pool', 'delete', pool, pool, '--yes-i-really-really-mean-it']);
  }

  async #osdPools(): Promise<readonly string[]> {
    return this.#ask<string[]>(['osd', 'pool', 'ls']);
  }

  async #groupsOf(pool: string): Promise<string> {
    const found = await this.#ask<{ pg_num: number }>(['osd', 'pool', 'get', pool, 'pg_num']);
    return String(found.pg_num);
  }

  async #ask<T>(args: readonly string[]): Promise<T> {
    try {
      return (await ceph(this.#place, args)) as T;
    } catch (error) {
      throw unreachable(error, this.#place);
    }
  }

  async #assertConfigured(): Promise<void> {
    if (!(await pathExists(this.#place.conf)))
      throw errors.unavailable(`The configuration "${this.#place.conf}" of the Ceph cluster doesn't exist`);
  }

  async #findMapper(): Promise<RbdMapper> {
    const found = await findMapper(join(this.spec.path, DEVICES));
    if ('reason' in found) throw errors.unavailable(`RBD images cannot be mapped: ${found.reason}`);
    return found;
  }
}

const ENOENT = 2;
const DEVICES = 'devices';
/** File with what tells this server from others in the same OSD pool. */
const SERVER = 'server';
const OWN_FOLDERS = [
  { name: 'staging', mode: 0o700 },
  { name: DEVICES, mode: 0o700 },
];
