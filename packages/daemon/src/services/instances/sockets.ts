import type { WebSocket } from 'ws';
import { errors } from '../../core/errors.ts';

/** How long a client usually may take, in milliseconds. */
const CONNECT_TIMEOUT = 5_000;

/** The sockets of one operation, paused until somebody listens: resume them. Waits for those it cannot do without. */
export class OperationSockets {
  readonly #sockets = new Map<string, WebSocket>();
  readonly #required: readonly string[];
  readonly #timeout: number;
  readonly #begun = Promise.withResolvers<void>();
  readonly #ready = Promise.withResolvers<void>();
  readonly #onLate: ((name: string, socket: WebSocket) => void)[] = [];

  /** `timeout`: how long the client may take to connect those it cannot do without, in milliseconds. */
  constructor(required: readonly string[], timeout = CONNECT_TIMEOUT) {
    this.#required = required;
    this.#timeout = timeout;
    if (required.length > 0) return;
    this.#begun.resolve();
    this.#ready.resolve();
  }

  /** A name connects once; a second connection is turned away. */
  connect(name: string, socket: WebSocket): void {
    if (this.#sockets.has(name)) {
      socket.close(1008, 'Already connected');
      return;
    }
    this.#sockets.set(name, socket);
    socket.pause(); // nothing may arrive before somebody listens
    socket.on('error', () => undefined);
    for (const listener of this.#onLate) listener(name, socket);
    if (this.#required.includes(name)) this.#begun.resolve();
    if (this.#required.every((wanted) => this.#sockets.has(wanted))) this.#ready.resolve();
  }

  /** The first of those it cannot do without: the client is there. @throws as `connected` */
  begun(signal: AbortSignal): Promise<void> {
    return this.#within(this.#begun, signal);
  }

  /** All of them. @throws bad-request when the client does not come, the signal's reason when it aborts. */
  connected(signal: AbortSignal): Promise<void> {
    return this.#within(this.#ready, signal);
  }

  async #within({ promise, reject }: PromiseWithResolvers<void>, signal: AbortSignal): Promise<void> {
    const abort = (): void => reject(signal.reason);
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
    const timer = setTimeout(
      () => reject(errors.badRequest('Timed out waiting for websockets to connect')),
      this.#timeout,
    );
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
    }
  }

  /** @throws when it is not connected: ask for required ones, after `connected`. */
  get(name: string): WebSocket {
    const socket = this.#sockets.get(name);
    if (socket === undefined) throw errors.internal(`Socket "${name}" is not connected`);
    return socket;
  }

  /** Calls `use` with the socket of that name, now or when it connects. */
  when(name: string, use: (socket: WebSocket) => void): void {
    const socket = this.#sockets.get(name);
    if (socket !== undefined) use(socket);
    else this.#onLate.push((late, found) => void (late === name && use(found)));
  }

  /** Says goodbye on all of them. */
  close(): void {
    for (const socket of this.#sockets.values()) {
      socket.resume();
      socket.close(1000);
    }
  }
}
