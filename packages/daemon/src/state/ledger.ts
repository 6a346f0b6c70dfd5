import { errors, isKeelsonError } from '../core/errors.ts';
import { type Log, silentLog } from '../core/log.ts';
import type { Collection, Ledger } from './collection.ts';
import { LedgerCollection, type Effect } from './ledger-collection.ts';
import type { Change, Check, Store, Versioned, Write } from './store.ts';

export interface LedgerOptions {
  readonly log?: Log;
  /** Pause before the store is asked again after it failed, in milliseconds. Default 500. */
  readonly retryDelay?: number;
}

/** Reads everything there is and follows the store. The ledger must be disposed before the store. */
export async function createLedger(store: Store, options: LedgerOptions = {}): Promise<Ledger> {
  const ledger = new StoreLedger(store, options);
  await ledger.start();
  return ledger;
}

interface Waiter {
  readonly revision: number;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** The in-memory view of a store: one list, one watch, divided among the collections. */
class StoreLedger implements Ledger {
  readonly #store: Store;
  readonly #log: Log;
  readonly #retryDelay: number;
  readonly #documents = new Map<string, Versioned>();
  readonly #collections = new Map<string, LedgerCollection<unknown>>();
  readonly #stop = new AbortController();
  #revision = 0;
  #pending: Change[] = [];
  #waiters: Waiter[] = [];
  #failure: string | undefined;
  #following: Promise<void> = Promise.resolve();

  constructor(store: Store, options: LedgerOptions) {
    this.#store = store;
    this.#log = options.log ?? silentLog;
    this.#retryDelay = options.retryDelay ?? 500;
  }

  async start(): Promise<void> {
    await this.#list();
    this.#following = this.#follow();
  }

  collection<T>(prefix: string): Collection<T> {
    const known = this.#collections.get(prefix);
    if (known !== undefined) {
      return known as LedgerCollection<T>;
    }
    const collection = new LedgerCollection<T>(prefix, {
      transact: (checks, writes) => this.#tryTransact(checks, writes),
      refresh: () => this.#refresh(),
      onListenerError: (error) => this.#log.error('A subscriber of the state failed', { prefix, error }),
    });
    for (const document of this.#documents.values()) {
      if (document.key.startsWith(prefix)) {
        collection.apply(document.key, document);
      }
    }
    this.#collections.set(prefix, collection as LedgerCollection<unknown>);
    return collection;
  }

  async transact(checks: readonly Check[], writes: readonly Write[]): Promise<number> {
    const revision = await this.#tryTransact(checks, writes);
    if (revision === undefined) {
      throw errors.conflict('The records changed meanwhile; try again');
    }
    return revision;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#following;
    for (const waiter of this.#waiters.splice(0)) {
      waiter.reject(errors.unavailable('The state view is closed'));
    }
  }

  /** The revision when it is in the view, or undefined when a check failed. */
  async #tryTransact(checks: readonly Check[], writes: readonly Write[]): Promise<number | undefined> {
    const result = await this.#store.transact(checks, writes);
    if (!result.committed) {
      return undefined;
    }
    await this.#reached(result.revision);
    return result.revision;
  }

  /** Resolves when the view is at least as new as the store is now. */
  async #refresh(): Promise<void> {
    // Nothing lies below this prefix; only the revision is wanted.
    const { revision } = await this.#store.list('/.none/');
    await this.#reached(revision);
  }

  #reached(revision: number): Promise<void> {
    if (this.#revision >= revision) {
      return Promise.resolve();
    }
    if (this.#stop.signal.aborted) {
      return Promise.reject(errors.unavailable('The state view is closed'));
    }
    return new Promise((resolve, reject) => {
      this.#waiters.push({ revision, resolve, reject });
    });
  }

  async #follow(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        for await (const item of this.#store.watch('/', this.#revision, signal)) {
          if (item.type === 'compacted') {
            break;
          }
          this.#take(item.change);
        }
        this.#pending = [];
        if (!signal.aborted) {
          await this.#list();
        }
      } catch (error) {
        this.#pending = [];
        if (!signal.aborted) {
          this.#report(reason(error));
          this.#rejectWaiters(error);
          await pause(this.#retryDelay, signal);
        }
      }
    }
  }

  /** Once per failure, not per retry. */
  #report(failure: string): void {
    if (failure !== this.#failure) {
      this.#failure = failure;
      this.#log.error('Cannot follow the state store', { error: failure });
    }
  }

  #rejectWaiters(error: unknown): void {
    for (const waiter of this.#waiters.splice(0)) {
      waiter.reject(isKeelsonError(error) ? error : errors.unavailable('The state store does not answer', error));
    }
  }

  /** Gathers the changes of a revision and applies them together. */
  #take(change: Change): void {
    this.#pending.push(change);
    if (change.last) {
      const changes = this.#pending;
      this.#pending = [];
      this.#apply(change.revision, changes);
    }
  }

  async #list(): Promise<void> {
    const { entries, revision } = await this.#store.list('/');
    const listed = new Map(entries.map((entry) => [entry.key, entry]));
    const gone = [...this.#documents.keys()]
      .filter((key) => !listed.has(key))
      .map((key): Change => ({ revision, key, value: undefined, last: false }));
    const changed = entries
      .filter((entry) => this.#documents.get(entry.key)?.revision !== entry.revision)
      .map((entry): Change => ({ ...entry, last: false }));
    this.#apply(revision, [...gone, ...changed]);
    this.#failure = undefined;
  }

  #apply(revision: number, changes: readonly Change[]): void {
    const effects: Effect[] = [];
    for (const change of changes) {
      const document = change.value === undefined ? undefined : change;
      if (document === undefined) {
        this.#documents.delete(change.key);
      } else {
        this.#documents.set(change.key, { key: change.key, value: change.value, revision: change.revision });
      }
      for (const collection of this.#collections.values()) {
        if (change.key.startsWith(collection.prefix)) {
          effects.push(collection.apply(change.key, document, revision));
        }
      }
    }
    this.#revision = revision;
    for (const notify of effects) {
      notify();
    }
    this.#wakeWaiters();
  }

  #wakeWaiters(): void {
    const waiting = this.#waiters;
    this.#waiters = [];
    for (const waiter of waiting) {
      if (waiter.revision <= this.#revision) {
        waiter.resolve();
      } else {
        this.#waiters.push(waiter);
      }
    }
  }
}

const reason = (error: unknown): string => (error instanceof Error ? error.message : String(error));

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener('abort', done);
  });
}
