import { type Clock, timestamp } from '../../core/clock.ts';
import type { Ids } from '../../core/ids.ts';
import type { Log } from '../../core/log.ts';
import type { Collection, Ledger } from '../../state/collection.ts';
import type { Write } from '../../state/store.ts';
import type { Intent, Intents } from './contract.ts';

export interface IntentServiceOptions {
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
}

/** Stored under `/intents/<id>`. */
interface IntentRecord {
  readonly kind: string;
  readonly data: unknown;
  readonly startedAt: string;
  /** Orders intents of the same moment: larger than that of every intent open when this one began. */
  readonly order: number;
}

type Handler = (intent: Intent) => Promise<void>;

export class IntentService implements Intents {
  readonly #options: IntentServiceOptions;
  readonly #records: Collection<IntentRecord>;
  readonly #handlers = new Map<string, Handler>();
  #order: number;

  constructor(options: IntentServiceOptions) {
    this.#options = options;
    this.#records = options.ledger.collection('/intents/');
    this.#order = Math.max(0, ...this.#records.list().map(({ value }) => value.order));
  }

  async begin<T>(kind: string, data: T): Promise<Intent<T>> {
    const id = this.#options.ids.uuid();
    const startedAt = timestamp(this.#options.clock);
    this.#order += 1;
    await this.#records.create(id, { kind, data, startedAt, order: this.#order });
    return { id, kind, data, startedAt };
  }

  async end(intent: Intent, writes: readonly Write[] = []): Promise<void> {
    await this.#options.ledger.transact([], [this.#records.remove(intent.id), ...writes]);
  }

  handle<T>(kind: string, handler: (intent: Intent<T>) => Promise<void>): void {
    if (this.#handlers.has(kind)) throw new Error(`Intents of kind ${kind} have a handler already`);
    // Data of a kind is written by `begin` of that kind only.
    this.#handlers.set(kind, (intent) => handler(intent as Intent<T>));
  }

  async recover(): Promise<void> {
    const open = this.#records.list().toSorted((a, b) => a.value.order - b.value.order);
    for (const { key, value } of open) {
      const { kind, data, startedAt } = value;
      await this.#recoverOne({ id: key.slice(this.#records.prefix.length), kind, data, startedAt });
    }
  }

  async #recoverOne(intent: Intent): Promise<void> {
    const { log } = this.#options;
    const { id, kind } = intent;
    const handler = this.#handlers.get(kind);
    if (handler === undefined) {
      log.error('Nobody knows how to recover an interrupted change', { intent: id, kind });
      return;
    }
    try {
      log.info('Recovering an interrupted change', { intent: id, kind, startedAt: intent.startedAt });
      await handler(intent);
      await this.end(intent);
    } catch (error) {
      log.error('Cannot recover an interrupted change; the next start tries again', { intent: id, kind, error });
    }
  }
}
