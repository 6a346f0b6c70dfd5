import { timingSafeEqual } from 'node:crypto';
import type { WebSocket } from 'ws';
import type { Clock } from '../../core/clock.ts';
import { errors, isKeelsonError } from '../../core/errors.ts';
import type { Ids } from '../../core/ids.ts';
import { KeyedQueue } from '../../core/keyed-queue.ts';
import type { Log } from '../../core/log.ts';
import type { Events } from '../events/contract.ts';
import { busyText } from './busy.ts';
import type { OperationRecord, Operations, OperationSpec, StartedOperation } from './contract.ts';
import { Operation } from './operation.ts';

export interface OperationServiceOptions {
  readonly events: Pick<Events, 'operation'>;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  /** Name of this server in a cluster; `none` alone. */
  readonly location?: string;
  /** Milliseconds an ended operation can still be read by its id. Default 5 minutes. */
  readonly keepFor?: number;
  /** Milliseconds an ended operation stays in lists, as LXD's do. Default 5 seconds. */
  readonly listFor?: number;
  /** Ended operations kept at most. Default 2000. */
  readonly keepAtMost?: number;
}

interface Ended {
  readonly operation: Operation;
  /** `Clock.now` at its end. */
  readonly at: number;
}

export class OperationService implements Operations, AsyncDisposable {
  readonly #options: OperationServiceOptions;
  readonly #running = new Map<string, Operation>();
  /** In the order of their ends. */
  readonly #ended = new Map<string, Ended>();
  readonly #locks = new KeyedQueue();
  /** Which operation holds a lock; short internal work shows in `#locks` only. */
  readonly #holders = new Map<string, Operation>();
  #stopped = false;

  constructor(options: OperationServiceOptions) {
    this.#options = options;
  }

