import type {
  Instance as InstanceRecord,
  InstancePost,
  InstancesPost,
  InstanceState,
  Operation as OperationRecord,
} from '@keelson/api';
import { ClientError } from '../errors.ts';
import { type ExecOptions, type ExecProcess, type ExecResult, type ShellOptions, startExec } from '../exec.ts';
import { type AllOptions, Manager } from '../manager.ts';
import { defineAttributes, Model, type ModelContext, type Sparse, type WaitOptions } from '../model.ts';
import type { RequestBody } from '../transport/types.ts';
import type { Image } from './image.ts';
import { InstanceFiles } from './instance-files.ts';
import { InstanceBackups, InstanceLogs, InstanceTemplates, publish, SnapshotManager } from './instance-parts.ts';

const FIELDS = [
  'name',
  'architecture',
  'config',
  'created_at',
  'description',
  'devices',
  'ephemeral',
  'expanded_config',
  'expanded_devices',
  'last_used_at',
  'location',
  'profiles',
  'project',
  'stateful',
  'status',
  'status_code',
  'type',
] as const;
const WRITABLE = ['architecture', 'config', 'description', 'devices', 'ephemeral', 'profiles', 'stateful'] as const;

export interface StateOptions extends WaitOptions {
  /** Seconds the guest gets; -1 waits without end. */
  readonly timeout?: number;
  /** Do not ask the guest: kill it. */
  readonly force?: boolean;
}

/** A system container or a virtual machine. State changes wait for their end unless `wait: false` is given. */
export class Instance extends Model<InstanceRecord> {
  declare readonly name: string;
  declare architecture: string;
  declare config: InstanceRecord['config'];
  declare readonly created_at: string;
  declare description: string;
  declare devices: InstanceRecord['devices'];
  declare ephemeral: boolean;
  declare readonly expanded_config: Record<string, string>;
  declare readonly expanded_devices: InstanceRecord['devices'];
  declare readonly last_used_at: string;
  declare readonly location: string;
  declare profiles: string[];
  declare readonly project: string;
  declare readonly status: string;
  declare readonly status_code: number;
  declare readonly type: string;
  readonly files: InstanceFiles;
  readonly snapshots: SnapshotManager;
  readonly backups: InstanceBackups;
  readonly logs: InstanceLogs;
  readonly templates: InstanceTemplates;

  constructor(context: ModelContext, name: string, record: Partial<InstanceRecord>, populated: boolean) {
    super(context, definitionOf(context, name), { ...record, name }, populated);
    const path = context.connection.path('instances', name);
    this.files = new InstanceFiles(context, () => this.path);
    this.snapshots = new SnapshotManager(context, path);
    this.backups = new InstanceBackups(context, path);
    this.logs = new InstanceLogs(context, path);
    this.templates = new InstanceTemplates(context, path);
  }

  /** `PUT /1.0/instances/<name>/state` @throws APIException */
  async start(options: StateOptions = {}): Promise<void> {
    await this.#changeState('start', options);
  }

  async stop(options: StateOptions = {}): Promise<void> {
    await this.#changeState('stop', options);
  }

  async restart(options: StateOptions = {}): Promise<void> {
    await this.#changeState('restart', options);
  }

  async freeze(options: StateOptions = {}): Promise<void> {
    await this.#changeState('freeze', options);
  }

  async unfreeze(options: StateOptions = {}): Promise<void> {
    await this.#changeState('unfreeze', options);
  }

  /** Live state: CPU (nanoseconds), memory (bytes), disks, networks, processes. `GET …/state` */
  async state(): Promise<InstanceState> {
    this.assertAlive();
    return this.connection.get<InstanceState>(`${this.path}/state`);
  }

  /** Runs a command to its end. `POST /1.0/instances/<name>/exec` @throws APIException when it cannot be started */
  async execute(command: string | readonly string[], options: ExecOptions = {}): Promise<ExecResult> {
    const process = await this.exec(command, options);
    const [exitCode, stdout, stderr] = await Promise.all([
      process.exited,
      process.stdout.text(),
      process.stderr.text(),
    ]);
    return { exitCode, stdout, stderr };
  }

