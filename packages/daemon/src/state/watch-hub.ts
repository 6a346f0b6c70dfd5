import type { KeyChange, Revision } from './documents.ts';
import type { Change, WatchItem } from './store.ts';

/** Changes a watcher may lag behind before it has to list again. */
const defaultLimit = 10_000;

/** The watchers of a store: hands committed revisions to each, in order, without ever waiting for one. */
export class WatchHub {
  readonly #watchers = new Set<Watcher>();
  readonly #limit: number;
  #closed = false;
  #failure: unknown;

  constructor(limit: number = defaultLimit) {
    this.#limit = limit;
  }

  publish(revision: Revision): void {
    for (const watcher of this.#watchers) {
      watcher.offer(revision);
    }
  }

  /** Ends every watch: quietly, or with `failure` thrown to those who wait. */
  close(failure?: unknown): void {
    this.#closed = true;
    this.#failure = failure;
    for (const watcher of this.#watchers) {
      watcher.wake();
    }
  }

  /**
   * Yields what `backlog` returns, then what is published. `backlog` runs at the first `next()`, in the same turn in
   * which the watcher is registered, so nothing falls between.
   */
  async *follow(
    prefix: string,
    backlog: () => readonly Revision[] | 'compacted',
    signal: AbortSignal,
  ): AsyncGenerator<WatchItem, void> {
    const past = backlog();
    if (past === 'compacted') {
      yield { type: 'compacted' };
      return;
    }
    const watcher = new Watcher(prefix, this.#limit);
    const wake = () => watcher.wake();
    this.#watchers.add(watcher);
    signal.addEventListener('abort', wake);
    try {
      for (const revision of past) {
        yield* items(revision.revision, watcher.matching(revision));
      }
      while (!signal.aborted) {
        if (watcher.overflowed) {
          yield { type: 'compacted' };
          return;
        }
        yield* this.#drain(watcher, signal);
        if (this.#closed) {
          this.#throwFailure();
          return;
        }
        await watcher.wait(signal);
      }
    } finally {
      this.#watchers.delete(watcher);
      signal.removeEventListener('abort', wake);
    }
  }

  *#drain(watcher: Watcher, signal: AbortSignal): Generator<WatchItem, void> {
    for (let next = watcher.take(); next !== undefined && !signal.aborted; next = watcher.take()) {
      yield* items(next.revision, next.changes);
    }
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) {
      throw this.#failure;
    }
  }
}

function* items(revision: number, changes: readonly KeyChange[]): Generator<WatchItem, void> {
  for (const [index, { key, value }] of changes.entries()) {
    const change: Change = { revision, key, value, last: index === changes.length - 1 };
    yield { type: 'change', change };
  }
}

class Watcher {
  readonly #prefix: string;
  readonly #limit: number;
  #queue: Revision[] = [];
  #size = 0;
  #wake: (() => void) | undefined;
  overflowed = false;

  constructor(prefix: string, limit: number) {
    this.#prefix = prefix;
    this.#limit = limit;
  }

  matching(revision: Revision): readonly KeyChange[] {
    return revision.changes.filter((change) => change.key.startsWith(this.#prefix));
  }

  offer(revision: Revision): void {
    const changes = this.matching(revision);
    if (changes.length === 0 || this.overflowed) {
      return;
    }
    this.#size += changes.length;
    if (this.#size > this.#limit) {
      this.overflowed = true;
      this.#queue = [];
    } else {
      this.#queue.push({ revision: revision.revision, changes });
    }
    this.wake();
  }

  take(): Revision | undefined {
    const next = this.#queue.shift();
    this.#size -= next?.changes.length ?? 0;
    return next;
  }

  /** Resolves at once when something is queued. */
  wait(signal: AbortSignal): Promise<void> {
    if (this.#queue.length > 0 || this.overflowed || signal.aborted) {
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  wake(): void {
    this.#wake?.();
    this.#wake = undefined;
  }
}
