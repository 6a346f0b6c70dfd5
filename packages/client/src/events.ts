import type { EventLifecycle, EventLogging, Operation } from '@keelson/api';
import type { Connection } from './connection.ts';
import { deferred } from './deferred.ts';
import { ClientConnectionFailed } from './errors.ts';
import type { SocketEvent, WebSocketLike } from './transport/types.ts';

/** Event types of the API; `All` stands for every one. */
export type EventType = 'lifecycle' | 'operation' | 'logging' | 'All';

/** What each type of event tells. */
export interface EventMetadata {
  /** Something was made, changed, deleted, started, … */
  readonly lifecycle: EventLifecycle;
  /** A background operation as it is now. */
  readonly operation: Operation;
  /** A line of the server's log. */
  readonly logging: EventLogging;
}

/** One event of the type, as the server sends it. */
export interface EventOf<T extends keyof EventMetadata> {
  /** Tells what `metadata` is. */
  readonly type: T;
  /** RFC 3339. */
  readonly timestamp: string;
  /** What happened. */
  readonly metadata: EventMetadata[T];
  /** Project it happened in. */
  readonly project?: string;
  /** Cluster member it happened on. */
  readonly location?: string;
  /** Keelson only: grows by one per event; `since` replays from it. */
  readonly sequence?: number;
}

/** One event; `type` tells what its `metadata` is. */
export type ServerEvent = { readonly [T in keyof EventMetadata]: EventOf<T> }[keyof EventMetadata];

/** Makes a socket for a path with query. */
export type WebSocketFactory = (path: string) => Promise<WebSocketLike> | WebSocketLike;

/** Which events, and how they are delivered. */
export interface EventsOptions {
  /** Which events; omitted, or with `All` among them, means all. */
  readonly types?: Iterable<EventType>;
  /** Events of every project; default those of the client's. */
  readonly allProjects?: boolean;
  /** Ends the stream. */
  readonly signal?: AbortSignal | undefined;
  /** Connects again after a loss (default true), first after `minDelay`, then ever slower up to `maxDelay` milliseconds. */
  readonly reconnect?: boolean;
  /** Milliseconds before the first try to connect again; default 100. */
  readonly minDelay?: number;
  /** Milliseconds between tries at most; default 5000. */
  readonly maxDelay?: number;
  /** Makes the socket in place of ours, from the path with query. */
  readonly webSocket?: WebSocketFactory;
  /** Called for every event in place of iterating; what it throws ends the stream, and `closed` rejects with it. */
  readonly onEvent?: (event: ServerEvent) => void;
}

const CONNECTING = 0;
const OPEN = 1;

/** The types to ask for: undefined means all. */
export function typesToAsk(types: Iterable<EventType> | undefined): string | undefined {
  if (types === undefined) return undefined;
  const all = [...new Set(types)];
  return all.length === 0 || all.includes('All') ? undefined : all.join(',');
}

/**
 * Events of the server as an async iterable. `GET /1.0/events` (websocket). Ends when its signal aborts, when the
 * loop is left, or with `close()`/`await using`; a lost connection is made again, and a Keelson server then sends
 * what was missed.
 */
export class EventStream implements AsyncIterable<ServerEvent>, AsyncDisposable {
  readonly #connection: Connection;
  readonly #options: EventsOptions;
  readonly #ended = new AbortController();
  readonly #queue: ServerEvent[] = [];
  readonly #opened = deferred<void>();
  readonly #finished: Promise<void>;
  readonly #abort = (): void => this.#end();
  #wake: (() => void) | undefined;
  #failure: unknown;
  #last: number | undefined;

