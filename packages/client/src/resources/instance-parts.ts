import type {
  ImageMetadata,
  InstanceBackup,
  InstanceBackupsPost,
  InstanceSnapshot,
  InstanceSnapshotsPost,
  Operation as OperationRecord,
} from '@keelson/api';
import { Manager } from '../manager.ts';
import { defineAttributes, Model, type ModelContext, type WaitOptions } from '../model.ts';
import { Download, nameOf } from './common.ts';
import { Image } from './image.ts';

const FIELDS = [
  'name',
  'architecture',
  'config',
  'created_at',
  'devices',
  'ephemeral',
  'expanded_config',
  'expanded_devices',
  'expires_at',
  'last_used_at',
  'profiles',
  'size',
  'stateful',
] as const;
const WRITABLE = ['expires_at'] as const;

/** A snapshot of an instance. */
export class Snapshot extends Model<InstanceSnapshot> {
  /** Name without the instance's. */
  declare readonly name: string;
  declare readonly architecture: string;
  declare readonly config: Record<string, string>;
  declare readonly created_at: string;
  declare expires_at: string;
  declare readonly ephemeral: boolean;
  declare readonly stateful: boolean;
  /** Bytes; -1 when unknown. */
  declare readonly size: number;
  readonly #instance: string;

  constructor(
    context: ModelContext,
    { instance, name }: { readonly instance: string; readonly name: string },
    record: Partial<InstanceSnapshot>,
    populated: boolean,
  ) {
    const path = `${instance}/snapshots/${encodeURIComponent(name)}`;
    super(context, { path, label: `Snapshot "${name}"`, writable: WRITABLE }, { ...record, name }, populated);
    this.#instance = instance;
  }

  override async sync(options: { readonly signal?: AbortSignal } = {}): Promise<this> {
    await super.sync(options);
    return this;
  }

  /** Makes an image of the snapshot. Resolves with it when `wait` is set. `POST /1.0/images` @throws APIException */
  async publish(options: WaitOptions & { readonly public?: boolean } = {}): Promise<Image | undefined> {
    this.assertAlive();
    const source = { type: 'snapshot', name: `${nameOf(this.#instance)}/${this.name}` };
    return publish(this.context, { public: options.public ?? false, source }, options);
  }

  /** `POST /1.0/instances/<instance>/snapshots/<name>` @throws APIException when the name is taken */
  async rename(newName: string, options: WaitOptions = {}): Promise<void> {
    this.assertAlive();
    await this.run('POST', this.path, { json: { name: newName } }, { wait: true, ...options });
    const path = `${this.#instance}/snapshots/${encodeURIComponent(newName)}`;
    this.moved({ path, label: `Snapshot "${newName}"`, writable: WRITABLE }, { name: newName });
  }

  /**
   * Brings the instance back to this snapshot; meant for a stopped instance, which is not checked here. Returns the
   * answer of the request, not the operation's result. @throws APIException
   */
  async restore(options: WaitOptions = {}): Promise<{ readonly metadata: unknown; readonly operation: string }> {
    this.assertAlive();
    return this.run('PUT', this.#instance, { json: { restore: this.name } }, options);
  }
}
defineAttributes<InstanceSnapshot>(Snapshot, FIELDS, WRITABLE);

/** `instance.snapshots` */
export class SnapshotManager extends Manager<InstanceSnapshot, Snapshot, 'name'> {
  readonly #instance: string;

  constructor(context: ModelContext, instance: string) {
    super(context, {
      path: `${instance}/snapshots`,
      fields: FIELDS,
      key: 'name',
      make: (name, record, populated) =>
        new Snapshot(context, { instance, name: name.split('/').at(-1) ?? name }, record, populated),
    });
    this.#instance = instance;
  }

