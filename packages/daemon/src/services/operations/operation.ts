import { statusCodes, statusText } from '@keelson/api';
import { timestamp, type Clock } from '../../core/clock.ts';
import { isKeelsonError } from '../../core/errors.ts';
import type { OperationContext, OperationRecord, OperationSpec } from './contract.ts';
import { type Progress, progressMetadata } from './progress.ts';

/** Shortest time between two metadata events of one operation, milliseconds. */
const updateInterval = 100;

export interface OperationOptions {
  readonly id: string;
  readonly spec: OperationSpec;
  readonly clock: Clock;
  readonly location: string;
  /** Told of every status change, and of metadata at most every 100 ms with the last state always. */
  readonly onChange: (record: OperationRecord) => void;
  /** Called once, before anybody learns of the end: what it held is free when they do. */
  readonly onEnd: () => void;
}

type Metadata = Readonly<Record<string, unknown>>;

/** One operation: its state, from pending to its end. */
export class Operation {
  readonly id: string;
  readonly done: Promise<OperationRecord>;
  readonly #options: Omit<OperationOptions, 'spec'>;
  readonly #abort = new AbortController();
  readonly #createdAt: string;
  #spec: OperationSpec;
  readonly #finish: (record: OperationRecord) => void;
  #updatedAt: string;
  #status: number = statusCodes.Pending;
  #metadata: Metadata | null;
  #err = '';
  #record: OperationRecord | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** When each stage was first heard of. */
  readonly #stages = new Map<string, number>();
  #lastUpdate = -Infinity;

  constructor({ spec, ...options }: OperationOptions) {
    this.#options = options;
    this.id = options.id;
    this.#spec = spec;
    this.#metadata = spec.metadata === undefined ? null : { ...spec.metadata };
    this.#createdAt = timestamp(options.clock);
    this.#updatedAt = this.#createdAt;
    const { promise, resolve } = Promise.withResolvers<OperationRecord>();
    this.done = promise;
    this.#finish = resolve;
  }

  /** Without its work once it has ended. */
  get spec(): OperationSpec {
    return this.#spec;
  }

  get ended(): boolean {
    return this.#status >= statusCodes.Success;
  }

  get running(): boolean {
    return this.#status === statusCodes.Running;
  }

  get mayCancel(): boolean {
    return this.spec.mayCancel ?? this.spec.class === 'token';
  }

  /** Without secrets. The same object while nothing changed. */
  get record(): OperationRecord {
    this.#record ??= Object.freeze({
      id: this.id,
      class: this.spec.class,
      description: this.spec.description,
      created_at: this.#createdAt,
      updated_at: this.#updatedAt,
      status: statusText(this.#status),
      status_code: this.#status,
      resources: Object.keys(this.spec.resources).length === 0 ? null : this.spec.resources,
      metadata: this.#metadata,
      may_cancel: this.mayCancel,
      err: this.#err,
      location: this.#options.location,
    });
    return this.#record;
  }

  /** Runs the work, after `ready`, to its end. Never rejects. */
  async run(ready: (work: () => Promise<void>) => Promise<void>): Promise<void> {
    this.#setStatus(statusCodes.Pending);
    this.#setStatus(statusCodes.Running);
    try {
      await ready(() => this.#work());
      this.#end(this.#cancelledToken() ? statusCodes.Cancelled : statusCodes.Success, '');
    } catch (error) {
      if (this.#status === statusCodes.Cancelling) {
        this.#end(statusCodes.Cancelled, '');
      } else {
        this.#end(statusCodes.Failure, messageOf(error));
      }
    }
  }

  /** Asks the work to stop; it decides when it has. */
  cancel(reason: unknown): void {
    this.#setStatus(statusCodes.Cancelling);
    this.#abort.abort(reason);
  }

  /** The daemon stops: the work is interrupted and fails. */
  interrupt(reason: unknown): void {
    this.#abort.abort(reason);
  }

  async #work(): Promise<void> {
    const context: OperationContext = {
      id: this.id,
      signal: this.#abort.signal,
      update: (metadata) => this.#update(metadata),
      progress: (stage, progress) => {
        const told = this.#withSpeed(stage, progress);
        if (told.bytes !== 0 || told.percent !== undefined) this.#update(progressMetadata(stage, told));
      },
    };
    this.#abort.signal.throwIfAborted();
    const last = await this.spec.run(context);
    if (last !== undefined) this.#merge(last);
  }

  /** A token has no other work than to wait for its end. */
  #cancelledToken(): boolean {
    return this.spec.class === 'token' && this.#status === statusCodes.Cancelling;
  }

  #withSpeed(stage: string, progress: Progress): Progress {
    const began = this.#stages.get(stage);
    if (began === undefined) this.#stages.set(stage, performance.now());
    if (progress.bytes === undefined || progress.bytesPerSecond !== undefined || began === undefined) return progress;
    const seconds = (performance.now() - began) / 1000;
    return seconds > 0 ? { ...progress, bytesPerSecond: progress.bytes / seconds } : progress;
  }

  #update(metadata: Metadata): void {
    if (this.ended) return;
    this.#merge(metadata);
    const wait = this.#lastUpdate + updateInterval - performance.now();
    if (wait <= 0) {
      this.#send();
    } else {
      this.#timer ??= setTimeout(() => this.#send(), wait);
    }
  }

  #merge(metadata: Metadata): void {
    this.#metadata = { ...this.#metadata, ...metadata };
    this.#touch();
  }

  #setStatus(status: number): void {
    this.#status = status;
    this.#touch();
    this.#send();
  }

  #end(status: number, err: string): void {
    this.#err = err;
    this.#options.onEnd();
    this.#setStatus(status);
    this.#finish(this.record);
    // An ended operation is kept for minutes: what its work held (requests, records, sockets) is not.
    const { connect: _, ...rest } = this.#spec;
    this.#spec = { ...rest, run: async () => undefined };
  }

  #touch(): void {
    this.#updatedAt = timestamp(this.#options.clock);
    this.#record = undefined;
  }

  #send(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#lastUpdate = performance.now();
    this.#options.onChange(this.record);
  }
}

function messageOf(error: unknown): string {
  if (isKeelsonError(error)) return error.message;
  return error instanceof Error ? error.message : String(error);
}
