import type { ResourcesStoragePool, StoragePool as StoragePoolRecord, StoragePoolsPost } from '@keelson/api';
import { Manager } from '../manager.ts';
import { type CallOptions, defineAttributes, Model, type ModelContext } from '../model.ts';
import { StorageVolumeManager } from './storage-volume.ts';

const FIELDS = ['name', 'driver', 'description', 'config', 'used_by', 'status', 'locations'] as const;
const WRITABLE = ['description', 'config'] as const;

/** A storage pool. `save` replaces `description` and `config` in entirety. */
export class StoragePool extends Model<StoragePoolRecord> {
  /** Unique on the server. */
  declare readonly name: StoragePoolRecord['name'];
  /** `dir`, `btrfs`, … */
  declare readonly driver: StoragePoolRecord['driver'];
  /** For people. */
  declare description: StoragePoolRecord['description'];
  /** All values are text; sizes carry their unit (`10GiB`). */
  declare config: StoragePoolRecord['config'];
  /** URL paths of what uses the pool. */
  declare readonly used_by: StoragePoolRecord['used_by'];
  /** `Created`, `Pending`, `Errored`. */
  declare readonly status: StoragePoolRecord['status'];
  /** Cluster members it is on. */
  declare readonly locations: StoragePoolRecord['locations'];
  /** True: every pool that the API shows is managed by the server. */
  readonly managed: boolean = true;
  /** Space and inodes. */
  readonly resources: StoragePoolResources;
  /** Its volumes. `…/volumes` */
  readonly volumes: StorageVolumeManager;

  /** @internal */
  constructor(context: ModelContext, name: string, record: Partial<StoragePoolRecord>, populated: boolean) {
    const path = context.connection.path('storage-pools', name);
    super(context, { path, label: `Storage pool "${name}"`, writable: WRITABLE }, { ...record, name }, populated);
    this.resources = new StoragePoolResources(context, name);
    this.volumes = new StorageVolumeManager(context, name);
  }
}
defineAttributes<StoragePoolRecord>(StoragePool, FIELDS, WRITABLE);

/** Read-only space and inode counts of a pool. */
export class StoragePoolResources {
  readonly #context: ModelContext;
  readonly #pool: string;

  /** @internal */
  constructor(context: ModelContext, pool: string) {
    this.#context = context;
    this.#pool = pool;
  }

  /** Bytes and inodes, used and total. `GET /1.0/storage-pools/<pool>/resources` @throws NotFound */
  async get(options: CallOptions = {}): Promise<ResourcesStoragePool> {
    const { connection } = this.#context;
    const path = connection.path('storage-pools', this.#pool, 'resources');
    return connection.get<ResourcesStoragePool>(path, { signal: options.signal });
  }
}

/** `client.storagePools`. Every operation throws APIExtensionNotAvailable without the extension `storage`. */
export class StoragePoolManager extends Manager<StoragePoolRecord, StoragePool, 'name'> {
  /** @internal */
  constructor(context: ModelContext) {
    super(context, {
      path: context.connection.path('storage-pools'),
      fields: FIELDS,
      key: 'name',
      extension: 'storage',
      make: (name, record, populated, scoped = context) => new StoragePool(scoped, name, record, populated),
    });
  }

  /** `definition` is the whole request body. `POST /1.0/storage-pools` @throws APIException */
  async create(definition: StoragePoolsPost, options: CallOptions = {}): Promise<StoragePool> {
    await this.assertAvailable();
    const request = { json: definition, signal: options.signal };
    await this.context.connection.request('POST', this.definition.path, request);
    return this.get(definition.name, options);
  }
}