  /** Takes a snapshot and waits until it is there. @throws APIException when the name is taken */
  async create(
    definition: string | (InstanceSnapshotsPost & { readonly name: string }),
    options: WaitOptions = {},
  ): Promise<Snapshot> {
    const body = typeof definition === 'string' ? { name: definition } : definition;
    const { connection, operations } = this.context;
    const { operation } = await connection.request('POST', `${this.#instance}/snapshots`, {
      json: body,
      signal: options.signal,
    });
    if (options.wait === false) return this.definition.make(body.name, {}, false);
    await operations.wait(operation, { signal: options.signal });
    return this.get(body.name);
  }
}

/** Publishes an instance or a snapshot as an image. */
export async function publish(context: ModelContext, body: object, options: WaitOptions): Promise<Image | undefined> {
  const { connection, operations } = context;
  const { operation } = await connection.request<OperationRecord>('POST', connection.path('images'), {
    json: body,
    signal: options.signal,
  });
  if (!options.wait) return undefined;
  const ended = await operations.wait(operation, { signal: options.signal });
  const fingerprint = String((ended.metadata as { fingerprint?: unknown } | null)?.fingerprint ?? '');
  return new Image(context, fingerprint, {}, false).sync();
}

/** `instance.backups` */
export class InstanceBackups {
  readonly #context: ModelContext;
  readonly #path: string;

  constructor(context: ModelContext, instance: string) {
    this.#context = context;
    this.#path = `${instance}/backups`;
  }

  /** Names of the backups. */
  async all(): Promise<string[]> {
    return (await this.#context.connection.get<string[]>(this.#path)).map(nameOf);
  }

  /** @throws NotFound */
  async get(name: string): Promise<InstanceBackup> {
    return this.#context.connection.get<InstanceBackup>(this.#of(name));
  }

  /** Makes a backup on the server and waits until it is there. */
  async create(definition: InstanceBackupsPost = {}, options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    const { operation } = await this.#context.connection.request('POST', this.#path, {
      json: definition,
      signal: options.signal,
    });
    await this.#context.operations.wait(operation, options);
  }

  /** The backup as a tarball. `GET …/backups/<name>/export` */
  async export(name: string, options: { readonly signal?: AbortSignal } = {}): Promise<Download> {
    return new Download(await this.#context.connection.raw('GET', `${this.#of(name)}/export`, options));
  }

  async rename(name: string, newName: string): Promise<void> {
    const { operation } = await this.#context.connection.request('POST', this.#of(name), { json: { name: newName } });
    if (operation !== '') await this.#context.operations.wait(operation);
  }

  async delete(name: string): Promise<void> {
    const { operation } = await this.#context.connection.request('DELETE', this.#of(name));
    if (operation !== '') await this.#context.operations.wait(operation);
  }

  #of(name: string): string {
    return `${this.#path}/${encodeURIComponent(name)}`;
  }
}

/** `instance.logs`: the guest's log files on the host. */
export class InstanceLogs {
  readonly #context: ModelContext;
  readonly #path: string;

  constructor(context: ModelContext, instance: string) {
    this.#context = context;
    this.#path = `${instance}/logs`;
  }

  async all(): Promise<string[]> {
    return (await this.#context.connection.get<string[]>(this.#path)).map(nameOf);
  }

  /** @throws NotFound */
  async get(name: string): Promise<string> {
    return (await this.#context.connection.raw('GET', `${this.#path}/${encodeURIComponent(name)}`)).text();
  }

  async delete(name: string): Promise<void> {
    await this.#context.connection.request('DELETE', `${this.#path}/${encodeURIComponent(name)}`);
  }
}

/** `instance.templates` and the image metadata they belong to. */
export class InstanceTemplates {
  readonly #context: ModelContext;
  readonly #path: string;

  constructor(context: ModelContext, instance: string) {
    this.#context = context;
    this.#path = `${instance}/metadata`;
  }

  /** Content of the image's metadata.yaml. `GET /1.0/instances/<name>/metadata` */
  async metadata(): Promise<ImageMetadata> {
    return this.#context.connection.get<ImageMetadata>(this.#path);
  }

  async putMetadata(metadata: ImageMetadata): Promise<void> {
    await this.#context.connection.request('PUT', this.#path, { json: metadata });
  }

  /** Names of the template files. */
  async all(): Promise<string[]> {
    return (await this.#context.connection.get<string[]>(`${this.#path}/templates`)).map((name) =>
      name.startsWith('/') ? nameOf(name) : name,
    );
  }

  async get(name: string): Promise<string> {
    return (await this.#context.connection.raw('GET', `${this.#path}/templates`, { query: { path: name } })).text();
  }

  async put(name: string, content: string): Promise<void> {
    const headers = { 'Content-Type': 'application/octet-stream' };
    await this.#context.connection.request('POST', `${this.#path}/templates`, {
      query: { path: name },
      raw: content,
      headers,
    });
  }

  async delete(name: string): Promise<void> {
    await this.#context.connection.request('DELETE', `${this.#path}/templates`, { query: { path: name } });
  }
}
