import type { Clock } from '../../core/clock.ts';
import { errors, isKeelsonError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { StatePaths } from '../../core/paths.ts';
import type { PoolSpec, StorageDriver, StoragePool } from '../../drivers/storage/contract.ts';
import type { Collection } from '../../state/collection.ts';
import type { StoragePoolRecord, StorageVolumeRecord } from '../../state/records/storage.ts';
import type { WarningSink } from '../warnings/contract.ts';
import { poolUrl, refOf } from './volume-names.ts';

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
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
  /** Tells one folder from another that takes its place, as when a file system is unmounted; undefined: none is there. */
  readonly identity: (path: string) => Promise<string | undefined>;
  readonly warnings: WarningSink;
}

interface OpenPool {
  readonly pool: StoragePool;
  readonly identity: string | undefined;
  /** `Clock.now` when it was last seen to be what was mounted. */
  seenAt: number;
}

/** A mount that went is noticed at the first use after so many milliseconds. */
const LOOK_EVERY = 1000;
const UNAVAILABLE = 'Storage pool unavailable';

/** The pools of the records, mounted when first needed; one whose source is gone is tried again at every use. */
export class LivePools implements AsyncDisposable {
  readonly #options: LivePoolsOptions;
  readonly #open = new Map<string, Promise<OpenPool>>();
  readonly #failures = new Map<string, string>();
  #released = false;

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
  async use(name: string): Promise<StoragePool> {
    const record = this.record(name);
    const opened = this.#opened(record);
    const open = await opened;
    const now = this.#options.clock.now();
    if (now - open.seenAt < LOOK_EVERY) return open.pool;
    if (await this.#isThere(open)) {
      open.seenAt = now;
      return open.pool;
    }
    if (this.#open.get(name) === opened) this.#open.delete(name);
    return (await this.#opened(record)).pool;
  }

  /** A pool that was just made, mounted already. */
  adopt(pool: StoragePool): void {
    this.#open.set(pool.spec.name, this.#seen(pool));
    this.#failures.delete(pool.spec.name);
  }

  forget(name: string): void {
    this.#open.delete(name);
    this.#failures.delete(name);
  }

  /** No guest runs on the pools any more: disposing unmounts them. */
  release(): void {
    this.#released = true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#released) await Promise.all([...this.#open].map(([name, opened]) => this.#unmount(name, opened)));
  }

  async #unmount(name: string, opened: Promise<OpenPool>): Promise<void> {
    try {
      await (await opened).pool.unmount();
    } catch (error) {
      this.#options.log.warn('A storage pool stays mounted', { pool: name, error });
    }
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

  #opened(record: StoragePoolRecord): Promise<OpenPool> {
    let opened = this.#open.get(record.name);
    if (opened === undefined) {
      const opening = this.#mount(record);
      opened = opening;
      this.#open.set(record.name, opening);
      opening.catch(() => {
        if (this.#open.get(record.name) === opening) this.#open.delete(record.name);
      });
    }
    return opened;
  }

  async #seen(pool: StoragePool): Promise<OpenPool> {
    const identity = await this.#options.identity(pool.spec.path);
    return { pool, identity, seenAt: this.#options.clock.now() };
  }

  async #isThere({ pool, identity }: OpenPool): Promise<boolean> {
    if ((await this.#options.identity(pool.spec.path)) !== identity) return false;
    return (await pool.isThere?.()) ?? true;
  }

  async #mount(record: StoragePoolRecord): Promise<OpenPool> {
    const { volumes, log } = this.#options;
    try {
      const driver = await this.driver(record.driver);
      const pool = driver.open(this.spec(record.name, record.config));
      await pool.mount();
      await pool.recover(volumes.list(`${record.name}/`).map(({ value }) => refOf(value)));
      this.#recovered(record.name);
      return await this.#seen(pool);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (!this.#failures.has(record.name)) log.error('A storage pool cannot be used', { pool: record.name, error });
      this.#failed(record.name, reason);
      if (isKeelsonError(error, 'unavailable'))
        throw errors.unavailable(`Storage pool "${record.name}" is unavailable: ${reason}`, error);
      throw errors.unavailable(`Storage pool "${record.name}" cannot be mounted: ${reason}`, error);
    }
  }

  /** Raised again only when the reason is another. */
  #failed(name: string, reason: string): void {
    if (this.#failures.get(name) === reason) return;
    this.#failures.set(name, reason);
    const { warnings } = this.#options;
    const raised = warnings.raise({ type: UNAVAILABLE, severity: 'high', message: reason, entityUrl: poolUrl(name) });
    this.#logged(raised, name);
  }

  #recovered(name: string): void {
    this.#failures.delete(name);
    this.#logged(this.#options.warnings.resolve({ type: UNAVAILABLE, entityUrl: poolUrl(name) }), name);
  }

  /** A pool does not depend on the warning about it. */
  #logged(done: Promise<void>, pool: string): void {
    done.catch((error: unknown) => this.#options.log.warn('A warning was not written', { pool, error }));
  }
}
