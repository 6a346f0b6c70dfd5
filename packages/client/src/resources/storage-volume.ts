import type {
  StoragePoolVolumeBackup,
  StoragePoolVolumeBackupsPost,
  StorageVolume as StorageVolumeRecord,
  StorageVolumePost,
  StorageVolumeSnapshot,
  StorageVolumeSnapshotsPost,
  StorageVolumesPost,
  StorageVolumeState,
} from '@keelson/api';
import { defineAttributes, Model, type ModelContext, type Sparse, sparse, type WaitOptions } from '../model.ts';
import type { RequestBody } from '../transport/types.ts';
import { Download, exists, nameOf } from './common.ts';

const FIELDS = [
  'name',
  'type',
  'config',
  'content_type',
  'created_at',
  'description',
  'location',
  'project',
  'used_by',
] as const;
const WRITABLE = ['description', 'config'] as const;

/** `custom` is the type for volumes that users make; the set of types may grow. */
export type VolumeType = 'container' | 'virtual-machine' | 'image' | 'custom';

/** Where a volume goes: a name, a pool, a project, or another server. */
export interface VolumeMove {
  readonly name?: string;
  readonly pool?: string;
  readonly project?: string;
  /** Move to another server: the body's `target` of a push, or empty for a pull. */
  readonly migration?: boolean;
  readonly target?: StorageVolumePost['target'];
  readonly volumeOnly?: boolean;
}

/** A storage volume, identified by type and name within its pool. */
export class StorageVolume extends Model<StorageVolumeRecord> {
  declare readonly name: string;
  declare readonly type: string;
  declare config: Record<string, string>;
  /** `filesystem`, `block` or `iso`. */
  declare readonly content_type: string;
  declare readonly created_at: string;
  declare description: string;
  declare readonly location: string;
  declare readonly project: string;
  declare readonly used_by: readonly string[];
  readonly snapshots: StorageVolumeSnapshots;
  readonly backups: StorageVolumeBackups;
  #pool: string;

  constructor(
    context: ModelContext,
    place: { pool: string; type: string; name: string },
    record: Partial<StorageVolumeRecord>,
    populated: boolean,
  ) {
    super(context, definitionOf(context, place), { ...record, type: place.type, name: place.name }, populated);
    this.#pool = place.pool;
    this.snapshots = new StorageVolumeSnapshots(context, () => this.path);
    this.backups = new StorageVolumeBackups(context, () => this.path);
  }

  /** Pool the volume is in. */
  get pool(): string {
    return this.#pool;
  }

  /**
   * Renames the volume; with `pool` moves it to another pool, with `migration` and `target` to another server.
   * `POST /1.0/storage-pools/<pool>/volumes/<type>/<name>` @throws APIException
   */
  async rename(to: string | VolumeMove, options: WaitOptions = {}): Promise<void> {
    this.assertAlive();
    const move = typeof to === 'string' ? { name: to } : to;
    const { volumeOnly, ...rest } = move;
    const body = {
      ...rest,
      name: move.name ?? this.name,
      ...(volumeOnly === undefined ? {} : { volume_only: volumeOnly }),
    };
    await this.run('POST', this.path, { json: body }, { wait: true, ...options });
    if (move.migration) return;
    this.#pool = move.pool ?? this.#pool;
    const place = { pool: this.#pool, type: this.type, name: body.name };
    this.moved(definitionOf(this.context, place), { name: body.name });
  }

  /** Bytes used and the limit. `GET …/state` @throws NotFound */
  async state(): Promise<StorageVolumeState> {
    return this.connection.get<StorageVolumeState>(`${this.path}/state`);
  }

  /** Goes back to a snapshot. */
  async restore(snapshot: string, options: WaitOptions = {}): Promise<void> {
    await this.rawPut({ restore: snapshot }, { wait: true, ...options });
    await this.sync();
  }
}
defineAttributes<StorageVolumeRecord>(StorageVolume, FIELDS, WRITABLE);

function definitionOf(
  context: ModelContext,
  place: { pool: string; type: string; name: string },
): { path: string; label: string; writable: typeof WRITABLE } {
  const path = context.connection.path('storage-pools', place.pool, 'volumes', place.type, place.name);
  return { path, label: `Storage volume "${place.pool}/${place.type}/${place.name}"`, writable: WRITABLE };
}

/** `pool.volumes` */
export class StorageVolumeManager {
  readonly #context: ModelContext;
  readonly #pool: string;

  constructor(context: ModelContext, pool: string) {
    this.#context = context;
    this.#pool = pool;
  }

