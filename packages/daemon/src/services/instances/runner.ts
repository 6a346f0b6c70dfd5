import type { InstanceStatePut } from '@keelson/api';
import { errors, type KeelsonError } from '../../core/errors.ts';
import { instanceKey } from '../../core/paths.ts';
import type { GuestEvent } from '../../drivers/instance/contract.ts';
import type { InstanceRecord, InstanceType } from '../../state/records/instance.ts';
import type { StartedOperation } from '../operations/contract.ts';
import { projectUrl } from '../projects/scope.ts';
import type { By, InstanceContext } from './context.ts';
import type { InstanceRemover } from './remover.ts';
import type { InstanceStarter } from './starter.ts';

export type StateAction = 'start' | 'stop' | 'restart' | 'freeze' | 'unfreeze';

const DESCRIPTIONS: Readonly<Record<StateAction, string>> = {
  start: 'Starting instance',
  stop: 'Stopping instance',
  restart: 'Restarting instance',
  freeze: 'Freezing instance',
  unfreeze: 'Unfreezing instance',
};

/** A timer holds at most this many milliseconds; stands for "no limit". */
const FOREVER = 2_147_000_000;

interface Change {
  readonly action: StateAction;
  readonly force: boolean;
  readonly stateful: boolean;
  /** Milliseconds. */
  readonly timeout: number;
  /** An ephemeral instance stays this time: it will be started again. */
  readonly keep?: boolean;
  /** The record goes on saying that it runs, so that it is started with the host again. */
  readonly keepPower?: boolean;
}

interface RunOptions {
  /** Milliseconds. */
  readonly timeout?: number;
  readonly keepPower?: boolean;
  readonly signal: AbortSignal;
}

/** Starts, stops, restarts, freezes and thaws instances, and follows what guests do by themselves. */
export class InstanceRunner {
  readonly #context: InstanceContext;
  readonly #starter: InstanceStarter;
  readonly #remover: InstanceRemover;
  /** Keys whose guest ends because we ask it to: its end is not news. */
  readonly #ending = new Set<string>();
  readonly #unsubscribe: () => void;
  readonly #following = new Set<Promise<void>>();

  constructor(context: InstanceContext, starter: InstanceStarter, remover: InstanceRemover) {
    this.#context = context;
    this.#starter = starter;
    this.#remover = remover;
    this.#unsubscribe = context.deps.driver.subscribe((event) => this.#onGuestEvent(event));
  }

  /** `PUT /1.0/instances/<name>/state`. @throws not-found, bad-request for an unknown action. */
  change(
    project: string,
    name: string,
    body: InstanceStatePut,
    options: By & { readonly type?: InstanceType | undefined } = {},
  ): StartedOperation {
    const record = this.#context.require(project, name, options.type);
    const change = parse(body);
    return this.#context.deps.operations.start({
      class: 'task',
      project,
      description: DESCRIPTIONS[change.action],
      resources: { instances: [this.#context.url(project, name)] },
      locks: [this.#context.lock(record)],
      run: ({ signal }) => this.apply(this.#context.require(project, name), change, options, signal),
    });
  }

  /** `PUT /1.0/instances`: one action for every instance of the project that can take it. */
  changeAll(project: string, body: InstanceStatePut, by: By = {}): StartedOperation {
    const change = parse(body);
    const records = this.#context.deps.collections.instances
      .list(`${project}/`)
      .map(({ value }) => value)
      .filter((record) => this.#concerns(change.action, record));
    return this.#context.deps.operations.start({
      class: 'task',
      project,
      description: DESCRIPTIONS[change.action],
      resources: { instances: records.map(({ name }) => projectUrl(`/1.0/instances/${name}`, project)) },
      run: ({ signal }) => this.#applyAll(records, change, by, signal),
    });
  }

  async #applyAll(records: readonly InstanceRecord[], change: Change, by: By, signal: AbortSignal): Promise<void> {
    const failures: string[] = [];
    const queue = [...records];
    const worker = async (): Promise<void> => {
      for (let record = queue.shift(); record !== undefined; record = queue.shift()) {
        const { project, name } = record;
        try {
          await this.#context.deps.operations.exclusive([this.#context.lock(record)], () =>
            this.apply(this.#context.require(project, name), change, by, signal),
          );
        } catch (error) {
          failures.push(` - Instance: ${name}: ${error instanceof Error ? error.message : String(error)}\n`);
        }
      }
    };
    await Promise.all([worker(), worker(), worker(), worker()]);
    if (failures.length > 0)
      throw errors.badRequest(`The following instances failed to update state:\n${failures.join('')}`);
  }

