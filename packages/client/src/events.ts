import type { Connection } from './connection.ts';
import { deferred } from './deferred.ts';
import type { SocketEvent, WebSocketLike } from './transport/types.ts';

/** Event types of the API; `All` stands for every one. */
export type EventType = 'lifecycle' | 'operation' | 'logging' | 'All';

/** One event as the server sends it; `metadata` depends on `type`. */
export interface ServerEvent<T = unknown> {
  readonly type: Exclude<EventType, 'All'>;
  /** RFC 3339. */
  readonly timestamp: string;
  readonly metadata: T;
  readonly project?: string;
  readonly location?: string;
  /** Keelson only: grows by one per event; `since` replays from it. */
  readonly sequence?: number;
}

export interface EventsOptions {
  /** Which events; omitted, or with `All` among them, means all. */
  readonly types?: Iterable<EventType>;
  readonly allProjects?: boolean;
  /** Ends the stream. */
  readonly signal?: AbortSignal;
  /** Connects again after a loss (default true), first after `minDelay`, then ever slower up to `maxDelay` milliseconds. */
  readonly reconnect?: boolean;
  readonly minDelay?: number;
  readonly maxDelay?: number;
  /** Makes the socket in place of ours, from the path with query. */
  readonly webSocket?: (path: string) => Promise<WebSocketLike> | WebSocketLike;
  /** Called for every event in place of iterating. */
  readonly onEvent?: (event: ServerEvent) => void;
}

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
  #wake: (() => void) | undefined;
  #failure: unknown;
  #socket: WebSocketLike | undefined;
  #last: number | undefined;

  constructor(connection: Connection, options: EventsOptions = {}) {
    this.#connection = connection;
    this.#options = options;
    options.signal?.addEventListener('abort', () => this.#end(), { once: true });
    this.#opened.promise.catch(() => undefined);
    this.#finished = this.#run();
    if (options.signal?.aborted) this.#end();
  }

  /** Resolves when the first connection stands: no later event is missed. @throws ClientConnectionFailed, APIException */
  opened(): Promise<void> {
    return this.#opened.promise;
  }

  /** Ends the stream and waits until the socket is gone. */
  async close(): Promise<void> {
    this.#end();
    await this.#finished;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

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
        this.#socket = await this.#open();
        connected = true;
        delay = minDelay;
        this.#opened.resolve();
        await this.#read(this.#socket);
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
    if (this.#options.webSocket !== undefined) return this.#options.webSocket(this.#connection.withQuery(path, query));
    return this.#connection.openWebSocket(path, { query, signal: this.#ended.signal });
  }

  /** Resolves when the socket closed. */
  #read(socket: WebSocketLike): Promise<void> {
    const { promise, resolve } = deferred<void>();
    socket.addEventListener('message', ({ data }) => this.#receive(data));
    socket.addEventListener('close', () => resolve());
    this.#ended.signal.addEventListener('abort', () => socket.close(), { once: true });
    if (socket.readyState > 1) resolve();
    if (this.#ended.signal.aborted) socket.close();
    return promise;
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
    if (this.#options.onEvent !== undefined) {
      this.#options.onEvent(event);
      return;
    }
    this.#queue.push(event);
    this.#wake?.();
  }

  #fail(error: unknown): void {
    if (!this.#ended.signal.aborted) this.#failure = error;
    this.#opened.reject(error);
    this.#end();
  }

  #end(): void {
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
