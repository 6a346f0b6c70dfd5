import { errors } from '../core/errors.ts';
import { KeyedQueue } from '../core/keyed-queue.ts';
import type { Collection, Entry } from './collection.ts';
import { deepFreeze } from './documents.ts';
import type { Check, Write } from './store.ts';

/** Tells the subscribers of a change that is in the view. */
export type Effect = () => void;

/** What a collection needs from its ledger. */
export interface CollectionHost {
  /** Resolves when the view has the commit; undefined when a check failed. */
  transact(checks: readonly Check[], writes: readonly Write[]): Promise<number | undefined>;
  /** Resolves when the view is as new as the store. */
  refresh(): Promise<void>;
  onListenerError(error: unknown): void;
}

/** Sorted lists kept per prefix; more than this are made anew. */
const cachedLists = 256;

type Listener<T> = (change: { id: string; before: T | undefined; after: T | undefined }) => void;

export class LedgerCollection<T> implements Collection<T> {
  readonly prefix: string;
  readonly #host: CollectionHost;
  readonly #entries = new Map<string, Entry<T>>();
  readonly #lists = new Map<string, readonly Entry<T>[]>();
  readonly #listeners = new Set<Listener<T>>();
  /** Updates of one record take turns here, so that they do not lose races against each other. */
  readonly #updates = new KeyedQueue();
  /** Sorted; undefined after an id came or went. */
  #ids: readonly string[] | undefined;
  #revision = 0;

  constructor(prefix: string, host: CollectionHost) {
    this.prefix = prefix;
    this.#host = host;
  }

  get revision(): number {
    return this.#revision;
  }

  get(id: string): Entry<T> | undefined {
    return this.#entries.get(id);
  }

  list(idPrefix = ''): readonly Entry<T>[] {
    const cached = this.#lists.get(idPrefix);
    if (cached !== undefined) {
      return cached;
    }
    this.#ids ??= [...this.#entries.keys()].sort();
    const list: Entry<T>[] = [];
    for (let at = lowerBound(this.#ids, idPrefix); at < this.#ids.length; at += 1) {
      const id = this.#ids[at] ?? '';
      const entry = id.startsWith(idPrefix) ? this.#entries.get(id) : undefined;
      if (entry === undefined) {
        break;
      }
      list.push(entry);
    }
    if (this.#lists.size >= cachedLists) {
      this.#lists.clear();
    }
    this.#lists.set(idPrefix, Object.freeze(list));
    return list;
  }

  async create(id: string, value: T): Promise<Entry<T>> {
    const revision = await this.#host.transact([this.unchanged(id, undefined)], [this.put(id, value)]);
    if (revision === undefined) {
      throw errors.conflict(`${this.prefix}${id} already exists`);
    }
    return this.#written(id, value, revision);
  }

  update(id: string, change: (current: T) => T): Promise<Entry<T>> {
    return this.#updates.run({ exclusive: [id] }, async () => {
      for (;;) {
        const entry = this.#entries.get(id);
        if (entry === undefined) {
          throw errors.notFound(`${this.prefix}${id} not found`);
        }
        const value = change(entry.value);
        if (value === entry.value) {
          return entry;
        }
        const revision = await this.#host.transact([this.unchanged(id, entry)], [this.put(id, value)]);
        if (revision !== undefined) {
          return this.#written(id, value, revision);
        }
        await this.#host.refresh();
      }
    });
  }

  async delete(id: string): Promise<boolean> {
    for (;;) {
      const entry = this.#entries.get(id);
      if (entry === undefined) {
        return false;
      }
      const revision = await this.#host.transact([this.unchanged(id, entry)], [this.remove(id)]);
      if (revision !== undefined) {
        return true;
      }
      await this.#host.refresh();
    }
  }

  subscribe(listener: Listener<T>): () => void {
    // A listener given twice is called twice.
    const own: Listener<T> = (change) => listener(change);
    this.#listeners.add(own);
    return () => {
      this.#listeners.delete(own);
    };
  }

  put(id: string, value: T): Write {
    return { type: 'put', key: this.prefix + id, value };
  }

  remove(id: string): Write {
    return { type: 'delete', key: this.prefix + id };
  }

  unchanged(id: string, entry: Entry<T> | undefined): Check {
    return { key: this.prefix + id, revision: entry?.revision ?? 0 };
  }

  /** Puts a document of the store (undefined: deleted) into the view; the result tells the subscribers. */
  apply(
    key: string,
    document: { readonly value: unknown; readonly revision: number } | undefined,
    at?: number,
  ): Effect {
    const id = key.slice(this.prefix.length);
    const before = this.#entries.get(id);
    this.#revision = Math.max(this.#revision, at ?? document?.revision ?? 0);
    if ((before === undefined) !== (document === undefined)) {
      this.#ids = undefined;
    }
    for (const idPrefix of this.#lists.keys()) {
      if (id.startsWith(idPrefix)) {
        this.#lists.delete(idPrefix);
      }
    }
    if (document === undefined) {
      this.#entries.delete(id);
    } else {
      this.#entries.set(
        id,
        Object.freeze({ key, value: deepFreeze(document.value) as T, revision: document.revision }),
      );
    }
    const after = this.#entries.get(id)?.value;
    return () => this.#notify({ id, before: before?.value, after });
  }

  /** The entry of this write, also when a later one is in the view already. */
  #written(id: string, value: T, revision: number): Entry<T> {
    const entry = this.#entries.get(id);
    return entry?.revision === revision ? entry : { key: this.prefix + id, value, revision };
  }

  #notify(change: { id: string; before: T | undefined; after: T | undefined }): void {
    for (const listener of this.#listeners) {
      try {
        listener(change);
      } catch (error) {
        this.#host.onListenerError(error);
      }
    }
  }
}

function lowerBound(sorted: readonly string[], wanted: string): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? '') < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}
