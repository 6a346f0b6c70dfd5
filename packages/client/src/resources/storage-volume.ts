import type {
  Operation,
  StorageVolume as StorageVolumeRecord,
  StorageVolumePost,
  StorageVolumesPost,
  StorageVolumeState,
} from '@keelson/api';
import {
  type CallOptions,
  defineAttributes,
  Model,
  type ModelContext,
  type ProgressOptions,
  type Sparse,
  sparse,
  type WaitOptions,
} from '../model.ts';
import type { AllOptions } from '../manager.ts';
import type { CopyProgress, MigrationMode } from '../migration.ts';
import type { RequestBody } from '../transport/types.ts';
import { exists, inProject, nameOf, projectOf, sameServer, serverHeaders } from './common.ts';
import type { StoragePoolManager } from './storage-pool.ts';
import { copyVolume } from './storage-volume-copy.ts';
import { StorageVolumeBackups, StorageVolumeSnapshots } from './storage-volume-parts.ts';

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

/** Another client, or whatever has its `storagePools`. */
export interface VolumeTarget {
  /** Where the volume goes. */
  readonly storagePools: StoragePoolManager;
}

/** Where a copy of a volume goes. */
export interface VolumeCopy {
  /** Default: the same. */
  readonly name?: string;
  /** Default: a pool of the same name. */
  readonly pool?: string;
  /** The client of another server; within one server nothing goes over the network. */
  readonly to?: VolumeTarget;
  /** Project of the copy; default that of the client. */
  readonly project?: string;
  /** How the volume reaches the other server; default the most direct way that both can. */
  readonly mode?: MigrationMode;
  /** Leave the snapshots behind. */
  readonly volumeOnly?: boolean;
  /** Copy this snapshot, alone, in place of the volume as it is. */
  readonly snapshot?: string;
  /** Bring a copy that is there already up to date: files and snapshots. */
  readonly refresh?: boolean;
  /** Told how far the copy is. */
  readonly onProgress?: CopyProgress | undefined;
}

/** Where a volume goes: a name, a pool, a project, or another server. */
export interface VolumeMove extends Omit<VolumeCopy, 'snapshot' | 'refresh'> {
  /** Begin a migration that the caller drives: `target` of a push, or none for a pull. */
  readonly migration?: boolean;
  /** The other server of a push that the caller drives. */
  readonly target?: StorageVolumePost['target'];
}

/** Which volumes of a pool are listed. */
export interface AllVolumesOptions extends AllOptions {
  /** Only those of this type. */
  readonly type?: VolumeType | (string & {});
}

/** A storage volume, identified by type and name within its pool. */
export class StorageVolume extends Model<StorageVolumeRecord> {
  /** Unique within pool, type and project. */
  declare readonly name: StorageVolumeRecord['name'];
  /** `custom`, `container`, `virtual-machine` or `image`. */
  declare readonly type: StorageVolumeRecord['type'];
  /** Config keys, all text. */
  declare config: StorageVolumeRecord['config'];
  /** `filesystem`, `block` or `iso`. */
  declare readonly content_type: StorageVolumeRecord['content_type'];
  /** RFC 3339. */
  declare readonly created_at: StorageVolumeRecord['created_at'];
  /** For people. */
  declare description: StorageVolumeRecord['description'];
  /** Cluster member it is on; `none` without a cluster. */
  declare readonly location: StorageVolumeRecord['location'];
  /** Project it belongs to. */
  declare readonly project: StorageVolumeRecord['project'];
  /** URL paths of what uses it. */
  declare readonly used_by: StorageVolumeRecord['used_by'];
  /** Its snapshots. `…/snapshots` */
  readonly snapshots: StorageVolumeSnapshots;
  /** Its backups. `…/backups` */
  readonly backups: StorageVolumeBackups;
  /** Pool the volume is in. */
  readonly pool: string;