  /** Every volume of the pool, sparse: `type` and `name` are there. `GET /1.0/storage-pools/<pool>/volumes` */
  async all(options?: { readonly signal?: AbortSignal }): Promise<Sparse<StorageVolume, 'name' | 'type'>[]>;
  async all(options: { readonly recursion: 1; readonly signal?: AbortSignal }): Promise<StorageVolume[]>;
  async all(
    options: { readonly recursion?: 1; readonly signal?: AbortSignal } = {},
  ): Promise<(Sparse<StorageVolume, 'name' | 'type'> | StorageVolume)[]> {
    const path = this.#context.connection.path('storage-pools', this.#pool, 'volumes');
    const { signal, recursion } = options;
    if (recursion === 1) {
      const records = await this.#context.connection.get<StorageVolumeRecord[]>(path, { query: { recursion }, signal });
      return records.map((record) => this.#make(record.type, record.name, record, true));
    }
    const urls = await this.#context.connection.get<string[]>(path, { signal });
    return urls.map((url) => {
      const [type = '', ...name] =
        (url.split('?')[0] ?? '').split('/volumes/')[1]?.split('/').map(decodeURIComponent) ?? [];
      return sparse<StorageVolumeRecord, StorageVolume, 'name' | 'type'>(
        this.#make(type, name.join('/'), {}, false),
        FIELDS,
        ['name', 'type'],
      );
    });
  }

  /** @throws NotFound */
  async get(type: VolumeType | (string & {}), name: string): Promise<StorageVolume> {
    return this.#make(type, name, {}, false).sync();
  }

  async exists(type: VolumeType | (string & {}), name: string): Promise<boolean> {
    return exists(this.get(type, name));
  }

  /** Creates a volume; `type` defaults to `custom`. `wait` (default true) waits for a copy. `POST …/volumes/<type>` @throws APIException */
  async create(definition: StorageVolumesPost, options: WaitOptions = {}): Promise<StorageVolume> {
    const { type = 'custom', ...body } = definition;
    const { connection, operations } = this.#context;
    const path = connection.path('storage-pools', this.#pool, 'volumes', type);
    const answer = await connection.request('POST', path, { json: body, signal: options.signal });
    if (answer.operation === '') return this.get(type, definition.name);
    if (options.wait === false) return this.#make(type, definition.name, {}, false);
    await operations.wait(answer.operation, { signal: options.signal });
    return this.get(type, definition.name);
  }

  /** Makes a custom volume from an exported backup (`type` `backup`) or an ISO image (`iso`). */
  async import(
    name: string,
    content: RequestBody,
    options: { readonly type?: 'backup' | 'iso'; readonly signal?: AbortSignal } = {},
  ): Promise<StorageVolume> {
    const { connection, operations } = this.#context;
    const headers = {
      'Content-Type': 'application/octet-stream',
      'X-LXD-name': name,
      'X-LXD-type': options.type === 'iso' ? 'iso' : '',
    };
    const path = connection.path('storage-pools', this.#pool, 'volumes', 'custom');
    const answer = await connection.request('POST', path, { raw: content, headers, signal: options.signal });
    if (answer.operation !== '') await operations.wait(answer.operation, { signal: options.signal });
    return this.get('custom', name);
  }

  #make(type: string, name: string, record: Partial<StorageVolumeRecord>, populated: boolean): StorageVolume {
    return new StorageVolume(this.#context, { pool: this.#pool, type, name }, record, populated);
  }
}

/** `volume.snapshots` */
export class StorageVolumeSnapshots {
  readonly #context: ModelContext;
  readonly #volume: () => string;

  constructor(context: ModelContext, volume: () => string) {
    this.#context = context;
    this.#volume = volume;
  }

  async all(): Promise<StorageVolumeSnapshot[]> {
    return this.#context.connection.get<StorageVolumeSnapshot[]>(`${this.#volume()}/snapshots`, {
      query: { recursion: 1 },
    });
  }

  /** @throws NotFound */
  async get(name: string): Promise<StorageVolumeSnapshot> {
    return this.#context.connection.get<StorageVolumeSnapshot>(this.#path(name));
  }

  /** Takes a snapshot and waits until it is there. `expires_at` is RFC 3339. */
  async create(definition: StorageVolumeSnapshotsPost = {}): Promise<void> {
    await this.#run('POST', `${this.#volume()}/snapshots`, definition);
  }

  async rename(name: string, newName: string): Promise<void> {
    await this.#run('POST', this.#path(name), { name: newName });
  }

  async update(name: string, change: { readonly description?: string; readonly expires_at?: string }): Promise<void> {
    await this.#run('PATCH', this.#path(name), change);
  }

  async delete(name: string): Promise<void> {
    await this.#run('DELETE', this.#path(name));
  }

  #path(name: string): string {
    return `${this.#volume()}/snapshots/${encodeURIComponent(name)}`;
  }

  async #run(method: string, path: string, json?: unknown): Promise<void> {
    const { operation } = await this.#context.connection.request(method, path, json === undefined ? {} : { json });
    if (operation !== '') await this.#context.operations.wait(operation);
  }
}

/** `volume.backups` */
export class StorageVolumeBackups {
  readonly #context: ModelContext;
  readonly #volume: () => string;

  constructor(context: ModelContext, volume: () => string) {
    this.#context = context;
    this.#volume = volume;
  }

  /** Names of the backups. */
  async all(): Promise<string[]> {
    return (await this.#context.connection.get<string[]>(`${this.#volume()}/backups`)).map(nameOf);
  }

  /** @throws NotFound */
  async get(name: string): Promise<StoragePoolVolumeBackup> {
    return this.#context.connection.get<StoragePoolVolumeBackup>(this.#path(name));
  }

  /** Makes a backup on the server and waits until it is there. */
  async create(
    definition: StoragePoolVolumeBackupsPost = {},
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<void> {
    const { operation } = await this.#context.connection.request('POST', `${this.#volume()}/backups`, {
      json: definition,
      signal: options.signal,
    });
    await this.#context.operations.wait(operation, options);
  }

  /** The backup as a tarball. `GET …/backups/<name>/export` */
  async export(name: string, options: { readonly signal?: AbortSignal } = {}): Promise<Download> {
    return new Download(await this.#context.connection.raw('GET', `${this.#path(name)}/export`, options));
  }

  async rename(name: string, newName: string): Promise<void> {
    const { operation } = await this.#context.connection.request('POST', this.#path(name), { json: { name: newName } });
    if (operation !== '') await this.#context.operations.wait(operation);
  }

  async delete(name: string): Promise<void> {
    const { operation } = await this.#context.connection.request('DELETE', this.#path(name));
    if (operation !== '') await this.#context.operations.wait(operation);
  }

  #path(name: string): string {
    return `${this.#volume()}/backups/${encodeURIComponent(name)}`;
  }
}