  /** Starts a command with separate streams. A string is run as is, without a shell: give arguments as a list. */
  async exec(command: string | readonly string[], options: ExecOptions = {}): Promise<ExecProcess> {
    this.assertAlive();
    return startExec(this.context, this.path, { ...bodyOf(command, options), interactive: false }, options);
  }

  /** Starts a command on a terminal: one stream both ways, resizable. */
  async shell(
    command: string | readonly string[] = ['/bin/sh', '-l'],
    options: ShellOptions = {},
  ): Promise<ExecProcess> {
    this.assertAlive();
    const { width = 80, height = 24 } = options;
    return startExec(
      this.context,
      this.path,
      { ...bodyOf(command, options), interactive: true, width, height },
      options,
    );
  }

  /** What the console showed. `GET …/console` */
  async consoleLog(): Promise<string> {
    return (await this.connection.raw('GET', `${this.path}/console`)).text();
  }

  /** Renames the instance, which must be stopped. `POST /1.0/instances/<name>` */
  async rename(newName: string, options: WaitOptions = {}): Promise<Instance> {
    this.assertAlive();
    await this.run('POST', this.path, { json: { name: newName } }, { wait: true, ...options });
    return new Instance(this.context, newName, {}, false).sync();
  }

  /** Moves the instance to another pool, project or server: the body of `POST /1.0/instances/<name>`. */
  async migrate(
    body: InstancePost,
    options: WaitOptions = {},
  ): Promise<{ readonly metadata: unknown; readonly operation: string }> {
    this.assertAlive();
    return this.run('POST', this.path, { json: { migration: true, ...body } }, options);
  }

  /** Copies the instance within the server; `change` overrides parts of the copy. */
  async copy(
    name: string,
    options: WaitOptions & { readonly instanceOnly?: boolean; readonly change?: InstancesPost } = {},
  ): Promise<Instance> {
    this.assertAlive();
    const source = { type: 'copy', source: this.name, instance_only: options.instanceOnly ?? false };
    const body = { type: this.record.type as InstancesPost['type'], ...options.change, name, source };
    const { operation } = await this.connection.request('POST', this.connection.path('instances'), {
      json: body,
      signal: options.signal,
    });
    await this.context.operations.wait(operation, { signal: options.signal });
    return new Instance(this.context, name, {}, false).sync();
  }

  /** Makes an image of the stopped instance. Resolves with it when `wait` is set. */
  async publish(
    options: WaitOptions & { readonly public?: boolean; readonly properties?: Record<string, string> } = {},
  ): Promise<Image | undefined> {
    this.assertAlive();
    const source = { type: 'instance', name: this.name };
    return publish(
      this.context,
      { public: options.public ?? false, properties: options.properties ?? {}, source },
      options,
    );
  }

  /** Stops the instance if it runs and deletes it: for tests, `await using c = await client.instances.create(…)`. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.sync();
      if (this.status !== 'Stopped') await this.stop({ force: true });
      await this.delete();
    } catch (error) {
      if (!(error instanceof ClientError)) throw error;
      // gone already: an ephemeral one, or deleted before
    }
  }

  async #changeState(action: string, options: StateOptions): Promise<void> {
    this.assertAlive();
    const { timeout = -1, force = false, wait = true } = options;
    const signal = options.signal === undefined ? {} : { signal: options.signal };
    await this.run('PUT', `${this.path}/state`, { json: { action, timeout, force } }, { wait, ...signal });
    if (wait && !(this.record.ephemeral && action === 'stop')) await this.sync(signal);
  }
}
defineAttributes<InstanceRecord>(Instance, FIELDS, WRITABLE);

function definitionOf(context: ModelContext, name: string): { path: string; label: string; writable: typeof WRITABLE } {
  return { path: context.connection.path('instances', name), label: `Instance "${name}"`, writable: WRITABLE };
}

function bodyOf(
  command: string | readonly string[],
  options: ExecOptions,
): { command: string[] } & Record<string, unknown> {
  const { environment, cwd, user, group } = options;
  return {
    command: typeof command === 'string' ? [command] : [...command],
    ...(environment === undefined ? {} : { environment: { ...environment } }),
    ...(cwd === undefined ? {} : { cwd }),
    ...(user === undefined ? {} : { user }),
    ...(group === undefined ? {} : { group }),
  };
}

/** `client.instances`, and with a type `client.containers` and `client.virtualMachines`. */
export class InstanceManager extends Manager<InstanceRecord, Instance, 'name'> {
  readonly #type: 'container' | 'virtual-machine' | undefined;