  /** @internal */
  constructor(
    context: ModelContext,
    place: { pool: string; type: string; name: string },
    record: Partial<StorageVolumeRecord>,
    populated: boolean,
  ) {
    super(context, definitionOf(context, place), { ...record, type: place.type, name: place.name }, populated);
    this.pool = place.pool;
    this.snapshots = new StorageVolumeSnapshots(context, () => this.path);
    this.backups = new StorageVolumeBackups(context, () => this.path);
  }

  /**
   * Renames the volume; with `pool` moves it to another pool. With `project` it moves to another project, with `to` to
   * another server: directly between the two (`mode`), and it is deleted here. Then this object is stale.
   * `POST /1.0/storage-pools/<pool>/volumes/<type>/<name>`
   * @throws APIException; then the volume is where it was. APIExtensionNotAvailable when a server lacks the chosen mode
   */
  async rename(to: string | VolumeMove, options: WaitOptions = {}): Promise<void> {
    const move = typeof to === 'string' ? { name: to } : to;
    const { volumeOnly, to: target, mode, onProgress, project, ...rest } = move;
    if (target !== undefined && (mode !== undefined || !sameServer(this.context, target.storagePools.scope))) {
      await this.copy(move, options);
      await this.delete({ signal: options.signal });
      return;
    }
    const here = this.connection.project ?? 'default';
    const there =
      project ?? (target === undefined ? here : (target.storagePools.scope.connection.project ?? 'default'));
    const body = {
      ...rest,
      name: move.name ?? this.name,
      ...(there === here ? {} : { project: there, pool: move.pool ?? this.pool }),
      ...(volumeOnly === undefined ? {} : { volume_only: volumeOnly }),
    };
    const told = onProgress === undefined ? {} : { onProgress: (record: Operation) => onProgress(record, 'target') };
    await this.run('POST', this.path, { json: body }, { wait: true, ...options, ...told });
    if (move.migration) return;
    if (target !== undefined || there !== here) return this.gone();
    // Read-only for callers: only a move changes it.
    Object.assign(this, { pool: move.pool ?? this.pool });
    const place = { pool: this.pool, type: this.type, name: body.name };
    this.moved(definitionOf(this.context, place), { name: body.name });
  }

  /**
   * Copies the volume within the server or, with `to`, to another one, with its snapshots. Waits for the end.
   * `POST /1.0/storage-pools/<pool>/volumes/custom`
   * @throws APIException, APIExtensionNotAvailable when a server lacks the chosen mode
   */
  async copy(copy: VolumeCopy, options: CallOptions = {}): Promise<StorageVolume> {
    if (!this.populated) await this.sync(options);
    return copyVolume(this, copy, options);
  }

  /** Bytes used and the limit. `GET …/state` @throws NotFound */
  async state(options: CallOptions = {}): Promise<StorageVolumeState> {
    return this.connection.get<StorageVolumeState>(`${this.path}/state`, { signal: options.signal });
  }