  start(spec: OperationSpec): StartedOperation {
    if (this.#stopped) throw errors.unavailable('The daemon is shutting down');
    const locks = [...new Set(spec.locks)];
    for (const key of locks) {
      const holder = this.#holders.get(key);
      if (holder !== undefined) throw errors.badRequest(busyText(key, holder.spec));
    }
    const operation: Operation = new Operation({
      id: this.#options.ids.uuid(),
      spec,
      clock: this.#options.clock,
      location: this.#options.location ?? 'none',
      onChange: (record) => this.#options.events.operation(spec.project, record),
      onEnd: () => this.#end(operation, locks),
    });
    this.#running.set(operation.id, operation);
    for (const key of locks) {
      this.#holders.set(key, operation);
    }
    void operation.run((work) =>
      this.#locks.run({ exclusive: locks, shared: spec.shared ?? [] }, this.#logged(operation, work)),
    );
    return { record: withSecrets(operation.record, spec), done: operation.done };
  }

  get(id: string, project?: string): OperationRecord | undefined {
    this.#forget();
    const operation = this.#find(id);
    return operation !== undefined && isOf(operation, project) ? operation.record : undefined;
  }

  list(project?: string): readonly OperationRecord[] {
    this.#forget();
    const oldest = this.#options.clock.now() - (this.#options.listFor ?? 5000);
    const ended = [...this.#ended.values()].filter(({ at }) => at > oldest).map(({ operation }) => operation);
    return [...this.#running.values(), ...ended]
      .filter((operation) => isOf(operation, project))
      .map(({ record }) => record);
  }

  async wait(id: string, timeoutSeconds: number, signal?: AbortSignal): Promise<OperationRecord | undefined> {
    this.#forget();
    const operation = this.#find(id);
    if (operation === undefined || operation.ended) return operation?.record;
    await settled(operation.done, timeoutSeconds, signal);
    return operation.record;
  }

  async cancel(id: string): Promise<void> {
    const operation = this.#find(id);
    if (operation === undefined) throw errors.notFound('Operation not found');
    if (!operation.running) throw errors.badRequest('Only running operations can be cancelled');
    if (!operation.mayCancel) throw errors.badRequest("This operation can't be cancelled");
    operation.cancel(errors.conflict('The operation was cancelled'));
  }

  accepts(id: string, secret: string): boolean {
    return this.#opening(id, secret) !== undefined;
  }

  connect(id: string, secret: string, socket: WebSocket): boolean {
    const opening = this.#opening(id, secret);
    opening?.(socket);
    return opening !== undefined;
  }

  #opening(id: string, secret: string): ((socket: WebSocket) => void) | undefined {
    const operation = this.#running.get(id);
    if (operation === undefined || operation.spec.class !== 'websocket' || !operation.running) return undefined;
    const { spec } = operation;
    const name = matchingName(spec.secrets ?? {}, secret);
    if (name === undefined || spec.connect === undefined) return undefined;
    return (socket) => spec.connect?.(name, socket, undefined);
  }

  exclusive<T>(keys: readonly string[], work: () => Promise<T>): Promise<T> {
    return this.#locks.run({ exclusive: keys }, work);
  }

  /** Interrupts what runs and waits for its end. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true;
    const running = [...this.#running.values()];
    for (const operation of running) {
      operation.interrupt(errors.unavailable('The daemon is shutting down'));
    }
    await Promise.all(running.map(({ done }) => done));
  }

  #end(operation: Operation, locks: readonly string[]): void {
    for (const key of locks) {
      this.#holders.delete(key);
    }
    this.#running.delete(operation.id);
    this.#ended.set(operation.id, { operation, at: this.#options.clock.now() });
    this.#forget();
  }

  /** The client gets the message; what went wrong inside goes to the log. */
  #logged(operation: Operation, work: () => Promise<void>): () => Promise<void> {
    return async () => {
      try {
        await work();
      } catch (error) {
        if (!isKeelsonError(error) || error.code === 'internal') {
          this.#options.log.error('Operation failed', {
            operation: operation.id,
            description: operation.spec.description,
            error,
          });
        }
        throw error;
      }
    };
  }

  #find(id: string): Operation | undefined {
    return this.#running.get(id) ?? this.#ended.get(id)?.operation;
  }

  #forget(): void {
    const oldest = this.#options.clock.now() - (this.#options.keepFor ?? 300_000);
    const surplus = this.#ended.size - (this.#options.keepAtMost ?? 2000);
    let index = 0;
    for (const [id, { at }] of this.#ended) {
      if (at > oldest && index >= surplus) return;
      this.#ended.delete(id);
      index += 1;
    }
  }
}

/** Operations without project concern every one. */
function isOf({ spec }: Operation, project: string | undefined): boolean {
  return project === undefined || spec.project === '' || spec.project === project;
}

/** The record for the creator's eyes only. */
function withSecrets(record: OperationRecord, spec: OperationSpec): OperationRecord {
  if (spec.secrets === undefined) return record;
  const shown = spec.secretsAs === 'metadata' ? spec.secrets : { fds: spec.secrets };
  return { ...record, metadata: { ...record.metadata, ...shown } };
}

/** Compares with every secret in constant time. */
function matchingName(secrets: Readonly<Record<string, string>>, offered: string): string | undefined {
  const given = Buffer.from(offered);
  let found: string | undefined;
  for (const [name, secret] of Object.entries(secrets)) {
    const wanted = Buffer.from(secret);
    if (wanted.length > 0 && wanted.length === given.length && timingSafeEqual(wanted, given)) found = name;
  }
  return found;
}

/** Resolves when `done` has, after the timeout (seconds; negative: none), or when the signal aborts. */
async function settled(done: Promise<unknown>, timeoutSeconds: number, signal: AbortSignal | undefined): Promise<void> {
  const { promise: over, resolve } = Promise.withResolvers<void>();
  // setTimeout takes no more than a 32-bit number of milliseconds.
  const milliseconds = Math.min(timeoutSeconds * 1000, 0x7fff_ffff);
  const timer = timeoutSeconds >= 0 ? setTimeout(resolve, milliseconds) : undefined;
  const stop = () => resolve();
  signal?.addEventListener('abort', stop);
  try {
    if (signal?.aborted !== true) await Promise.race([done, over]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', stop);
  }
}
