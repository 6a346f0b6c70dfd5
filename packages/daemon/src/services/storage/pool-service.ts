import { names, storageDrivers, storagePoolConfig, validateConfig } from '@keelson/api';
import type {
  ResourcesStoragePool,
  StoragePool,
  StoragePoolPut,
  StoragePoolsPost,
  StorageDriverName,
} from '@keelson/api';
import { errors, type KeelsonError } from '../../core/errors.ts';
import { JsonCache, type RecordList } from '../../core/record-list.ts';
import type { Collection, Entry } from '../../state/collection.ts';
import type { StoragePoolRecord, StorageVolumeRecord } from '../../state/records/storage.ts';
import type { Events, Lifecycle } from '../events/contract.ts';
import type { Intents } from '../intents/contract.ts';
import type { Operations } from '../operations/contract.ts';
import type { ChangeOptions, StoragePools } from './contract.ts';
import type { LivePools } from './live-pools.ts';
import type { StorageUsage } from './usage.ts';
import { checkName, poolUrl, volumeId } from './volume-names.ts';

export interface PoolServiceOptions {
  readonly pools: Collection<StoragePoolRecord>;
  readonly volumes: Collection<StorageVolumeRecord>;
  readonly live: LivePools;
  readonly usage: StorageUsage;
  readonly events: Events;
  readonly intents: Intents;
  readonly operations: Operations;
}

interface PoolIntent {
  readonly name: string;
  readonly driver: string;
  readonly config: Readonly<Record<string, string>>;
}

/** Keys that name where a pool is; a pool stays where it was made. */
const FIXED_KEYS = ['source', 'volatile.initial_source'];

export class PoolService implements StoragePools {
  readonly #options: PoolServiceOptions;
  readonly #texts = new JsonCache<StoragePool>();

  constructor(options: PoolServiceOptions) {
    this.#options = options;
    options.intents.handle<PoolIntent>('storage-pool-create', async ({ data }) => this.#undoCreate(data));
    options.intents.handle<PoolIntent>('storage-pool-delete', async ({ data }) => this.#finishDelete(data));
    options.pools.subscribe(({ id, after }) => {
      if (after === undefined) this.#texts.delete(id);
    });
  }

  list(): RecordList {
    const { pools, usage, live } = this.#options;
    const rendered = () => pools.list().map((entry) => this.#render(entry));
    return {
      version: `${pools.revision}.${usage.version}.${live.revision}`,
      urls: () => pools.list().map(({ value }) => poolUrl(value.name)),
      json: () => rendered().map(({ text }) => text),
      values: () => rendered().map(({ value }) => value),
    };
  }

  get(name: string): { pool: StoragePool; etag: readonly unknown[] } {
    const entry = this.#require(name);
    return { pool: this.#render(entry).value, etag: etagSource(entry.value) };
  }

  async create(body: StoragePoolsPost, options: ChangeOptions = {}): Promise<string> {
    const { name, driver, description = '' } = body;
    checkName(names.poolName, name);
    if (driver === '') throw errors.badRequest('No driver provided');
    checkConfig(driver, body.config ?? {});
    const config = clean(body.config ?? {});
    const { live, intents, operations, pools } = this.#options;
    await operations.exclusive([`storage-pool/${name}`], async () => {
      if (pools.get(name) !== undefined) throw exists();
      const found = await live.driver(driver);
      const prepared = await found.prepare(live.spec(name, config));
      const intent = await intents.begin<PoolIntent>('storage-pool-create', { name, driver, config: prepared });
      const spec = live.spec(name, prepared);
      try {
        await found.create(spec);
        const pool = found.open(spec);
        await pool.mount();
        const record: StoragePoolRecord = { name, driver, description, config: prepared, status: 'Created' };
        await intents.end(intent, [pools.put(name, record)]);
        live.adopt(pool);
      } catch (error) {
        await this.#undoCreate(intent.data);
        await intents.end(intent);
        throw error;
      }
    });
    return this.#announce('storage-pool-created', name, options);
  }

  async put(name: string, body: StoragePoolPut, options: ChangeOptions = {}): Promise<void> {
    const { description = '', config = {} } = body;
    await this.#change(name, options, (current) => ({ ...current, description, config }));
  }

  async patch(name: string, body: StoragePoolPut, options: ChangeOptions = {}): Promise<void> {
    await this.#change(name, options, (current) => ({
      ...current,
      description: body.description ?? current.description,
      config: { ...current.config, ...body.config },
    }));
  }

  async delete(name: string, options: ChangeOptions = {}): Promise<void> {
    const { intents, operations, usage } = this.#options;
    await operations.exclusive([`storage-pool/${name}`], async () => {
      const { value } = this.#require(name);
      options.precondition?.(etagSource(value));
      const users = usage.ofPool(name).filter((url) => !url.startsWith('/1.0/images/'));
      if (users.length > 0) throw errors.badRequest(`The storage pool is currently in use: ${someOf(users)}`);
      const { driver, config } = value;
      const intent = await intents.begin<PoolIntent>('storage-pool-delete', { name, driver, config });
      await this.#finishDelete(intent.data);
      await intents.end(intent);
    });
    this.#announce('storage-pool-deleted', name, options);
  }

  async resources(name: string): Promise<ResourcesStoragePool> {
    const pool = await this.#options.live.use(name);
    return pool.resources();
  }

  async #change(
    name: string,
    options: ChangeOptions,
    change: (current: StoragePoolRecord) => StoragePoolRecord,
  ): Promise<void> {
    const { live, operations, pools } = this.#options;
    await operations.exclusive([`storage-pool/${name}`], async () => {
      const { value: current } = this.#require(name);
      options.precondition?.(etagSource(current));
      const changed = change(current);
      // A key that is not known is refused without a value too: whoever unsets it meant another.
      checkConfig(current.driver, changed.config);
      const wanted = { ...changed, config: clean(changed.config) };
      if (FIXED_KEYS.some((key) => (wanted.config[key] ?? '') !== (current.config[key] ?? ''))) {
        throw errors.badRequest('Pool source cannot be changed when not in pending state');
      }
      await (await live.use(name)).update(wanted.config);
      await pools.update(name, () => wanted);
    });
    this.#announce('storage-pool-updated', name, options);
  }