  /** Goes back to a snapshot. `PUT …/<type>/<name>` @throws APIException */
  async restore(snapshot: string, options: ProgressOptions = {}): Promise<void> {
    await this.run('PUT', this.path, { json: { restore: snapshot } }, { ...options, wait: true });
    await this.sync(options);
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

  /** @internal */
  constructor(context: ModelContext, pool: string) {
    this.#context = context;
    this.#pool = pool;
  }

  /**
   * Every volume of the pool, or of one type, sparse: `type` and `name` are there.
   * `GET /1.0/storage-pools/<pool>/volumes[/<type>]`
   */
  async all(options?: AllVolumesOptions): Promise<Sparse<StorageVolume, 'name' | 'type'>[]>;
  /** Full objects in one request. `GET /1.0/storage-pools/<pool>/volumes[/<type>]?recursion=1` */
  async all(options: AllVolumesOptions & { readonly recursion: 1 }): Promise<StorageVolume[]>;
  async all(
    options: AllVolumesOptions & { readonly recursion?: 1 } = {},
  ): Promise<(Sparse<StorageVolume, 'name' | 'type'> | StorageVolume)[]> {
    const { signal, recursion, filter, allProjects = false, type } = options;
    const { connection } = this.#context;
    const path = connection.path('storage-pools', this.#pool, 'volumes', ...(type === undefined ? [] : [type]));
    if (allProjects) await this.#context.assertExtension('storage_volumes_all_projects');
    const query = { recursion, filter, 'all-projects': allProjects ? 'true' : undefined };
    const scope = (project = 'default'): ModelContext =>
      allProjects ? inProject(this.#context, project) : this.#context;
    if (recursion === 1) {
      const records = await connection.get<StorageVolumeRecord[]>(path, { query, signal });
      return records.map((record) => this.#make(record.type, record.name, record, scope(record.project)));
    }
    const urls = await connection.get<string[]>(path, { query, signal });
    return urls.map((url) => {
      const [type = '', ...name] =
        (url.split('?')[0] ?? '').split('/volumes/')[1]?.split('/').map(decodeURIComponent) ?? [];
      return sparse<StorageVolumeRecord, StorageVolume, 'name' | 'type'>(
        this.#make(type, name.join('/'), undefined, scope(projectOf(url))),
        FIELDS,
        ['name', 'type'],
      );
    });
  }

  /** `GET /1.0/storage-pools/<pool>/volumes/<type>/<name>` @throws NotFound */
  async get(type: VolumeType | (string & {}), name: string, options: CallOptions = {}): Promise<StorageVolume> {
    return this.#make(type, name).sync(options);
  }

  /** Whether it is there: `GET /1.0/storage-pools/<pool>/volumes/<type>/<name>`. Prefer `get` and `NotFound` where the volume is needed. */
  async exists(type: VolumeType | (string & {}), name: string, options: CallOptions = {}): Promise<boolean> {
    return exists(this.get(type, name, options));
  }

  /** Creates a volume; `type` defaults to `custom`. `wait` (default true) waits for a copy. `POST …/volumes/<type>` @throws APIException */
  async create(definition: StorageVolumesPost, options: WaitOptions = {}): Promise<StorageVolume> {
    const { type = 'custom', ...body } = definition;
    const { connection, operations } = this.#context;
    const path = connection.path('storage-pools', this.#pool, 'volumes', type);
    const answer = await connection.request('POST', path, { json: body, signal: options.signal });
    if (answer.operation === '') return this.get(type, definition.name, options);
    if (options.wait === false) return this.#make(type, definition.name);
    await operations.wait(answer.operation, { signal: options.signal, onProgress: options.onProgress });
    return this.get(type, definition.name, options);
  }

  /** @internal The server as this manager sees it. */
  get scope(): ModelContext {
    return this.#context;
  }

  /** @internal Path of the pool's volumes of one type. */
  path(type: string): string {
    return this.#context.connection.path('storage-pools', this.#pool, 'volumes', type);
  }

  /**
   * Makes a custom volume from an exported backup (`type` `backup`) or an ISO image (`iso`). A backup has a name of its
   * own, which holds where none is given. `POST …/volumes/custom` @throws APIException
   */
  async import(
    name: string | undefined,
    content: RequestBody,
    options: ProgressOptions & { readonly type?: 'backup' | 'iso' } = {},
  ): Promise<StorageVolume> {
    const { connection, operations } = this.#context;
    const headers = {
      'Content-Type': 'application/octet-stream',
      ...serverHeaders({ name, type: options.type === 'iso' ? 'iso' : undefined }),
    };
    const path = connection.path('storage-pools', this.#pool, 'volumes', 'custom');
    const { signal, onProgress } = options;
    const answer = await connection.request<Operation>('POST', path, { raw: content, headers, signal });
    if (answer.operation !== '') await operations.wait(answer.operation, { signal, onProgress });
    const [made = ''] = answer.metadata?.resources?.['storage_volumes'] ?? [];
    return this.get('custom', name ?? nameOf(made), options);
  }

  #make(
    type: string,
    name: string,
    record?: StorageVolumeRecord,
    context: ModelContext = this.#context,
  ): StorageVolume {
    return new StorageVolume(context, { pool: this.#pool, type, name }, record ?? {}, record !== undefined);
  }
}
