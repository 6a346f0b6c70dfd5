import { chmod, mkdir, readdir, rm, rmdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { KeyedQueue } from '../../../core/keyed-queue.ts';
import { retry } from '../../../core/retry.ts';
import { pathExists } from '../../../host/files.ts';
import { attachLoop, detachLoop, growLoop } from '../../../host/loop.ts';
import { unmountTree } from '../../../host/mounts.ts';
import { CommandError } from '../../../host/run.ts';
import { lvm, lvmIfThere } from '../../../host/tools/lvm.ts';
import { isBorrowed, POOL_TAG, sourceOf, thinPoolAmong } from './source.ts';
import { removePoints } from '../common/mount-points.ts';
import { POOL_FOLDERS } from '../common/volume-names.ts';
import type { VolumeNotes } from '../common/volume-notes.ts';
import type { PoolRecovery, PoolSpec, Quota, Roots, Snapshots, StoragePool, VolumeRef, Volumes } from '../contract.ts';
import { notesOf, recoveryOf } from './adopt.ts';
import { LogicalVolumes, type LvmContext } from './context.ts';
import { bytesIn, OWN_TAG, placeOf, removeVolumes, renameVolume } from './plan.ts';
import { interruptedRestores, recoveryPlan } from './recovery.ts';
import { devicesCommand, groupCommand, parseDevices, parseGroup, type VolumeGroup } from './report.ts';
import { LvmVolumes, rootsOf, snapshotsOf } from './volumes.ts';
import type { LvmHost } from './driver.ts';

/** Keys that name what the pool is made of. */
const FIXED_KEYS = ['lvm.use_thinpool', 'lvm.thinpool_metadata_size', 'lvm.vg.force_reuse'];
const POOL_STRIPES = ['volume.lvm.stripes', 'volume.lvm.stripes.size'];

/** A copy that goes on without its daemon gets some seconds to end. */
const OUTLIVED = {
  attempts: 8,
  delay: 100,
  maxDelay: 3000,
  retryable: (error: unknown) => error instanceof CommandError && /in use|contains a filesystem/i.test(error.stderr),
};

/** A pool of logical volumes in one volume group. */
export class LvmPool implements StoragePool {
  spec: PoolSpec;
  readonly volumes: Volumes;
  readonly roots: Roots;
  readonly snapshots: Snapshots;
  readonly quota: Quota;
  readonly recovery: PoolRecovery;
  readonly snapshotsCopy: boolean;
  readonly #pool: LvmContext;
  readonly #all: LvmVolumes;
  readonly #notes: VolumeNotes;

  constructor(spec: PoolSpec, { newId, log }: LvmHost) {
    this.spec = spec;
    const { path } = spec;
    const volumes = new LogicalVolumes(spec.name, placeOf(spec.name, spec.config), log);
    this.#pool = { path, staging: join(path, 'staging'), volumes, queue: new KeyedQueue(), newId, log };
    this.snapshotsCopy = !volumes.thin;
    const all = new LvmVolumes(this.#pool);
    this.#all = all;
    this.volumes = all;
    this.roots = rootsOf(all);
    this.snapshots = snapshotsOf(all);
    this.quota = { set: (volume, size) => all.resize(volume, size) };
    this.#notes = notesOf(this.#pool, all);
    this.recovery = recoveryOf(this.#pool, this, { all, notes: this.#notes });
  }

  async mount(): Promise<void> {
    const { path, name } = this.spec;
    const source = sourceOf(this.spec);
    if (source.kind === 'loop') {
      if (!(await pathExists(source.file)))
        throw errors.unavailable(`Source "${source.file}" of the pool "${name}" doesn't exist`);
      await attachLoop(source.file);
    }
    const missing = await this.#missing();
    if (missing !== undefined) throw errors.unavailable(missing);
    await mkdir(path, { recursive: true, mode: 0o711 });
    for (const { name: folder, mode } of [...POOL_FOLDERS, { name: 'staging', mode: 0o700 }]) {
      await mkdir(join(path, folder), { recursive: true });
      await chmod(join(path, folder), mode);
    }
    await chmod(path, 0o711);
    this.#notes.open();
  }

  async isThere(): Promise<boolean> {
    return (await this.#missing()) === undefined;
  }

  async unmount(): Promise<void> {
    await this.#notes.close();
    await this.#unmountBelow([...POOL_FOLDERS.map(({ name }) => name), 'staging']);
    if ((await this.#group()) !== undefined && !isBorrowed(this.spec))
      await lvm(['vgchange', '--activate', 'n', this.#pool.volumes.place.group]);
    const source = sourceOf(this.spec);
    if (source.kind === 'loop') await detachLoop(source.file);
  }

  async destroy(): Promise<void> {
    const { path } = this.spec;
    await this.#notes.close();
    const source = sourceOf(this.spec);
    await this.#unmountBelow([...POOL_FOLDERS.map(({ name }) => name), 'staging']);
    if (source.kind === 'loop' && (await pathExists(source.file))) await attachLoop(source.file);
    const group = await this.#group();
    if (group !== undefined) await this.#removeGroup(group);
    if (source.kind === 'loop') {
      await detachLoop(source.file);
      await rm(source.file, { force: true });
    }
    for (const folder of [...POOL_FOLDERS.map(({ name }) => name), 'staging']) await removePoints(join(path, folder));
    for (const folder of [...POOL_FOLDERS.map(({ name }) => name), 'staging'])
      await rmdir(join(path, folder)).catch(() => undefined);
    await rmdir(path).catch(() => undefined);
  }

  async update(config: Readonly<Record<string, string>>): Promise<void> {
    const changed = (key: string) => (config[key] ?? '') !== (this.spec.config[key] ?? '');
    const { thin } = this.#pool.volumes;
    for (const key of [...FIXED_KEYS, ...(thin ? POOL_STRIPES : [])])
      if (changed(key))
        throw errors.badRequest(
          `"${key}" cannot be changed${POOL_STRIPES.includes(key) ? ' when using thin pool' : ''}`,
        );
    if (changed('size')) await this.#grow(config);
    if (changed('lvm.vg_name') || changed('lvm.thinpool_name'))
      await this.#pool.volumes.moveTo(placeOf(this.spec.name, config));
    this.spec = { ...this.spec, config };
  }

  async resources(): Promise<{ space: { used: number; total: number }; inodes: { used: number; total: number } }> {
    const { thinPool } = this.#pool.volumes.place;
    const pool = thinPool === undefined ? undefined : await this.#pool.volumes.find(thinPool);
    if (pool !== undefined) {
      const used = Math.round((pool.size * (pool.used ?? 0)) / 100);
      return { space: { used, total: pool.size }, inodes: { used: 0, total: 0 } };
    }
    const group = await this.#group();
    if (group === undefined) throw errors.unavailable(`The volume group of the pool "${this.spec.name}" is gone`);
    return { space: { used: group.size - group.free, total: group.size }, inodes: { used: 0, total: 0 } };
  }

  async recover(known: readonly VolumeRef[]): Promise<void> {
    const { volumes, path, staging } = this.#pool;
    const idle = POOL_FOLDERS.map(({ name }) => name).filter(
      (name) => name === 'images' || name.endsWith('-snapshots'),
    );
    await this.#notes.settle();
    await this.#unmountBelow([...idle, 'staging']);
    for (const name of await readdir(staging)) await rm(join(staging, name), { recursive: true, force: true });
    const found = await volumes.list();
    const { renames, remove } = recoveryPlan(found.map(({ name }) => name));
    for (const { from, to } of renames) await volumes.run(renameVolume(volumes.place, from, to));
    await this.#removeHalfMade(remove);
    for (const { volume, snapshot } of interruptedRestores(found, known)) await this.#all.restore(volume, snapshot);
    for (const { name } of POOL_FOLDERS) await removePoints(join(path, name));
  }

  /** What a command that outlived its daemon still writes to is waited for; later it is left for the next start. */
  async #removeHalfMade(names: readonly string[]): Promise<void> {
    const { volumes, log } = this.#pool;
    try {
      await retry(() => volumes.remove(names), OUTLIVED);
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      log.warn('Half-made logical volumes are still in use', { pool: this.spec.name, reason: error.stderr.trim() });
    }
  }

  /** What the pool lacks, in words; undefined when its volume group is there with all its devices. */
  async #missing(): Promise<string | undefined> {
    const { group } = this.#pool.volumes.place;
    const text = await lvmIfThere(devicesCommand(group));
    if (text === undefined) return `Volume group "${group}" of the pool "${this.spec.name}" doesn't exist`;
    const source = sourceOf(this.spec);
    // A loop device keeps its size when the file behind it is cut off.
    const limit = source.kind === 'loop' ? await sizeIfThere(source.file) : Infinity;
    if (limit === undefined) return `Source "${this.spec.loopFile}" of the pool "${this.spec.name}" doesn't exist`;
    for (const { name, needed, size } of parseDevices(text)) {
      if (size === 0) return `A device of volume group "${group}" of the pool "${this.spec.name}" is missing`;
      if (Math.min(size, limit) < needed)
        return `Device "${name}" of volume group "${group}" of the pool "${this.spec.name}" is smaller than it was: ${Math.min(size, limit)} bytes of ${needed}`;
    }
    return undefined;
  }

  async #group(): Promise<VolumeGroup | undefined> {
    const text = await lvmIfThere(groupCommand(this.#pool.volumes.place.group));
    return text === undefined ? undefined : parseGroup(text);
  }

  /** A group the user brought stays, with everything in it that is not ours. */
  async #removeGroup({ name }: VolumeGroup): Promise<void> {
    const { volumes } = this.#pool;
    if (!isBorrowed(this.spec)) {
      await lvm(['vgremove', '--force', name]);
      return;
    }
    const there = await volumes.list();
    const thinPool = thinPoolAmong(this.spec.config, there);
    const ours = there.filter((one) => one.tags.includes(OWN_TAG) && one !== thinPool);
    if (ours.length > 0)
      await lvm(
        removeVolumes(
          volumes.place,
          ours.map((one) => one.name),
        ),
      );
    const foreign = there.some((one) => one.pool !== '' && one.pool === thinPool?.name && !ours.includes(one));
    if (thinPool?.tags.includes(OWN_TAG) === true && !foreign) await lvm(removeVolumes(volumes.place, [thinPool.name]));
    await lvm(['vgchange', '--deltag', POOL_TAG, name]);
  }

  async #grow(config: Readonly<Record<string, string>>): Promise<void> {
    const source = sourceOf(this.spec);
    if (source.kind !== 'loop') throw errors.badRequest('Cannot resize non-loopback pools');
    const current = (await stat(source.file)).size;
    const wanted = bytesIn(config, 'size') ?? current;
    if (wanted < current)
      throw errors.badRequest(`Invalid value for option "size": A loop pool cannot shrink below its ${current} bytes`);
    await growLoop(source.file, wanted);
    await lvm(['pvresize', await attachLoop(source.file)]);
    const { place } = this.#pool.volumes;
    if (place.thinPool !== undefined && ((await this.#group())?.free ?? 0) > 0)
      await lvm(['lvextend', '--extents', '+100%FREE', `${place.group}/${place.thinPool}`]);
  }

  async #unmountBelow(folders: readonly string[]): Promise<void> {
    for (const folder of folders) await unmountTree(join(this.spec.path, folder));
  }
}

async function sizeIfThere(file: string): Promise<number | undefined> {
  return (await stat(file).catch(() => undefined))?.size;
}