  constructor(context: ModelContext, type?: 'container' | 'virtual-machine') {
    super(context, {
      path: context.connection.path('instances'),
      fields: FIELDS,
      key: 'name',
      make: (name, record, populated) => new Instance(context, name, record, populated),
    });
    this.#type = type;
  }

  override async all(options?: AllOptions): Promise<Sparse<Instance, 'name'>[]>;
  override async all(options: AllOptions & { readonly recursion: 1 }): Promise<Instance[]>;
  override async all(
    options: AllOptions & { readonly recursion?: 1 } = {},
  ): Promise<(Sparse<Instance, 'name'> | Instance)[]> {
    const own = this.#type === undefined ? undefined : `type eq ${this.#type}`;
    const filter = [own, options.filter].filter((part) => part !== undefined).join(' and ');
    const all = { ...options, ...(filter === '' ? {} : { filter }) };
    return all.recursion === 1 ? super.all({ ...all, recursion: 1 }) : super.all(all);
  }

  /**
   * Creates an instance and waits until it is there. `start: true` starts it too. Without `name` the server picks one.
   * `POST /1.0/instances` @throws APIException
   */
  async create(
    definition: InstancesPost & { readonly start?: boolean },
    options: WaitOptions & { readonly onProgress?: (operation: OperationRecord) => void } = {},
  ): Promise<Instance> {
    const { start = false, ...body } = definition;
    const { connection, operations } = this.context;
    const json = { ...(this.#type === undefined ? {} : { type: this.#type }), ...body };
    const answer = await connection.request<OperationRecord>('POST', this.definition.path, {
      json,
      signal: options.signal,
    });
    const name = body.name ?? createdName(answer.metadata);
    if (options.wait === false) return this.definition.make(name, {}, false);
    await operations.wait(answer.operation, { signal: options.signal, onProgress: options.onProgress });
    const instance = this.definition.make(name, {}, false);
    if (start) await instance.start(options.signal === undefined ? {} : { signal: options.signal });
    else await instance.sync();
    return instance;
  }

  /** Makes an instance from a backup tarball. `name` overrides the one in the backup. */
  async import(
    backup: RequestBody,
    options: { readonly name?: string; readonly pool?: string; readonly signal?: AbortSignal } = {},
  ): Promise<Instance> {
    const headers = {
      'Content-Type': 'application/octet-stream',
      ...(options.name === undefined ? {} : { 'X-LXD-name': options.name }),
      ...(options.pool === undefined ? {} : { 'X-LXD-pool': options.pool }),
    };
    const { connection, operations } = this.context;
    const answer = await connection.request<OperationRecord>('POST', this.definition.path, {
      raw: backup,
      headers,
      signal: options.signal,
    });
    const ended = await operations.wait(answer.operation, { signal: options.signal });
    return this.get(options.name ?? createdName(ended));
  }
}

/** Name of the instance that an operation makes, from its resources. */
function createdName(operation: OperationRecord): string {
  const [url] = operation.resources?.['instances'] ?? operation.resources?.['containers'] ?? [];
  return decodeURIComponent((url ?? '').split('?')[0]?.split('/').at(-1) ?? '');
}
