import type {
  Instance as InstanceRecord,
  InstanceFull,
  InstancePost,
  InstancesPost,
  InstanceState,
} from '@keelson/api';
import type { Answer } from '../connection.ts';
import { ClientError, NotFound, StaleObject } from '../errors.ts';
import { type ExecOptions, type ExecProcess, type ExecResult, type ShellOptions, startExec } from '../exec.ts';
import { type CallOptions, defineAttributes, Model, type ModelContext, type WaitOptions } from '../model.ts';
import type { CopyProgress, MigrationMode } from '../migration.ts';
import type { Image } from './image.ts';
import { InstanceFiles } from './instance-files.ts';
import type { InstanceManager } from './instance-manager.ts';
import { InstanceBackups, InstanceLogs, InstanceTemplates } from './instance-extras.ts';
import { copyInstance } from './instance-copy.ts';
import { publish, type PublishOptions, SnapshotManager } from './instance-parts.ts';

/** @internal Attributes of an instance. */
export const INSTANCE_FIELDS = [
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

/** How a state is changed; `wait` is true by default here. */
export interface StateOptions extends WaitOptions {
  /** Seconds the guest gets; -1 waits without end. */
  readonly timeout?: number;
  /** Do not ask the guest: kill it. */
  readonly force?: boolean;
}

/** Another client, or whatever has its `instances`. */
export interface InstanceTarget {
  /** Where the copy goes. */
  readonly instances: InstanceManager;
}

/** How a snapshot becomes an instance of its own, and where. */
export interface SnapshotCopyOptions extends CallOptions {
  /** Parts of the copy that differ. */
  readonly change?: InstancesPost;
  /** The client of another server; within one server nothing goes over the network. */
  readonly to?: InstanceTarget;
  /** Project of the copy; default that of the client. */
  readonly project?: string;
  /** Storage pool of the copy; default the one that the root disk or a profile names. */
  readonly pool?: string;
  /** How the copy reaches the other server; default the most direct way that both can. */
  readonly mode?: MigrationMode;
  /** Go on when files vanish or change while they are read, as those of a running instance do. */
  readonly allowInconsistent?: boolean;
  /** Told how far the copy is. */
  readonly onProgress?: CopyProgress | undefined;
}

/** What is copied, and where to. */
export interface InstanceCopyOptions extends SnapshotCopyOptions {
  /** Leave the snapshots behind. */
  readonly instanceOnly?: boolean;
  /** Bring a stopped copy that is there already up to date: files, snapshots, configuration. */
  readonly refresh?: boolean;
  /** Copy a running instance with its memory, where both servers can. */
  readonly live?: boolean;
}

/** As for a copy, to another server. */
export interface InstanceMoveOptions extends Omit<InstanceCopyOptions, 'to' | 'refresh'> {
  /** Its name there; default the same. */
  readonly name?: string;
}

/** A system container or a virtual machine. State changes wait for their end unless `wait: false` is given. */
export class Instance extends Model<InstanceRecord> {
  /** Unique within its project. */
  declare readonly name: InstanceRecord['name'];
  /** For example `x86_64`. */
  declare architecture: InstanceRecord['architecture'];
  /** Its own config keys, all text. */
  declare config: InstanceRecord['config'];
  /** RFC 3339. */
  declare readonly created_at: InstanceRecord['created_at'];
  /** For people. */
  declare description: InstanceRecord['description'];
  /** Its own devices by name. */
  declare devices: InstanceRecord['devices'];
  /** Whether it is deleted when it stops. */
  declare ephemeral: InstanceRecord['ephemeral'];
  /** Config with that of its profiles. */
  declare readonly expanded_config: InstanceRecord['expanded_config'];
  /** Devices with those of its profiles. */
  declare readonly expanded_devices: InstanceRecord['expanded_devices'];
  /** RFC 3339 of the last start; year 1 when never. */
  declare readonly last_used_at: InstanceRecord['last_used_at'];
  /** Cluster member it is on; `none` without a cluster. */
  declare readonly location: InstanceRecord['location'];
  /** Names of its profiles; later ones win. */
  declare profiles: InstanceRecord['profiles'];
  /** Project it belongs to. */
  declare readonly project: InstanceRecord['project'];
  /** Whether a stop kept its memory. */
  declare stateful: InstanceRecord['stateful'];
  /** `Running`, `Stopped`, `Frozen`, … as last read. */
  declare readonly status: InstanceRecord['status'];
  /** `status` as a number: 103 running, 102 stopped, 110 frozen. */
  declare readonly status_code: InstanceRecord['status_code'];
  /** `container` or `virtual-machine`. */
  declare readonly type: InstanceRecord['type'];
  /** Files of the guest. `…/files` */
  readonly files: InstanceFiles;
  /** Its snapshots. `…/snapshots` */
  readonly snapshots: SnapshotManager;
  /** Its backups. `…/backups` */
  readonly backups: InstanceBackups;
  /** Its log files on the host. `…/logs` */
  readonly logs: InstanceLogs;
  /** Templates and metadata of its image. `…/metadata` */
  readonly templates: InstanceTemplates;

  /** @internal */
  constructor(context: ModelContext, name: string, record: Partial<InstanceRecord>, populated: boolean) {
    super(context, definitionOf(context, name), { ...record, name }, populated);
    const path = (): string => this.path;
    this.files = new InstanceFiles(context, path);
    this.snapshots = new SnapshotManager(context, path);
    this.backups = new InstanceBackups(context, path);
    this.logs = new InstanceLogs(context, path);
    this.templates = new InstanceTemplates(context, path);
  }

  /** `PUT /1.0/instances/<name>/state` @throws APIException */
  async start(options: StateOptions = {}): Promise<void> {
    await this.#changeState('start', options);
  }

  /** Asks the guest to shut down, or kills it with `force`. `PUT /1.0/instances/<name>/state` @throws APIException */
  async stop(options: StateOptions = {}): Promise<void> {
    await this.#changeState('stop', options);
  }

  /** `PUT /1.0/instances/<name>/state` @throws APIException */
  async restart(options: StateOptions = {}): Promise<void> {
    await this.#changeState('restart', options);
  }

  /** Stops every process where it is. `PUT /1.0/instances/<name>/state` @throws APIException */
  async freeze(options: StateOptions = {}): Promise<void> {
    await this.#changeState('freeze', options);
  }

  /** `PUT /1.0/instances/<name>/state` @throws APIException */
  async unfreeze(options: StateOptions = {}): Promise<void> {
    await this.#changeState('unfreeze', options);
  }

  /** Live state: CPU (nanoseconds), memory (bytes), disks, networks, processes. `GET …/state` */
  async state(options: CallOptions = {}): Promise<InstanceState> {
    return this.connection.get<InstanceState>(`${this.path}/state`, { signal: options.signal });
  }

  /** The record with state, snapshots and backups. `GET /1.0/instances/<name>?recursion=1` */
  async full(options: CallOptions = {}): Promise<InstanceFull> {
    await this.context.assertExtension('instance_get_full');
    return this.connection.get<InstanceFull>(this.path, { query: { recursion: 1 }, signal: options.signal });
  }

  /** Runs a command to its end. `POST /1.0/instances/<name>/exec` @throws APIException when it cannot be started */
  async execute(command: string | readonly string[], options: ExecOptions = {}): Promise<ExecResult> {
    const process = await this.exec(command, { stdin: '', ...options });
    const [exitCode, stdout, stderr] = await Promise.all([
      process.exited,
      process.stdout.text(),
      process.stderr.text(),
    ]);
    return { exitCode, stdout, stderr };
  }

  /**
   * Starts a command with separate streams; `endInput()` ends what it reads. A string is run as is, without a shell:
   * give arguments as a list. `POST /1.0/instances/<name>/exec` @throws APIException when it cannot be started
   */
  async exec(command: string | readonly string[], options: ExecOptions = {}): Promise<ExecProcess> {
    const body = { ...bodyOf(command, options), interactive: false, 'wait-for-websocket': true };
    return startExec(this.context, `${this.path}/exec`, body, options);
  }

  /** Starts a command on a terminal: one stream both ways, resizable. `POST /1.0/instances/<name>/exec` @throws APIException */
  async shell(
    command: string | readonly string[] = ['/bin/sh', '-l'],
    options: ShellOptions = {},
  ): Promise<ExecProcess> {
    const { width = 80, height = 24 } = options;
    const body = { ...bodyOf(command, options), interactive: true, width, height, 'wait-for-websocket': true };
    return startExec(this.context, `${this.path}/exec`, body, options);
  }

  /**
   * Attaches to the console of a running instance: what it prints is `stdout`, what is written goes to it. Leaving it
   * (`await using`, an aborted signal) does not end the instance. `POST /1.0/instances/<name>/console` @throws APIException
   */
  async console(options: Pick<ShellOptions, 'width' | 'height' | 'signal' | 'lossTimeout'> = {}): Promise<ExecProcess> {
    const { width = 80, height = 24, ...rest } = options;
    const body = { type: 'console', width, height, interactive: true };
    return startExec(this.context, `${this.path}/console`, body, rest);
  }

  /** What the console showed. `GET /1.0/instances/<name>/console` */
  async consoleLog(options: CallOptions = {}): Promise<string> {
    return (await this.connection.raw('GET', `${this.path}/console`, { signal: options.signal })).text();
  }

  /** Renames the instance, which must be stopped; this object has the new name then. `POST /1.0/instances/<name>` */
  async rename(newName: string, options: CallOptions = {}): Promise<this> {
    await this.run('POST', this.path, { json: { name: newName } }, { wait: true, signal: options.signal });
    this.moved(definitionOf(this.context, newName), { name: newName });
    return this.sync(options);
  }

  /**
   * Moves the instance: `body` is that of `POST /1.0/instances/<name>` (`pool`, `project`, or `migration` with
   * `target` for another server). Returns the answer of the request. @throws APIException
   */
  async migrate(body: InstancePost, options: WaitOptions = {}): Promise<Answer<unknown>> {
    return this.run('POST', this.path, { json: { migration: true, ...body } }, options);
  }

  /**
   * Copies the instance, within the server or, with `to`, to another one: directly between the two (`mode`), with its
   * snapshots. `change` overrides parts of the copy; with `name` empty the server picks one. Waits for the end.
   * `POST /1.0/instances`, and for another server `POST /1.0/instances/<name>`
   * @throws APIException, APIExtensionNotAvailable when a server lacks the chosen mode
   */
  async copy(name: string, options: InstanceCopyOptions = {}): Promise<Instance> {
    return copyInstance(this, { ...options, name });
  }

  /**
   * Moves the stopped instance to another server: copies it there with its hardware addresses, then deletes it here.
   * This object is stale afterwards; the moved instance is returned. See `copy`. `POST /1.0/instances/<name>`
   * @throws ClientError when it runs, APIException; then the instance is where it was
   */
  async moveTo(target: InstanceTarget, options: InstanceMoveOptions = {}): Promise<Instance> {
    await this.sync(options);
    if (options.live !== true && (this.status === 'Running' || this.status === 'Frozen'))
      throw new ClientError(`Instance "${this.name}" is running: stop it before it moves to another server`);
    const moved = await copyInstance(this, { name: this.name, ...options, to: target }, { keepVolatile: true });
    await this.delete({ signal: options.signal });
    return moved;
  }

  /** Makes an image of the stopped instance. Resolves with it when `wait` is set. `POST /1.0/images` @throws APIException */
  async publish(
    options: WaitOptions & PublishOptions & { readonly properties?: Record<string, string> } = {},
  ): Promise<Image | undefined> {
    this.assertAlive();
    return publish(this.context, { type: 'instance', name: this.name }, options);
  }

  /**
   * Kills the instance if it runs and deletes it: for tests, `await using c = await client.instances.create(…)`.
   * One that is gone already is fine. `DELETE /1.0/instances/<name>` @throws APIException when it cannot be deleted
   */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.sync();
      if (this.status !== 'Stopped') await this.stop({ force: true });
      await this.delete();
    } catch (error) {
      if (!(error instanceof NotFound) && !(error instanceof StaleObject)) throw error;
    }
  }

  async #changeState(action: string, options: StateOptions): Promise<void> {
    const { timeout = -1, force = false, wait = true, signal } = options;
    await this.run('PUT', `${this.path}/state`, { json: { action, timeout, force } }, { wait, signal });
    if (!wait) return;
    try {
      await this.sync({ signal });
    } catch (error) {
      // An ephemeral instance goes with its end.
      if (action !== 'stop' || !(error instanceof NotFound)) throw error;
      this.gone();
    }
  }
}
defineAttributes<InstanceRecord>(Instance, INSTANCE_FIELDS, WRITABLE);

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
