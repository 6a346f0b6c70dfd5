import type { WebSocket } from 'ws';
import type { Event, Events, EventType } from '../../services/events/contract.ts';

export interface EventStreamOptions {
  readonly types: readonly EventType[];
  /** Events of this project only; undefined: of every project `sees` lets through. */
  readonly project: string | undefined;
  /** Replay kept events with a larger sequence first. */
  readonly since: number | undefined;
  readonly sees: (event: Event) => boolean;
}

/** Bytes that may wait for a reader; a slower one is cut off, so that it reconnects with `since`. */
const MAX_BUFFERED = 4 * 1024 * 1024;
const PING_INTERVAL = 30_000;

/** Sends events to one client until it goes. */
export class EventStreams {
  readonly #events: Events;
  readonly #texts = new WeakMap<Event, string>();

  constructor(events: Events) {
    this.#events = events;
  }

  attach(socket: WebSocket, options: EventStreamOptions): void {
    const { types, project, since, sees } = options;
    const stop = this.#events.subscribe(
      (event) => {
        if (sees(event)) this.#send(socket, event);
      },
      { types, ...(project === undefined ? {} : { project }), ...(since === undefined ? {} : { since }) },
    );
    const stopPings = keepAlive(socket);
    socket.on('close', () => {
      stop();
      stopPings();
    });
    socket.on('message', () => undefined); // clients have nothing to say
  }

  #send(socket: WebSocket, event: Event): void {
    if (socket.readyState !== socket.OPEN) return;
    if (socket.bufferedAmount > MAX_BUFFERED) {
      socket.terminate();
      return;
    }
    let text = this.#texts.get(event);
    if (text === undefined) {
      text = JSON.stringify(event);
      this.#texts.set(event, text);
    }
    socket.send(text);
  }
}

/** Notices clients that vanished without a word. */
function keepAlive(socket: WebSocket): () => void {
  let alive = true;
  socket.on('pong', () => (alive = true));
  const timer = setInterval(() => {
    if (!alive) return socket.terminate();
    alive = false;
    socket.ping();
  }, PING_INTERVAL);
  timer.unref();
  return () => clearInterval(timer);
}
