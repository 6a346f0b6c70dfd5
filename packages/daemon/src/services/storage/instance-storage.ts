import { type Clock, timestamp, zeroTime } from '../../core/clock.ts';
import { errors, isKeelsonError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type {
  AdoptOptions,
  CloneMode,
  ProgressOptions,
  RootMount,
  RootOptions,
  StoragePool,
  VolumeRef,
} from '../../drivers/storage/contract.ts';
import type { Collection, Ledger } from '../../state/collection.ts';
import type { ImageRecord } from '../../state/records/image.ts';
import type { StorageVolumeRecord, StorageVolumeSnapshotRecord } from '../../state/records/storage.ts';
import type {
  InstanceStorage,
  NativeBackup,
  NativeSource,
  OpenedRoot,
  RootState,
  RootVolume,
} from '../instances/ports.ts';
import type { ImageVolumeService } from './image-volumes.ts';
import type { LivePools } from './live-pools.ts';
import { hasNativeBackups, receiveNative, sendNative } from './native-backup.ts';
import { type RootTransfer, TEMPORARY_PREFIX } from './root-transfer.ts';
import { driverKeys, goneSnapshots, volumeDefaults } from './volume-config.ts';
import { refOf, snapshotId, snapshotPrefix, volumeId } from './volume-names.ts';

export interface InstanceStorageOptions {
  readonly ledger: Ledger;
  readonly live: LivePools;
  readonly images: ImageVolumeService;
  readonly transfer: RootTransfer;
  readonly volumes: Collection<StorageVolumeRecord>;
  readonly snapshots: Collection<StorageVolumeSnapshotRecord>;
  readonly clock: Clock;
  readonly log: Log;
}

type Size = { readonly size: number | undefined };
type Opened = { readonly pool: StoragePool; readonly ref: VolumeRef };

/** Instance roots: the pool's content and the volume records, in step. */
export class InstanceStorageService implements InstanceStorage {
  readonly #options: InstanceStorageOptions;

  constructor(options: InstanceStorageOptions) {
    this.#options = options;
  }

  async createFromImage(
    root: RootVolume,
    image: ImageRecord,
    options: Size & { clone?: CloneMode } & ProgressOptions,
  ): Promise<void> {
    const { images } = this.#options;
    const { pool, ref } = await this.#open(root);
    const how = {
      ...this.#rootOptions(root, pool, options.size),
      ...(options.clone === undefined ? {} : { clone: options.clone }),
    };
    await images.with({ pool, image }, options, (volume) => pool.roots.createFromImage(ref, volume, how));
    await this.#finish(root, { pool, ref }, options);
  }

  async createFilled(root: RootVolume, options: Size, fill?: (path: string) => Promise<void>): Promise<void> {
    const { pool, ref } = await this.#open(root);
    await pool.roots.createFilled(ref, this.#rootOptions(root, pool, options.size), fill);
    await this.#finish(root, { pool, ref }, options);
  }

  async createFromStates(
    root: RootVolume,
    states: readonly RootState[],
    options: Size & ProgressOptions & { readonly plain: boolean },
  ): Promise<void> {
    const { pool, ref } = await this.#open(root);
    await this.#options.transfer.fill(pool, ref, states, {
      ...options,
      ...this.#rootOptions(root, pool, options.size),
      ...(options.plain ? { clone: 'copy' } : {}),
    });
    await this.#finish(root, { pool, ref }, options, this.#stateSnapshots(root, states));
  }

  async createFromNative(
    root: RootVolume,
    source: NativeSource,
    options: Size & ProgressOptions & { readonly shift: AdoptOptions },
  ): Promise<void> {
    const { shift, size, ...progress } = options;
    const { pool, ref } = await this.#open(root);
    const { driver } = this.#options.live.record(root.pool);
    const snapshots = source.snapshots.map(({ name }) => name);
    await receiveNative(pool, ref, { ...source, snapshots, driver, member: rootMember }, progress);
    try {
      await pool.recovery?.adopt(ref, shift);
    } catch (error) {
      await pool.volumes.delete(ref);
      throw error;
    }
    const states = source.snapshots.map((snapshot) => ({ snapshot }));
    await this.#finish(root, { pool, ref }, { size }, this.#stateSnapshots(root, states));
  }

  async createWith(
    root: RootVolume,
    options: Size,
    make: (opened: OpenedRoot) => Promise<readonly NonNullable<RootState['snapshot']>[]>,
  ): Promise<void> {
    const { pool, ref } = await this.#open(root);
    const made = await make({ pool, ref, options: this.#rootOptions(root, pool, options.size) });
    const states = made.map((snapshot) => ({ snapshot }));
    await this.#finish(root, { pool, ref }, options, this.#stateSnapshots(root, states));
  }

  async withRoot<T>(root: RootVolume, use: (opened: OpenedRoot) => Promise<T>): Promise<T> {
    const { pool, ref } = await this.#open(root);
    return use({ pool, ref, options: this.#rootOptions(root, pool) });
  }

  async freeze(root: RootVolume): Promise<{ readonly mount: RootMount } & AsyncDisposable> {
    const { pool, ref } = await this.#open(root);
    return this.#options.transfer.freeze(pool, ref, this.#rootOptions(root, pool));
  }

  async hasNative(poolName: string): Promise<boolean> {
    return hasNativeBackups(await this.#options.live.use(poolName));
  }

  async nativeBackup(
    root: RootVolume,
    options: {
      readonly snapshots: readonly string[];
      readonly running: boolean;
      readonly beside: ReadonlyMap<string, string>;
      readonly member: (snapshot: string | undefined) => string;
    },
  ): Promise<NativeBackup | undefined> {
    const { pool, ref } = await this.#open(root);
    return sendNative(pool, ref, options);
  }

  async readBeside(root: RootVolume, name: string): Promise<string | undefined> {
    const { pool, ref } = await this.#open(root);
    return pool.recovery?.read(ref, name);
  }

  #stateSnapshots(
    root: RootVolume,
    states: readonly Pick<RootState, 'snapshot'>[],
  ): readonly StorageVolumeSnapshotRecord[] {
    return states.flatMap(({ snapshot }) => {
      if (snapshot === undefined) return [];
      const { name, createdAt, expiresAt } = snapshot;
      return [{ ...this.#snapshotRecord(root, name, expiresAt), createdAt }];
    });
  }

  async copy(
    source: RootVolume & { readonly snapshot?: string },
    target: RootVolume,
    options: { snapshots: readonly string[]; size?: number | undefined } & ProgressOptions,
  ): Promise<void> {
    const from = await this.#open(source);
    const to = await this.#open(target);
    const sourceRef = source.snapshot === undefined ? from.ref : { ...from.ref, snapshot: source.snapshot };
    const how = { ...options, ...this.#rootOptions(target, to.pool, options.size) };
    if (from.pool === to.pool) await to.pool.roots.copy(sourceRef, to.ref, how);
    else {
      const copy = { from: from.pool, source: sourceRef, to: to.pool, target: to.ref, snapshots: options.snapshots };
      await this.#options.transfer.copy(copy, how);
    }
    await this.#finish(target, to, { size: undefined }, this.#copiedSnapshots(source, target, options.snapshots));
  }

  async rename(root: RootVolume, newName: string): Promise<void> {
    const { volumes, snapshots, ledger } = this.#options;
    const { pool, ref } = await this.#open(root);
    const target = { ...root, instance: newName };
    await pool.volumes.rename(ref, refOf(recordOf(target, '')).name);
    const record = volumes.get(volumeId(idOf(root)))?.value;
    if (record === undefined) return;
    const moved = snapshots.list(snapshotPrefix(idOf(root))).map(({ value }) => value);
    await ledger.transact(
      [],
      [
        volumes.remove(volumeId(idOf(root))),
        volumes.put(volumeId(idOf(target)), { ...record, name: newName }),
        ...moved.map((snapshot) => snapshots.remove(snapshotId(snapshot))),
        ...moved.map((snapshot) =>
          snapshots.put(snapshotId({ ...snapshot, volume: newName }), { ...snapshot, volume: newName }),
        ),
      ],
    );
  }

  async delete(root: RootVolume): Promise<void> {
    const { volumes, snapshots, ledger, images, log } = this.#options;
    const { pool, ref } = await this.#open(root);
    const image = await pool.roots.imageOf(ref);
    await pool.volumes.delete(ref);
    const gone = snapshots.list(snapshotPrefix(idOf(root))).map(({ value }) => snapshots.remove(snapshotId(value)));
    await ledger.transact([], [volumes.remove(volumeId(idOf(root))), ...gone]);
    if (image === undefined) return;
    await images
      .release(root.pool, image)
      .catch((error: unknown) => log.warn('An image volume was not removed', { image, error }));
  }

  async mount(root: RootVolume): Promise<RootMount> {
    const { pool, ref } = await this.#open(root);
    return pool.roots.mount(ref, this.#rootOptions(root, pool));
  }

  async unmount(root: RootVolume): Promise<void> {
    const { pool, ref } = await this.#open(root);
    await pool.roots.unmount(ref);
  }

  async usage(root: RootVolume): Promise<number | undefined> {
    const { pool, ref } = await this.#open(root);
    return pool.volumes.usage(ref);
  }

  async resize(root: RootVolume, size: number | undefined): Promise<void> {
    const { pool, ref } = await this.#open(root);
    await pool.quota?.set(ref, size, this.#rootOptions(root, pool));
  }

  async snapshot(
    root: RootVolume,
    name: string,
    options: { running: boolean; expiresAt: string; made?: boolean },
  ): Promise<void> {
    const { pool, ref } = await this.#open(root);
    if (options.made !== true) await pool.snapshots.create(ref, name, options);
    const record = this.#snapshotRecord(root, name, options.expiresAt);
    try {
      await this.#options.snapshots.create(snapshotId(record), record);
    } catch (error) {
      await pool.snapshots.delete(ref, name);
      throw error;
    }
  }

  async renameSnapshot(root: RootVolume, name: string, newName: string): Promise<void> {
    const { snapshots, ledger } = this.#options;
    const { pool, ref } = await this.#open(root);
    await pool.snapshots.rename(ref, name, newName);
    const record = this.#snapshotRecord(root, name, zeroTime);
    const current = snapshots.get(snapshotId(record))?.value ?? record;
    await ledger.transact(
      [],
      [
        snapshots.remove(snapshotId(record)),
        snapshots.put(snapshotId({ ...current, name: newName }), { ...current, name: newName }),
      ],
    );
  }

  async deleteSnapshot(root: RootVolume, name: string): Promise<void> {
    const { pool, ref } = await this.#open(root);
    await pool.snapshots.delete(ref, name);
    await this.#options.snapshots.delete(snapshotId(this.#snapshotRecord(root, name, zeroTime)));
  }

  async restoreSnapshot(root: RootVolume, name: string): Promise<readonly string[]> {
    const { snapshots, ledger } = this.#options;
    const { pool, ref } = await this.#open(root);
    const { config = {} } = this.#rootOptions(root, pool);
    await pool.snapshots.restore(ref, name, { config });
    const records = snapshots.list(snapshotPrefix(idOf(root))).map(({ value }) => value);
    const gone = await goneSnapshots(pool, ref, config, records);
    if (gone.length > 0)
      await ledger.transact(
        [],
        gone.map((one) => snapshots.remove(snapshotId(one))),
      );
    return gone.map((one) => one.name);
  }

  async mountSnapshot(root: RootVolume, name: string): Promise<RootMount> {
    const { pool, ref } = await this.#open(root);
    return pool.snapshots.mount(ref, name, this.#rootOptions(root, pool));
  }

  async unmountSnapshot(root: RootVolume, name: string): Promise<void> {
    const { pool, ref } = await this.#open(root);
    await pool.snapshots.unmount(ref, name);
  }

  poolExists(pool: string): boolean {
    return this.#options.live.has(pool);
  }

  /** Removes what copies that were killed left in their sources. */
  async removeTemporaries(): Promise<void> {
    const { volumes, live } = this.#options;
    for (const { value } of volumes.list()) {
      if (value.type === 'image') continue;
      if (live.failure(value.pool) !== undefined) continue;
      const pool = await live.use(value.pool);
      const names = await pool.snapshots.list(refOf(value)).catch((): string[] => []);
      for (const name of names.filter((one) => one.startsWith(TEMPORARY_PREFIX)))
        await pool.snapshots.delete(refOf(value), name);
    }
  }

  async #open(root: RootVolume): Promise<Opened> {
    return { pool: await this.#options.live.use(root.pool), ref: refOf(recordOf(root, '')) };
  }

  /** Limits the new root and records it; takes it back when that fails. */
  async #finish(
    root: RootVolume,
    { pool, ref }: Opened,
    { size }: Size,
    snapshots: readonly StorageVolumeSnapshotRecord[] = [],
  ): Promise<void> {
    const { volumes, ledger, live } = this.#options;
    try {
      const { config = {} } = this.#rootOptions(root, pool);
      if (size !== undefined) await pool.quota?.set(ref, size, { config });
      await ledger.transact(
        [],
        [
          volumes.put(volumeId(idOf(root)), {
            ...recordOf(root, timestamp(this.#options.clock)),
            config: driverKeys(live.record(root.pool).driver, config),
          }),
          ...snapshots.map((one) => this.#options.snapshots.put(snapshotId(one), one)),
        ],
      );
    } catch (error) {
      await pool.volumes
        .delete(ref)
        .catch((failure: unknown) => this.#options.log.error('A volume is left over', { ref, error: failure }));
      if (isKeelsonError(error)) throw error;
      throw errors.internal(`Cannot record volume "${root.instance}"`, error);
    }
  }

  #copiedSnapshots(source: RootVolume, target: RootVolume, names: readonly string[]): StorageVolumeSnapshotRecord[] {
    return names.map((name) => {
      const made = this.#snapshotRecord(target, name, zeroTime);
      const known = this.#options.snapshots.get(snapshotId(this.#snapshotRecord(source, name, zeroTime)))?.value;
      return known === undefined
        ? made
        : { ...known, pool: made.pool, project: made.project, type: made.type, volume: made.volume };
    });
  }

  #snapshotRecord(root: RootVolume, name: string, expiresAt: string): StorageVolumeSnapshotRecord {
    const { description: _, ...volume } = recordOf(root, timestamp(this.#options.clock));
    return { ...volume, volume: root.instance, name, description: '', expiresAt };
  }

  /** `size`: bytes a new root has room for; without it the pool's default. */
  #rootOptions(root: RootVolume, pool: StoragePool, size?: number): RootOptions {
    const clone = pool.spec.config['volume.clone'];
    const record = recordOf(root, '');
    const own = this.#options.volumes.get(volumeId(record))?.value.config ?? {};
    const sized = size === undefined ? {} : { size: String(size) };
    const config = { ...volumeDefaults(this.#options.live.record(root.pool), record.contentType), ...own, ...sized };
    return { idRange: root.idRange, nesting: root.nesting, clone: isCloneMode(clone) ? clone : 'auto', config };
  }
}

/** Members of a root's states in a backup. */
function rootMember(snapshot: string | undefined): string {
  return snapshot === undefined ? 'backup/container' : `backup/snapshots/${snapshot}`;
}

function isCloneMode(text: string | undefined): text is CloneMode {
  return text === 'auto' || text === 'overlay' || text === 'reflink' || text === 'copy';
}

function idOf(root: RootVolume): { pool: string; project: string; type: RootVolume['type']; name: string } {
  return { pool: root.pool, project: root.project, type: root.type, name: root.instance };
}

function recordOf(root: RootVolume, createdAt: string): StorageVolumeRecord {
  const contentType = root.type === 'virtual-machine' ? 'block' : 'filesystem';
  return { ...idOf(root), contentType, description: '', config: {}, createdAt };
}
