import { timestamp, type Clock } from '../../core/clock.ts';
import type { Event, Events, EventType, Lifecycle } from './contract.ts';

export interface EventServiceOptions {
  readonly clock: Clock;
  /** Name of this server in a cluster; `none` alone. */
  readonly location?: string;
  /** Events kept for replay. Default 10,000. */
  readonly keepEvents?: number;
  /** Bytes of JSON the kept events may have together. Default 8 MiB. */
  readonly keepBytes?: number;
}

interface Subscriber {
  readonly listener: (event: Event) => void;
  readonly wants: (event: Event) => boolean;
}

/** Numbers events, keeps the last ones and hands each to whoever listens. */
export class EventService implements Events {
  readonly #clock: Clock;
  readonly #location: string;
  readonly #kept: KeptEvents;
  readonly #subscribers = new Set<Subscriber>();
  #sequence: number;

  constructor(options: EventServiceOptions) {
    this.#clock = options.clock;
    this.#location = options.location ?? 'none';
    // Larger than any sequence of an earlier life of the daemon, so that an old `since` replays everything.
    this.#sequence = options.clock.now() * 1000;
    this.#kept = new KeptEvents(options.keepEvents ?? 10_000, options.keepBytes ?? 8 * 1024 * 1024);
  }

  lifecycle(project: string, event: Lifecycle): void {
    this.#emit('lifecycle', project, event);
  }

  operation(project: string, record: unknown): void {
    this.#emit('operation', project, record);
  }

  logging(metadata: unknown): void {
    this.#emit('logging', '', metadata);
  }

  subscribe(listener: (event: Event) => void, options: Parameters<Events['subscribe']>[1] = {}): () => void {
    const { types, project, since } = options;
    const subscriber: Subscriber = {
      listener,
      // Events without project concern every one.
      wants: (event) =>
        (types === undefined || types.includes(event.type)) &&
        (project === undefined || event.project === project || event.project === ''),
    };
    if (since !== undefined) {
      for (const event of this.#kept.after(since)) {
        deliver(subscriber, event);
      }
    }
    this.#subscribers.add(subscriber);
    return () => {
      this.#subscribers.delete(subscriber);
    };
  }

  #emit(type: EventType, project: string, metadata: unknown): void {
    this.#sequence += 1;
    const event: Event = Object.freeze({
      type,
      timestamp: timestamp(this.#clock),
      metadata,
      project,
      location: this.#location,
      sequence: this.#sequence,
    });
    this.#kept.add(event);
    for (const subscriber of this.#subscribers) {
      deliver(subscriber, event);
    }
  }
}

/** One listener that fails keeps nobody else from hearing, least of all the one who caused the event. */
function deliver({ listener, wants }: Subscriber, event: Event): void {
  if (wants(event)) {
    try {
      listener(event);
    } catch {
      // Nothing may be logged here: that would be an event again.
    }
  }
}

/** The last events, within a number and a size. */
class KeptEvents {
  readonly #maxEvents: number;
  readonly #maxBytes: number;
  #events: { readonly event: Event; readonly bytes: number }[] = [];
  /** Entries at the start that are forgotten and not yet cut off. */
  #start = 0;
  #bytes = 0;

  constructor(maxEvents: number, maxBytes: number) {
    this.#maxEvents = maxEvents;
    this.#maxBytes = maxBytes;
  }

  add(event: Event): void {
    const bytes = estimateBytes(event.metadata) + 120;
    this.#events.push({ event, bytes });
    this.#bytes += bytes;
    while (this.#events.length - this.#start > this.#maxEvents || this.#bytes > this.#maxBytes) {
      this.#bytes -= this.#events[this.#start]?.bytes ?? 0;
      this.#start += 1;
    }
    if (this.#start > 1000 && this.#start * 2 > this.#events.length) {
      this.#events = this.#events.slice(this.#start);
      this.#start = 0;
    }
  }

  /** Sequences have no gaps, so the place of one is known. */
  after(sequence: number): Event[] {
    const first = this.#events[this.#start]?.event.sequence ?? 0;
    const from = this.#start + Math.max(0, sequence + 1 - first);
    return this.#events.slice(from).map(({ event }) => event);
  }
}

/** About the length of the JSON text, without making it. */
function estimateBytes(value: unknown): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return 6;
  let bytes = 2;
  for (const [key, member] of Object.entries(value)) {
    bytes += key.length + 4 + estimateBytes(member);
  }
  return bytes;
}