  async #undoCreate({ name, driver, config }: PoolIntent): Promise<void> {
    if (this.#options.pools.get(name) !== undefined) return;
    await (await this.#options.live.driver(driver)).open(this.#options.live.spec(name, config)).destroy();
  }

  async #finishDelete({ name, driver, config }: PoolIntent): Promise<void> {
    const { live, pools, volumes } = this.#options;
    await (await live.driver(driver)).open(live.spec(name, config)).destroy();
    live.forget(name);
    for (const { value } of volumes.list(`${name}/`)) await volumes.delete(volumeId(value));
    await pools.delete(name);
  }

  #require(name: string): Entry<StoragePoolRecord> {
    const entry = this.#options.pools.get(name);
    if (entry === undefined) throw errors.notFound('Storage pool not found');
    return entry;
  }

  #render(entry: Entry<StoragePoolRecord>): { readonly value: StoragePool; readonly text: string } {
    const { usage, live } = this.#options;
    const { name, driver, description, config, status } = entry.value;
    return this.#texts.get(name, `${entry.revision}.${usage.version}.${live.revision}`, () => {
      const users = usage.ofPool(name);
      return {
        config: { ...config },
        description,
        name,
        driver,
        used_by: users.length === 0 ? null : [...users],
        status: live.failure(name) === undefined ? status : 'Unavailable',
        locations: ['none'],
        managed: true,
      };
    });
  }

  #announce(action: string, name: string, { requestor }: ChangeOptions): string {
    const source = poolUrl(name);
    const event: Lifecycle = { action, source, ...(requestor === undefined ? {} : { requestor }) };
    this.#options.events.lifecycle('default', event);
    return source;
  }
}

function etagSource({ name, driver, config, description }: StoragePoolRecord): readonly unknown[] {
  return [name, driver, config, description];
}

/** @throws bad-request with LXD's text, naming the key. */
function checkConfig(driver: string, config: Readonly<Record<string, string>>): void {
  const known = storageDrivers.find((name): name is StorageDriverName => name === driver);
  if (known === undefined) throw errors.badRequest('Unknown driver');
  const [problem] = validateConfig(storagePoolConfig(known), config);
  if (problem !== undefined) throw errors.badRequest(problem.message);
}

/** The first few of many URLs, for a message. */
function someOf(urls: readonly string[]): string {
  const shown = urls.slice(0, 5).join(', ');
  return urls.length > 5 ? `${shown} and ${urls.length - 5} more` : shown;
}

/** An empty value means: not set. */
function clean(config: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(config).filter(([, value]) => value !== ''));
}

function exists(): KeelsonError {
  return errors.conflict('The storage pool already exists: The record already exists');
}