  #concerns(action: StateAction, record: InstanceRecord): boolean {
    const status = this.#context.status(record);
    switch (action) {
      case 'start':
        return status === 'Stopped';
      case 'freeze':
        return status === 'Running';
      case 'unfreeze':
        return status !== 'Running';
      default:
        return this.#context.isRunning(record);
    }
  }

  /** The instance must be locked. */
  async apply(record: InstanceRecord, change: Change, by: By, signal: AbortSignal): Promise<void> {
    switch (change.action) {
      case 'start':
        return this.#start(record, change, by, signal);
      case 'stop':
        return this.#stop(record, change, by, signal);
      case 'restart':
        return this.#restart(record, change, by, signal);
      case 'freeze':
        return this.#freeze(record, by);
      case 'unfreeze':
        return this.#unfreeze(record, by);
    }
  }

  async #start(record: InstanceRecord, change: Change, by: By, signal: AbortSignal): Promise<void> {
    const status = this.#context.status(record);
    if (status === 'Running' || status === 'Frozen') throw errors.badRequest('The instance is already running');
    if (change.stateful) throw errors.badRequest('Container has no existing state to restore');
    await this.#starter.start(record, signal);
    this.#context.lifecycle('instance-started', record, by);
  }

  async #stop(record: InstanceRecord, change: Change, by: By, signal: AbortSignal): Promise<void> {
    if (!this.#context.isRunning(record)) throw errors.badRequest('The instance is already stopped');
    if (change.stateful) throw noState('stop');
    const hard = change.force || change.timeout === 0;
    await this.#end(record, hard ? 0 : change.timeout, signal);
    await this.#afterEnd(record, hard ? 'instance-stopped' : 'instance-shutdown', by, change);
  }

  async #restart(record: InstanceRecord, change: Change, by: By, signal: AbortSignal): Promise<void> {
    if (!this.#context.isRunning(record)) throw errors.badRequest('The instance is already stopped');
    if (change.stateful) throw noState('restart');
    await this.#end(record, change.force || change.timeout === 0 ? 0 : change.timeout, signal);
    await this.#starter.cleanUp(record);
    await this.#starter.markStopped(record);
    await this.#starter.start(this.#context.require(record.project, record.name), signal);
    this.#context.lifecycle('instance-restarted', record, by);
  }

  async #freeze(record: InstanceRecord, by: By): Promise<void> {
    const status = this.#context.status(record);
    if (status === 'Frozen') throw errors.badRequest('The container is already frozen');
    if (status !== 'Running') throw errors.badRequest("The container isn't running");
    await this.#context.deps.driver.freeze(this.#context.ref(record));
    this.#context.statusChanged();
    this.#context.lifecycle('instance-paused', record, by);
  }

  async #unfreeze(record: InstanceRecord, by: By): Promise<void> {
    const status = this.#context.status(record);
    if (status === 'Running') throw errors.badRequest('The container is already running');
    if (status !== 'Frozen') throw errors.badRequest("The container isn't running");
    await this.#context.deps.driver.unfreeze(this.#context.ref(record));
    this.#context.statusChanged();
    this.#context.lifecycle('instance-resumed', record, by);
  }

  /** Ends the guest: at once with a timeout of 0, else by asking it. */
  async #end(record: InstanceRecord, timeout: number, signal: AbortSignal): Promise<void> {
    const { driver } = this.#context.deps;
    const ref = this.#context.ref(record);
    this.#ending.add(ref.key);
    try {
      if (timeout === 0) {
        await driver.kill(ref);
      } else {
        if (this.#context.status(record) === 'Frozen') await driver.unfreeze(ref);
        await driver.shutdown(ref, timeout, signal);
      }
      this.#context.statusChanged();
    } finally {
      this.#ending.delete(ref.key);
    }
  }

  /** What follows the end of a guest: everything is freed, an ephemeral instance goes. */
  async #afterEnd(
    record: InstanceRecord,
    action: string,
    by: By,
    { keep = false, keepPower = false }: Pick<Change, 'keep' | 'keepPower'> = {},
  ): Promise<void> {
    await this.#starter.cleanUp(record);
    await this.#starter.markStopped(record, keepPower ? 'RUNNING' : 'STOPPED');
    this.#context.lifecycle(action, record, by);
    if (!record.ephemeral || keep) return;
    await this.#remover.remove(this.#context.require(record.project, record.name));
    this.#context.lifecycle('instance-deleted', record, by);
  }

  #onGuestEvent(event: GuestEvent): void {
    this.#context.statusChanged();
    if (this.#ending.has(event.key)) return;
    const record = this.#context.deps.collections.instances
      .list()
      .find(({ value }) => instanceKey(value.project, value.name) === event.key)?.value;
    if (record === undefined) return;
    if (event.type === 'rebooted') {
      this.#context.lifecycle('instance-restarted', record);
      return;
    }
    const work = this.#guestEnded(record).catch((error: unknown) => {
      this.#context.deps.log.error('A guest ended and could not be cleaned up', { instance: record.name, error });
    });
    this.#following.add(work);
    void work.finally(() => this.#following.delete(work));
  }

  async #guestEnded({ project, name }: InstanceRecord): Promise<void> {
    await this.#context.deps.operations.exclusive([this.#context.lock({ project, name })], async () => {
      const record = this.#context.find(project, name);
      if (record === undefined || this.#context.isRunning(record)) return;
      if (record.config['volatile.last_state.power'] !== 'RUNNING') return; // whoever held the lock cleaned up
      await this.#afterEnd(record, 'instance-shutdown', {});
    });
  }

  /** A guest that ended while nobody looked. */
  noticeEnd(record: InstanceRecord): Promise<void> {
    return this.#guestEnded(record);
  }

  /** For the daemon's start and end: an action outside of any request. */
  async run(record: InstanceRecord, action: StateAction, options: RunOptions): Promise<void> {
    const change: Change = {
      action,
      force: false,
      stateful: false,
      timeout: options.timeout ?? FOREVER,
      keepPower: options.keepPower === true,
    };
    const { project, name } = record;
    await this.#context.deps.operations.exclusive([this.#context.lock(record)], () =>
      this.apply(this.#context.require(project, name), change, {}, options.signal),
    );
  }

  async dispose(): Promise<void> {
    this.#unsubscribe();
    await Promise.allSettled(this.#following);
  }
}

function parse(body: InstanceStatePut): Change {
  const { action } = body;
  if (action !== 'start' && action !== 'stop' && action !== 'restart' && action !== 'freeze' && action !== 'unfreeze') {
    throw errors.badRequest(`Unknown action: '${action ?? ''}'`);
  }
  const seconds = body.timeout ?? -1;
  return {
    action,
    force: body.force === true,
    stateful: body.stateful === true,
    timeout: seconds < 0 ? FOREVER : Math.min(seconds * 1000, FOREVER),
  };
}

function noState(action: string): KeelsonError {
  return errors.badRequest(`A stateful ${action} is not supported: this server cannot checkpoint containers`);
}