  /** @internal */
  constructor(connection: Connection, options: EventsOptions = {}) {
    this.#connection = connection;
    this.#options = options;
    options.signal?.addEventListener('abort', this.#abort, { once: true });
    this.#opened.promise.catch(() => undefined);
    this.#finished = this.#run();
    if (options.signal?.aborted) this.#end();
  }

  /** Resolves when the first connection stands: no later event is missed. @throws ClientConnectionFailed, APIException */
  opened(): Promise<void> {
    return this.#opened.promise;
  }

  /** Resolves when the stream ended: by its signal, `close()`, or a lost connection that is not made again. @throws what ended it */
  async closed(): Promise<void> {
    await this.#finished;
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Ends the stream and waits until the socket is gone. */
  async close(): Promise<void> {
    this.#end();
    await this.#finished;
  }

  /** As `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Events as they come; the loop ends with the stream. @throws what ended it */
  async *[Symbol.asyncIterator](): AsyncGenerator<ServerEvent> {
    try {
      for (;;) {
        const event = this.#queue.shift();
        if (event !== undefined) {
          yield event;
          continue;
        }
        if (this.#failure !== undefined) throw this.#failure;
        if (this.#ended.signal.aborted) return;
        await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      this.#end();
    }
  }

  async #run(): Promise<void> {
    const { reconnect = true, minDelay = 100, maxDelay = 5000 } = this.#options;
    let delay = minDelay;
    let connected = false;
    while (!this.#ended.signal.aborted) {
      try {
        const socket = await this.#open();
        connected = true;
        delay = minDelay;
        this.#opened.resolve();
        await this.#read(socket);
        if (!reconnect) return this.#end();
      } catch (error) {
        // The first connection must stand; a later loss is retried.
        if (!connected || !reconnect) return this.#fail(error);
      }
      await pause(delay, this.#ended.signal);
      delay = Math.min(delay * 2, maxDelay);
    }
  }

  async #open(): Promise<WebSocketLike> {
    const query = {
      type: typesToAsk(this.#options.types),
      'all-projects': this.#options.allProjects ? 'true' : undefined,
      since: this.#last,
    };
    const path = this.#connection.path('events');
    const { webSocket } = this.#options;
    if (webSocket === undefined) return this.#connection.openWebSocket(path, { query, signal: this.#ended.signal });
    const socket = await webSocket(this.#connection.withQuery(path, query));
    if (socket.readyState !== CONNECTING) return socket;
    const { promise, resolve, reject } = deferred<WebSocketLike>();
    socket.addEventListener('open', () => resolve(socket));
    const endpoint = this.#connection.transport.endpoint;
    const failed = ({ error }: SocketEvent): void =>
      reject(
        new ClientConnectionFailed('The websocket cannot be opened', {
          method: 'GET',
          url: path,
          endpoint,
          cause: error,
        }),
      );
    socket.addEventListener('error', failed);
    socket.addEventListener('close', failed);
    return promise;
  }

  /** Resolves when the socket closed. */
  async #read(socket: WebSocketLike): Promise<void> {
    const { promise, resolve } = deferred<void>();
    const close = (): void => socket.close();
    socket.addEventListener('message', ({ data }) => this.#receive(data));
    socket.addEventListener('close', () => resolve());
    socket.addEventListener('error', () => resolve());
    this.#ended.signal.addEventListener('abort', close, { once: true });
    if (socket.readyState > OPEN) resolve();
    if (this.#ended.signal.aborted) close();
    await promise;
    this.#ended.signal.removeEventListener('abort', close);
  }

  #receive(data: SocketEvent['data']): void {
    const text = typeof data === 'string' ? data : new TextDecoder().decode(data as ArrayBuffer);
    let event: ServerEvent;
    try {
      event = JSON.parse(text) as ServerEvent;
    } catch {
      return; // a message that is no event is not ours to judge
    }
    if (event.sequence !== undefined) this.#last = event.sequence;
    if (this.#options.onEvent === undefined) {
      this.#queue.push(event);
      this.#wake?.();
      return;
    }
    try {
      this.#options.onEvent(event);
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    if (!this.#ended.signal.aborted) this.#failure = error;
    this.#opened.reject(error);
    this.#end();
  }

  #end(): void {
    this.#options.signal?.removeEventListener('abort', this.#abort);
    this.#ended.abort();
    this.#opened.reject(new Error('The event stream was closed'));
    this.#wake?.();
  }
}

/** Resolves after `ms`, or at once when `signal` aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
  });
}
