import type { InstanceSnapshot, InstanceSnapshotsPost, Operation as OperationRecord } from '@keelson/api';
import type { Answer } from '../connection.ts';
import { Manager } from '../manager.ts';
import { defineAttributes, Model, type ModelContext, type WaitOptions } from '../model.ts';
import { nameOf } from './common.ts';
import { Image } from './image.ts';
import { copySnapshot } from './instance-copy.ts';
import type { Instance, SnapshotCopyOptions } from './instance.ts';

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
  declare readonly name: InstanceSnapshot['name'];
  /** For example `x86_64`. */
  declare readonly architecture: InstanceSnapshot['architecture'];
  /** Config of the instance then. */
  declare readonly config: InstanceSnapshot['config'];
  /** RFC 3339. */
  declare readonly created_at: InstanceSnapshot['created_at'];
  /** RFC 3339; year 1 for never. */
  declare expires_at: InstanceSnapshot['expires_at'];
  /** Devices of the instance then. */
  declare readonly devices: InstanceSnapshot['devices'];
  /** Whether the instance was ephemeral. */
  declare readonly ephemeral: InstanceSnapshot['ephemeral'];
  /** Config with that of the profiles. */
  declare readonly expanded_config: InstanceSnapshot['expanded_config'];
  /** Devices with those of the profiles. */
  declare readonly expanded_devices: InstanceSnapshot['expanded_devices'];
  /** RFC 3339; year 1 when never. */
  declare readonly last_used_at: InstanceSnapshot['last_used_at'];
  /** Profiles of the instance then. */
  declare readonly profiles: InstanceSnapshot['profiles'];
  /** Whether it holds the memory too. */
  declare readonly stateful: InstanceSnapshot['stateful'];
  /** Bytes; -1 when unknown. */
  declare readonly size: InstanceSnapshot['size'];
  readonly #instance: string;

  /** @internal */
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

  /** Makes an image of the snapshot. Resolves with it when `wait` is set. `POST /1.0/images` @throws APIException */
  async publish(options: WaitOptions & PublishOptions = {}): Promise<Image | undefined> {
    this.assertAlive();
    const source = { type: 'snapshot' as const, name: `${nameOf(this.#instance)}/${this.name}` };
    return publish(this.context, source, options);
  }

  /**
   * Makes an instance of the snapshot, within the server or, with `to`, on another one. Waits for the end.
   * `POST /1.0/instances`, and for another server `POST /1.0/instances/<instance>/snapshots/<name>`
   * @throws APIException, APIExtensionNotAvailable when a server lacks the chosen mode
   */
  async copy(name: string, options: SnapshotCopyOptions = {}): Promise<Instance> {
    if (!this.populated) await this.sync(options);
    const snapshot = this.record as InstanceSnapshot;
    return copySnapshot(this.context, this.#instance, { ...options, name, snapshot, snapshotPath: this.path });
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
   * answer of the request, not the operation's result. `PUT /1.0/instances/<instance>` @throws APIException
   */
  async restore(options: WaitOptions = {}): Promise<Answer<unknown>> {
    this.assertAlive();
    return this.run('PUT', this.#instance, { json: { restore: this.name } }, options);
  }
}
defineAttributes<InstanceSnapshot>(Snapshot, FIELDS, WRITABLE);

/** `instance.snapshots` */
export class SnapshotManager extends Manager<InstanceSnapshot, Snapshot, 'name'> {
  readonly #instance: () => string;

  /** @internal */
  constructor(context: ModelContext, instance: () => string) {
    super(context, {
      get path() {
        return `${instance()}/snapshots`;
      },
      fields: FIELDS,
      key: 'name',
      make: (name, record, populated) =>
        new Snapshot(context, { instance: instance(), name: name.split('/').at(-1) ?? name }, record, populated),
    });
    this.#instance = instance;
  }

  /**
   * Takes a snapshot and waits until it is there; without a name the instance's pattern gives one, for which `wait`
   * must be. `POST /1.0/instances/<instance>/snapshots` @throws APIException when the name is taken
   */
  async create(definition: string | InstanceSnapshotsPost, options: WaitOptions = {}): Promise<Snapshot> {
    const json = typeof definition === 'string' ? { name: definition } : definition;
    const { connection, operations } = this.context;
    const { signal, onProgress, wait = true } = options;
    const { name } = json;
    // The operation does not say which name the pattern gave.
    const before = name === undefined ? new Set((await this.all({ signal })).map((one) => one.name)) : undefined;
    const { operation } = await connection.request('POST', `${this.#instance()}/snapshots`, { json, signal });
    if (name !== undefined && !wait) return this.definition.make(name, {}, false);
    await operations.wait(operation, { signal, onProgress });
    const made = name ?? (await this.all({ signal })).find((one) => before?.has(one.name) === false)?.name ?? '';
    return this.get(made, { signal });
  }
}

/** What an image is made with. */
export interface PublishOptions {
  /** Let everybody use it; default false. */
  readonly public?: boolean;
  /** Properties of the image. */
  readonly properties?: Readonly<Record<string, string>>;
  /** `gzip`, `zstd`, `xz`, … or `none`; default the server's `images.compression_algorithm`. */
  readonly compression?: string;
  /** RFC 3339 of when the image goes by itself. */
  readonly expiresAt?: string;
}

/** Publishes an instance or a snapshot as an image. */
export async function publish(
  context: ModelContext,
  source: { readonly type: 'instance' | 'snapshot'; readonly name: string },
  options: WaitOptions & PublishOptions,
): Promise<Image | undefined> {
  const { connection, operations } = context;
  const { compression, expiresAt, signal, onProgress } = options;
  const json = {
    public: options.public ?? false,
    properties: options.properties ?? {},
    ...(compression === undefined ? {} : { compression_algorithm: compression }),
    ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
    source,
  };
  const path = connection.path('images');
  const { operation } = await connection.request<OperationRecord>('POST', path, { json, signal });
  if (!options.wait) return undefined;
  const ended = await operations.wait(operation, { signal, onProgress });
  const fingerprint = String((ended.metadata as { fingerprint?: unknown } | null)?.fingerprint ?? '');
  return new Image(context, fingerprint, {}, false).sync({ signal: options.signal });
}
