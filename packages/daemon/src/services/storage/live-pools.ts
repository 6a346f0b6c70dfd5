import { errors, isKeelsonError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { StatePaths } from '../../core/paths.ts';
import type { PoolSpec, StorageDriver, StoragePool } from '../../drivers/storage/contract.ts';
import type { Collection } from '../../state/collection.ts';
import type { StoragePoolRecord, StorageVolumeRecord } from '../../state/records/storage.ts';
import { refOf } from './volume-names.ts';

/** The drivers there are, by name. */
export interface DriverSource {
  get(name: string): StorageDriver | undefined;
  all(): readonly StorageDriver[];
}

export interface LivePoolsOptions {
  readonly pools: Collection<StoragePoolRecord>;
  readonly volumes: Collection<StorageVolumeRecord>;
  readonly drivers: DriverSource;
  readonly paths: StatePaths;
  readonly log: Log;
}

/** The pools of the records, mounted when first needed; one whose source is gone is tried again at every use. */
export class LivePools {
  readonly #options: LivePoolsOptions;
  readonly #open = new Map<string, Promise<StoragePool>>();
  readonly #failures = new Map<string, string>();

  constructor(options: LivePoolsOptions) {
    this.#options = options;
  }

  /** Mounts every pool at daemon start; one that cannot be mounted keeps nobody else waiting. */
  async startAll(): Promise<void> {
    await Promise.allSettled(this.#options.pools.list().map(({ value }) => this.use(value.name)));
  }

  has(name: string): boolean {
    return this.#options.pools.get(name) !== undefined;
  }

  /** @throws not-found with LXD's text. */
  record(name: string): StoragePoolRecord {
    const entry = this.#options.pools.get(name);
    if (entry === undefined) throw errors.notFound('Storage pool not found');
    return entry.value;
  }

  /** Why the pool cannot be used; undefined when it can. */
  failure(name: string): string | undefined {
    return this.#failures.get(name);
  }

  /** Changes whenever an answer of `failure` could. */
  get revision(): string {
    return [...this.#failures].flat().join('|');
  }

  /** The mounted pool. @throws not-found, unavailable with the reason. */
  use(name: string): Promise<StoragePool> {
    const record = this.record(name);
    let opened = this.#open.get(name);
    if (opened === undefined) {
      opened = this.#mount(record);
      this.#open.set(name, opened);
      opened.catch(() => this.#open.delete(name));
    }
    return opened;
  }

  /** A pool that was just made, mounted already. */
  adopt(pool: StoragePool): void {
    this.#open.set(pool.spec.name, Promise.resolve(pool));
    this.#failures.delete(pool.spec.name);
  }

  forget(name: string): void {
    this.#open.delete(name);
    this.#failures.delete(name);
  }

  /** @throws bad-request for a driver that is unknown or not supported here. */
  async driver(name: string): Promise<StorageDriver> {
    const driver = this.#options.drivers.get(name);
    if (driver === undefined) throw errors.badRequest('Unknown driver');
    const { supported, reason } = await driver.probe();
    if (!supported)
      throw errors.badRequest(`Storage driver "${name}" is not supported here: ${reason ?? 'unknown reason'}`);
    return driver;
  }

  spec(name: string, config: Readonly<Record<string, string>>): PoolSpec {
    const { paths } = this.#options;
    return { name, config, path: paths.pool(name), loopFile: `${paths.disks}/${name}.img` };
  }

  async #mount(record: StoragePoolRecord): Promise<StoragePool> {
    const { volumes, log } = this.#options;
    try {
      const driver = await this.driver(record.driver);
      const pool = driver.open(this.spec(record.name, record.config));
      await pool.mount();
      await pool.recover(volumes.list(`${record.name}/`).map(({ value }) => refOf(value)));
      this.#failures.delete(record.name);
      return pool;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (!this.#failures.has(record.name)) log.error('A storage pool cannot be used', { pool: record.name, error });
      this.#failures.set(record.name, reason);
      if (isKeelsonError(error, 'unavailable'))
        throw errors.unavailable(`Storage pool "${record.name}" is unavailable: ${reason}`, error);
      throw errors.unavailable(`Storage pool "${record.name}" cannot be mounted: ${reason}`, error);
    }
  }
}
