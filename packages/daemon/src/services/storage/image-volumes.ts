import { type Clock, timestamp } from '../../core/clock.ts';
import { errors } from '../../core/errors.ts';
import { KeyedQueue } from '../../core/keyed-queue.ts';
import type { Log } from '../../core/log.ts';
import type { ProgressOptions, StoragePool, VolumeRef } from '../../drivers/storage/contract.ts';
import type { Collection } from '../../state/collection.ts';
import type { ImageRecord } from '../../state/records/image.ts';
import type { StorageVolumeRecord } from '../../state/records/storage.ts';
import type { LivePools } from './live-pools.ts';
import { volumeDefaults } from './volume-config.ts';
import { refOf, volumeId } from './volume-names.ts';

/** Puts an image's `rootfs/` or `root.img` into an existing empty folder, with guest ids. */
export type UnpackImage = (image: ImageRecord, target: string, options: ProgressOptions) => Promise<void>;

export interface ImageVolumesOptions {
  readonly live: LivePools;
  readonly volumes: Collection<StorageVolumeRecord>;
  readonly images: Collection<ImageRecord>;
  readonly unpack: UnpackImage;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * One unpacked copy of an image per pool, made when it is first needed and gone with the image, or later, when the
 * last root that stands on it goes.
 */
export class ImageVolumeService {
  readonly #options: ImageVolumesOptions;
  /** Shared by those who clone, exclusive for making and removing. */
  readonly #lanes = new KeyedQueue();

  constructor(options: ImageVolumesOptions) {
    this.#options = options;
  }

  /** Calls `clone` with the image's volume; launches at the same moment share the unpacking. */
  async with<T>(
    at: { readonly pool: StoragePool; readonly image: ImageRecord },
    options: ProgressOptions,
    clone: (volume: VolumeRef) => Promise<T>,
  ): Promise<T> {
    const record = this.#record(at.pool.spec.name, at.image);
    const key = volumeId(record);
    if (!this.#isReady(key)) {
      await this.#lanes.run({ exclusive: [key], signal: options.signal }, () => this.#make(at, record, options));
    }
    return this.#lanes
      .run({ shared: [key], signal: options.signal }, async () => {
        if (!this.#isReady(key)) return undefined;
        return { result: await clone(refOf(record)) };
      })
      .then((done) => (done === undefined ? this.with(at, options, clone) : done.result));
  }

  /** The image is no more: its volumes go where nothing stands on them. */
  async removeImageVolumes(fingerprint: string): Promise<void> {
    const records = this.#options.volumes
      .list()
      .filter(({ value }) => value.type === 'image' && value.name === fingerprint);
    for (const { value } of records) {
      try {
        await this.release(value.pool, fingerprint);
      } catch (error) {
        this.#options.log.warn('An image volume stays until its pool is back', {
          pool: value.pool,
          fingerprint,
          error,
        });
      }
    }
  }

  /** A root that stood on the image went: removes the volume when it was the last and the image is gone. */
  async release(poolName: string, fingerprint: string): Promise<void> {
    const { live, volumes, images } = this.#options;
    if (images.list().some(({ value }) => value.fingerprint === fingerprint)) return;
    const key = volumeId({ pool: poolName, project: 'default', type: 'image', name: fingerprint });
    await this.#lanes.run({ exclusive: [key] }, async () => {
      const record = volumes.get(key)?.value;
      if (record === undefined) return;
      const pool = await live.use(poolName);
      if (await this.#isNeeded(pool, fingerprint)) return;
      await this.#remove(pool, record);
    });
  }

  /** Removes one volume, to be made again when it is needed. @throws bad-request while roots stand on it, not-found. */
  async removeOne(poolName: string, fingerprint: string): Promise<void> {
    const key = volumeId({ pool: poolName, project: 'default', type: 'image', name: fingerprint });
    await this.#lanes.run({ exclusive: [key] }, async () => {
      const record = this.#options.volumes.get(key)?.value;
      if (record === undefined) throw errors.notFound('Storage pool volume not found');
      const pool = await this.#options.live.use(poolName);
      if (await this.#isNeeded(pool, fingerprint)) throw errors.badRequest('The storage volume is still in use');
      await this.#remove(pool, record);
    });
  }

  /** Removes what was not made or removed to its end. A pool that is away is left alone: it is done when the volume is needed. */
  async finish(): Promise<void> {
    const { live, volumes } = this.#options;
    for (const { value } of volumes.list())
      if (value.unfinished === true && live.failure(value.pool) === undefined) await this.#finish(value);
  }

  /** Removes what was left when an image went while its pool was away. */
  async sweep(): Promise<void> {
    for (const { value } of this.#options.volumes.list()) {
      if (value.type === 'image') await this.removeImageVolumes(value.name);
    }
  }

  async #finish(record: StorageVolumeRecord): Promise<void> {
    const { live, volumes, log } = this.#options;
    const key = volumeId(record);
    try {
      await this.#lanes.run({ exclusive: [key] }, async () => {
        const known = volumes.get(key)?.value;
        if (known?.unfinished === true) await this.#remove(await live.use(record.pool), known);
      });
    } catch (error) {
      log.warn('An image volume stays until its pool is back', {
        pool: record.pool,
        fingerprint: record.name,
        error,
      });
    }
  }

  /** The record says first that the volume may not be whole any more, and goes last. */
  async #remove(pool: StoragePool, record: StorageVolumeRecord): Promise<void> {
    const { volumes } = this.#options;
    const key = volumeId(record);
    if (record.unfinished !== true) await volumes.update(key, (current) => ({ ...current, unfinished: true }));
    await pool.volumes.delete(refOf(record));
    await volumes.delete(key);
  }

  /** Made to its end, and not about to go. */
  #isReady(key: string): boolean {
    const record = this.#options.volumes.get(key)?.value;
    return record !== undefined && record.unfinished !== true;
  }

  async #make(
    at: { pool: StoragePool; image: ImageRecord },
    record: StorageVolumeRecord,
    options: ProgressOptions,
  ): Promise<void> {
    const { volumes, unpack } = this.#options;
    const [key, ref] = [volumeId(record), refOf(record)];
    if (this.#isReady(key)) return;
    const cutOff = volumes.get(key)?.value;
    if (cutOff !== undefined) await this.#remove(at.pool, cutOff);
    await volumes.create(key, { ...record, unfinished: true });
    try {
      if (!(await at.pool.volumes.exists(ref))) {
        const config = volumeDefaults(this.#options.live.record(record.pool), record.contentType);
        await at.pool.volumes.createFilled(ref, (folder) => unpack(at.image, folder, options), { config });
      }
    } catch (error) {
      await volumes.delete(key);
      throw error;
    }
    await volumes.update(key, ({ unfinished: _, ...made }) => made);
  }

  async #isNeeded(pool: StoragePool, fingerprint: string): Promise<boolean> {
    for (const { value } of this.#options.volumes.list(`${pool.spec.name}/`)) {
      if (value.type !== 'container' && value.type !== 'virtual-machine') continue;
      if ((await pool.roots.imageOf(refOf(value))) === fingerprint) return true;
    }
    return false;
  }

  #record(pool: string, image: ImageRecord): StorageVolumeRecord {
    return {
      pool,
      project: 'default',
      type: 'image',
      name: image.fingerprint,
      contentType: image.type === 'virtual-machine' ? 'block' : 'filesystem',
      description: '',
      config: {},
      createdAt: timestamp(this.#options.clock),
    };
  }
}
