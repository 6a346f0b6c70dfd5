import type { Operation } from '@keelson/api';
import { type Connection, operationFailure } from './connection.ts';
import { APIException, NotFound } from './errors.ts';
import { EventStream } from './events.ts';
import { nameOf, projectOf } from './resources/common.ts';
import type { Warnings } from './warnings.ts';

const KNOWN: ReadonlySet<string> = new Set([
  'class',
  'created_at',
  'description',
  'err',
  'id',
  'location',
  'may_cancel',
  'metadata',
  'resources',
  'status',
  'status_code',
  'updated_at',
]);

/** Status codes below are of an operation that still runs, those above of one that failed. */
const SUCCESS = 200;

/** A long poll gives up after this many seconds and asks again, so that a dead connection is noticed. */
const POLL_SECONDS = 60;

/** An error that comes sooner is no long poll that ran out. */
const SHORTEST_POLL_MS = (POLL_SECONDS * 1000) / 2;

/** How to wait for an operation. */
export interface WaitForOptions {
  /** Ends the waiting, not the operation. */
  readonly signal?: AbortSignal | undefined;
  /** Called with each record seen on the way: progress stands in its `metadata`. */
  readonly onProgress?: ((operation: Operation) => void) | undefined;
}

/** Waits for background operations and warns of attributes this version does not know. */
export class OperationWaiter {
  readonly #connection: Connection;
  readonly #warnings: Warnings;

  constructor(connection: Connection, warnings: Warnings) {
    this.#connection = connection;
    this.#warnings = warnings;
  }

  /** `GET /1.0/operations/<id>`. `id` may be a URL path. @throws NotFound */
  async get(id: string, signal?: AbortSignal): Promise<Operation> {
    return this.#checked(await this.#connection.get<Operation>(this.#path(id), { signal }));
  }

  /**
   * Waits until the operation ended and returns its record: the server answers `GET /1.0/operations/<id>/wait` the
   * moment it ends. @throws APIException when it failed or was cancelled, NotFound when the server forgot it
   */
  async wait(id: string, options: WaitForOptions = {}): Promise<Operation> {
    await using watched = await this.#watch(id, options);
    for (;;) {
      const operation = await this.#poll(id, options.signal);
      watched?.report(operation);
      if (operation.status_code < SUCCESS) continue;
      if (operation.status_code === SUCCESS) return operation;
      throw operationFailure(operation, { method: 'GET', url: this.#path(id) });
    }
  }

  /** `DELETE /1.0/operations/<id>`. @throws APIException when it cannot be cancelled */
  async cancel(id: string, signal?: AbortSignal): Promise<void> {
    await this.#connection.request('DELETE', this.#path(id), { signal });
  }

  #path(id: string): string {
    return this.#connection.path('operations', nameOf(id));
  }

  #inProjectOf(id: string): Connection {
    const project = projectOf(id);
    return project === undefined ? this.#connection : this.#connection.with({ project });
  }

  async #poll(id: string, signal: AbortSignal | undefined): Promise<Operation> {
    const path = `${this.#path(id)}/wait`;
    const project = projectOf(id);
    const started = Date.now();
    try {
      const query = { timeout: POLL_SECONDS, project };
      const answer = this.#connection.get<Operation>(path, { query, signal, timeout: (POLL_SECONDS + 30) * 1000 });
      return this.#checked(await answer);
    } catch (error) {
      // Incus answers with an error instead of the record when the operation failed, and when the time is over.
      if (!(error instanceof APIException) || error instanceof NotFound) throw error;
      const operation = await this.#connection.get<Operation>(this.#path(id), { query: { project }, signal });
      if (operation.status_code < SUCCESS && Date.now() - started < SHORTEST_POLL_MS) throw error;
      return this.#checked(operation);
    }
  }

  /** Progress comes as events; without somebody to tell there is nothing to watch. */
  async #watch(
    id: string,
    options: WaitForOptions,
  ): Promise<({ report(operation: Operation): void } & AsyncDisposable) | undefined> {
    const { onProgress } = options;
    if (onProgress === undefined) return undefined;
    const wanted = nameOf(id);
    const stream = new EventStream(this.#inProjectOf(id), {
      types: ['operation'],
      onEvent: (event) => {
        if (event.type === 'operation' && event.metadata.id === wanted) onProgress(event.metadata);
      },
    });
    // Without events there is no progress to tell, but the operation can be waited for.
    await stream.opened().catch(() => undefined);
    return { report: onProgress, [Symbol.asyncDispose]: () => stream.close() };
  }

  #checked(operation: Operation): Operation {
    for (const key of Object.keys(operation)) {
      if (!KNOWN.has(key))
        this.#warnings.warn(`Operation attribute "${key}" is not known to this version of the client`);
    }
    return operation;
  }
}
