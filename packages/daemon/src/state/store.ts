/** One stored document. `revision` is the store revision of its last write. */
export interface Versioned {
  readonly key: string;
  readonly value: unknown; // JSON document
  readonly revision: number;
}

/** Holds at commit time: the key's revision equals `revision`; 0 means the key must not exist. */
export interface Check {
  readonly key: string;
  readonly revision: number;
}

export type Write =
  | { readonly type: 'put'; readonly key: string; readonly value: unknown }
  | { readonly type: 'delete'; readonly key: string };

export type TransactResult = { readonly committed: true; readonly revision: number } | { readonly committed: false };

/** One committed write. Changes of one transaction share a revision and arrive together and in order. */
export interface Change {
  readonly revision: number;
  readonly key: string;
  /** The new value; undefined when the key was deleted. */
  readonly value: unknown;
  /** True for the last change of its revision. */
  readonly last: boolean;
}

export type WatchItem = { readonly type: 'change'; readonly change: Change } | { readonly type: 'compacted' };

export interface Lease extends AsyncDisposable {
  readonly id: string;
  /** Aborted when the lease is lost. */
  readonly lost: AbortSignal;
}

/**
 * Versioned documents. Keys are slash-separated paths such as `/instances/default/c1`.
 * An acknowledged `transact` survives a power cut. All methods reject with `unavailable` after `dispose`.
 */
export interface Store extends AsyncDisposable {
  get(key: string): Promise<Versioned | undefined>;
  /** Every document whose key starts with `prefix`, sorted by key, with the store's current revision. */
  list(prefix: string): Promise<{ entries: Versioned[]; revision: number }>;
  /** All writes or none; not committed when a check fails. */
  transact(checks: readonly Check[], writes: readonly Write[]): Promise<TransactResult>;
  /** Changes after `fromRevision`, in order, until `signal` aborts; `compacted` means: list again. */
  watch(prefix: string, fromRevision: number, signal: AbortSignal): AsyncIterable<WatchItem>;
  lease(ttlMs: number): Promise<Lease>;
}
