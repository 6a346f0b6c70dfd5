import type { Check, Write } from './store.ts';

/** A record as the view holds it. `revision` grows with each write of this record. */
export interface Entry<T> {
  readonly key: string;
  readonly value: T;
  readonly revision: number;
}

/**
 * The typed records of one noun, read synchronously from the in-memory view, written through the store.
 * `id` is the part of the key below the collection's prefix: `name`, or `project/name`.
 * After a write resolves, reads of this process see it (the view has reached the commit).
 * Values are frozen: never mutate what a read returned.
 */
export interface Collection<T> {
  readonly prefix: string;
  get(id: string): Entry<T> | undefined;
  /** Entries whose id starts with `idPrefix` (default all), sorted by id. Same array while nothing changed. */
  list(idPrefix?: string): readonly Entry<T>[];
  /** Grows whenever any record of the collection changes; a cache key for serialized lists. */
  readonly revision: number;
  /** Rejects with `conflict` when the id exists. */
  create(id: string, value: T): Promise<Entry<T>>;
  /** Applies `change` to the current value, again when another writer won. Rejects with `not-found`. Return the same value to write nothing. */
  update(id: string, change: (current: T) => T): Promise<Entry<T>>;
  /** Resolves false when it was not there. */
  delete(id: string): Promise<boolean>;
  /** Called after a change is in the view, in commit order. Returns how to stop. */
  subscribe(listener: (change: { id: string; before: T | undefined; after: T | undefined }) => void): () => void;
  /** Pieces for a transaction over several collections (see `Ledger.transact`). */
  put(id: string, value: T): Write;
  remove(id: string): Write;
  /** Check that the record is still the one read; undefined = must not exist. */
  unchanged(id: string, entry: Entry<T> | undefined): Check;
}

/** All collections over one store. `transact` resolves when the view has the commit; rejects with `conflict` when a check failed. */
export interface Ledger extends AsyncDisposable {
  collection<T>(prefix: string): Collection<T>;
  transact(checks: readonly Check[], writes: readonly Write[]): Promise<number>;
}
