import { randomUUID } from 'node:crypto';
import { errors } from '../../core/errors.ts';
import { assertKey, decodeFrozen, encodeTransaction, type Revision } from '../documents.ts';
import { LocalLeases } from '../local-leases.ts';
import type { Check, Lease, Store, TransactResult, Versioned, WatchItem, Write } from '../store.ts';
import { WatchHub } from '../watch-hub.ts';

interface Document {
  readonly json: string;
  readonly revision: number;
}

/** A store that forgets everything when it is disposed; for tests and throw-away daemons. */
export class MemoryStore implements Store {
  readonly #documents = new Map<string, Document>();
  readonly #leases = new LocalLeases(randomUUID);
  readonly #hub = new WatchHub();
  readonly #historyLimit: number;
  #history: Revision[] = [];
  #revision = 0;
  #disposed = false;

  /** `history`: revisions a watch can start behind the current one. */
  constructor(options: { readonly history?: number } = {}) {
    this.#historyLimit = options.history ?? 1000;
  }

  async get(key: string): Promise<Versioned | undefined> {
    this.#assertOpen();
    assertKey(key);
    const document = this.#documents.get(key);
    return document && { key, value: JSON.parse(document.json), revision: document.revision };
  }

  async list(prefix: string): Promise<{ entries: Versioned[]; revision: number }> {
    this.#assertOpen();
    const entries = [...this.#documents]
      .filter(([key]) => key.startsWith(prefix))
      .sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
      .map(([key, { json, revision }]) => ({ key, value: JSON.parse(json) as unknown, revision }));
    return { entries, revision: this.#revision };
  }

  async transact(checks: readonly Check[], writes: readonly Write[]): Promise<TransactResult> {
    this.#assertOpen();
    const transaction = encodeTransaction(checks, writes);
    if (transaction.checks.some(({ key, revision }) => (this.#documents.get(key)?.revision ?? 0) !== revision)) {
      return { committed: false };
    }
    const effective = transaction.writes.filter(({ key, json }) => json !== undefined || this.#documents.has(key));
    if (effective.length === 0) {
      return { committed: true, revision: this.#revision };
    }
    const revision = ++this.#revision;
    const changes = effective.map(({ key, json }) => {
      if (json === undefined) {
        this.#documents.delete(key);
        return { key, value: undefined };
      }
      this.#documents.set(key, { json, revision });
      return { key, value: decodeFrozen(json) };
    });
    this.#history = [...this.#history, { revision, changes }].slice(-this.#historyLimit);
    this.#hub.publish({ revision, changes });
    return { committed: true, revision };
  }

  watch(prefix: string, fromRevision: number, signal: AbortSignal): AsyncIterable<WatchItem> {
    this.#assertOpen();
    return this.#hub.follow(prefix, () => this.#since(fromRevision), signal);
  }

  async lease(ttlMs: number): Promise<Lease> {
    this.#assertOpen();
    return this.#leases.grant(ttlMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    this.#leases.loseAll();
    this.#hub.close();
  }

  #since(revision: number): readonly Revision[] | 'compacted' {
    const oldest = this.#revision - this.#history.length;
    if (revision > this.#revision || revision < oldest) {
      return 'compacted';
    }
    return this.#history.slice(revision - oldest);
  }

  #assertOpen(): void {
    if (this.#disposed) {
      throw errors.unavailable('The state store is closed');
    }
  }
}
