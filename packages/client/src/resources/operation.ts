import type { Operation as OperationRecord } from '@keelson/api';
import type { CallOptions, ModelContext } from '../model.ts';
import type { WaitForOptions } from '../operation-waiter.ts';
import { nameOf } from './common.ts';

/** A background operation of the server, as it was when read. */
export class Operation {
  readonly #context: ModelContext;
  #record: OperationRecord;

  /** @internal */
  constructor(context: ModelContext, record: OperationRecord) {
    this.#context = context;
    this.#record = record;
  }

  /** UUID. */
  get id(): string {
    return this.#record.id;
  }

  /** Status code of the API: 103 running, 200 success, 400 failure, 401 cancelled. */
  get status_code(): number {
    return this.#record.status_code;
  }

  /** `Running`, `Success`, … */
  get status(): string {
    return this.#record.status;
  }

  /** `task`, `websocket` or `token`. */
  get class(): string {
    return this.#record.class;
  }

  /** What it does, in words. */
  get description(): string {
    return this.#record.description;
  }

  /** Why it failed; empty when it did not. */
  get err(): string {
    return this.#record.err;
  }

  /** URL paths of what it works on, by kind. */
  get resources(): OperationRecord['resources'] {
    return this.#record.resources;
  }

  /** Progress, results, exit codes: what depends on the kind of operation. */
  get metadata(): OperationRecord['metadata'] {
    return this.#record.metadata;
  }

  /** Whether `cancel` can end it. */
  get may_cancel(): boolean {
    return this.#record.may_cancel;
  }

  /** Everything the server said, also what this version does not know. */
  get record(): Readonly<OperationRecord> {
    return this.#record;
  }

  /** Blocks until the operation ended. `GET /1.0/operations/<id>/wait` @throws APIException when it failed or was cancelled */
  async wait(options: WaitForOptions = {}): Promise<this> {
    this.#record = await this.#context.operations.wait(this.id, options);
    return this;
  }

  /** `DELETE /1.0/operations/<id>` @throws APIException when it cannot be cancelled */
  async cancel(options: CallOptions = {}): Promise<void> {
    await this.#context.operations.cancel(this.id, options.signal);
  }
}

/** `client.operations` */
export class OperationManager {
  readonly #context: ModelContext;

  /** @internal */
  constructor(context: ModelContext) {
    this.#context = context;
  }

  /** `id` may be a URL path. `GET /1.0/operations/<id>` @throws NotFound */
  async get(id: string, options: CallOptions = {}): Promise<Operation> {
    return new Operation(this.#context, await this.#context.operations.get(id, options.signal));
  }

  /** Blocks until the operation ended and returns it. `GET /1.0/operations/<id>/wait` @throws APIException when it failed, NotFound */
  async waitForOperation(id: string, options: WaitForOptions = {}): Promise<Operation> {
    return new Operation(this.#context, await this.#context.operations.wait(id, options));
  }

  /** Ids of all operations by status (`running`, `success`, …). `GET /1.0/operations` */
  async all(options: CallOptions = {}): Promise<Record<string, string[]>> {
    const { connection } = this.#context;
    const path = connection.path('operations');
    const byStatus = await connection.get<Record<string, string[]>>(path, { signal: options.signal });
    return Object.fromEntries(Object.entries(byStatus).map(([status, urls]) => [status, urls.map(nameOf)]));
  }
}
