import { randomUUID } from 'node:crypto';
import { type FileHandle, chmod, mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { errors, isKeelsonError } from '../../core/errors.ts';
import { assertKey, decodeFrozen, encodeTransaction, type EncodedTransaction, type Revision } from '../documents.ts';
import { LocalLeases } from '../local-leases.ts';
import type { Check, Lease, Store, TransactResult, Versioned, WatchItem, Write } from '../store.ts';
import { WatchHub } from '../watch-hub.ts';
import { prepareDatabase } from './schema.ts';

export interface SqliteStoreOptions {
  /** Database file; its folder is made when it is missing. */
  readonly file: string;
  /** Revisions a watch can start behind the current one. Default 1000. */
  readonly history?: number;
  /** Brings what was written to the log onto the disk. Default: fdatasync. */
  readonly sync?: (log: FileHandle) => Promise<void>;
}

/** Transactions that share one commit at most. */
const batchLimit = 256;
/** Revisions between two trims of the history. */
const trimStep = 256;

/**
 * Opens the store of a single node.
 * @throws unavailable when another process has it open, or it cannot be read.
 */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store> {
  const folder = dirname(options.file);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await createPrivateFile(options.file);
  const database = new DatabaseSync(options.file, { timeout: 0 });
  try {
    prepareDatabase(database, options.file);
    const log = await open(`${options.file}-wal`, 'r+');
    await log.datasync();
    await syncFolder(folder);
    return new SqliteStore(database, log, options);
  } catch (error) {
    database.close();
    throw isKeelsonError(error) ? error : openFailure(options.file, error);
  }
}

/**
 * Made first with its mode: SQLite gives the log the same. A file that is there is never opened here, because closing it
 * would drop the locks this process holds on it.
 */
async function createPrivateFile(file: string): Promise<void> {
  try {
    await (await open(file, 'wx', 0o600)).close();
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
    await chmod(file, 0o600);
  }
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function openFailure(file: string, error: unknown): Error {
  const reason = error instanceof Error ? error.message : String(error);
  return reason.includes('locked')
    ? errors.unavailable(`The state database ${file} is in use by another daemon`, error)
    : errors.unavailable(`Cannot open the state database ${file}: ${reason}`, error);
}

interface Pending {
  readonly transaction: EncodedTransaction;
  readonly resolve: (result: TransactResult) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Transactions that arrive while a sync is under way share the next commit, so parallel writers share syncs.
 * Nobody sees a revision (reader, watcher or writer) before it is on the disk.
 */
class SqliteStore implements Store {
  readonly #database: DatabaseSync;
  readonly #log: FileHandle;
  readonly #history: number;
  readonly #syncLog: (log: FileHandle) => Promise<void>;
  readonly #statements: Statements;
  readonly #hub = new WatchHub();
  readonly #leases = new LocalLeases(randomUUID);
  #queue: Pending[] = [];
  #pump: Promise<void> | undefined;
  /** Newest committed revision; `#durable` trails it while a sync is under way. */
  #revision: number;
  #durable: number;
  #sync: Promise<void> = Promise.resolve();
  #failure: Error | undefined;
  #disposed: Promise<void> | undefined;

  constructor(database: DatabaseSync, log: FileHandle, options: SqliteStoreOptions) {
    this.#database = database;
    this.#log = log;
    this.#history = options.history ?? 1000;
    this.#syncLog = options.sync ?? ((handle) => handle.datasync());
    this.#statements = prepareStatements(database);
    this.#revision = numberOf(this.#statements.revision.get(), 'revision');
    this.#durable = this.#revision;
  }

  async get(key: string): Promise<Versioned | undefined> {
    this.#assertOpen();
    assertKey(key);
    const row = this.#statements.get.get(key);
    await this.#settled();
    return row && versioned(row);
  }

  async list(prefix: string): Promise<{ entries: Versioned[]; revision: number }> {
    this.#assertOpen();
    const entries: Versioned[] = [];
    for (const row of this.#statements.list.iterate(prefix)) {
      if (!String(row['key']).startsWith(prefix)) {
        break;
      }
      entries.push(versioned(row));
    }
    const revision = this.#revision;
    await this.#settled();
    return { entries, revision };
  }

  async transact(checks: readonly Check[], writes: readonly Write[]): Promise<TransactResult> {
    this.#assertOpen();
    const transaction = encodeTransaction(checks, writes);
    return new Promise((resolve, reject) => {
      this.#queue.push({ transaction, resolve, reject });
      this.#pump ??= this.#run();
    });
  }

  watch(prefix: string, fromRevision: number, signal: AbortSignal): AsyncIterable<WatchItem> {
    this.#assertOpen();
    return this.#hub.follow(prefix, () => this.#since(fromRevision), signal);
  }

  async lease(ttlMs: number): Promise<Lease> {
    this.#assertOpen();
    return this.#leases.grant(ttlMs);
  }

  /** Finishes what was accepted, then closes. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#disposed ??= this.#close();
    return this.#disposed;
  }

  async #close(): Promise<void> {
    await this.#pump;
    this.#leases.loseAll();
    this.#hub.close();
    await this.#log.close();
    this.#database.close();
  }

  async #run(): Promise<void> {
    // Writers of the same turn join the first batch.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      const batch = this.#queue.splice(0, batchLimit);
      try {
        await this.#commitBatch(batch);
      } catch (error) {
        for (const pending of batch) {
          pending.reject(error);
        }
      }
    }
    this.#pump = undefined;
  }

  async #commitBatch(batch: readonly Pending[]): Promise<void> {
    this.#assertHealthy();
    const { results, revisions } = this.#apply(batch.map(({ transaction }) => transaction));
    if (revisions.length > 0) {
      this.#sync = this.#syncLog(this.#log);
      await this.#sync.catch((error: unknown) => this.#fail(error));
      this.#durable = this.#revision;
      for (const revision of revisions) {
        this.#hub.publish(revision);
      }
    }
    for (const [index, result] of results.entries()) {
      batch[index]?.resolve(result);
    }
  }

  /** One SQLite transaction for the whole batch. @throws unavailable with nothing written. */
  #apply(transactions: readonly EncodedTransaction[]): { results: TransactResult[]; revisions: Revision[] } {
    const before = this.#revision;
    const revisions: Revision[] = [];
    try {
      this.#database.exec('BEGIN IMMEDIATE');
      const results = transactions.map((transaction) => this.#applyOne(transaction, revisions));
      if (Math.floor(before / trimStep) !== Math.floor(this.#revision / trimStep) || this.#history < trimStep) {
        this.#statements.trim.run(this.#revision - this.#history);
      }
      this.#database.exec('COMMIT');
      return { results, revisions };
    } catch (error) {
      this.#revision = before;
      if (this.#database.isTransaction) {
        this.#database.exec('ROLLBACK');
      }
      const reason = error instanceof Error ? error.message : String(error);
      throw errors.unavailable(`Cannot write the state database: ${reason}`, error);
    }
  }

  #applyOne({ checks, writes }: EncodedTransaction, revisions: Revision[]): TransactResult {
    if (checks.some(({ key, revision }) => this.#revisionOf(key) !== revision)) {
      return { committed: false };
    }
    const effective = writes.filter(({ key, json }) => json !== undefined || this.#revisionOf(key) !== 0);
    if (effective.length === 0) {
      return { committed: true, revision: this.#revision };
    }
    const revision = ++this.#revision;
    for (const [position, { key, json }] of effective.entries()) {
      if (json === undefined) {
        this.#statements.delete.run(key);
      } else {
        this.#statements.put.run(key, json, revision);
      }
      this.#statements.log.run(revision, position, key, json ?? null);
    }
    const changes = effective.map(({ key, json }) => ({
      key,
      value: json === undefined ? undefined : decodeFrozen(json),
    }));
    revisions.push({ revision, changes });
    return { committed: true, revision };
  }

  #revisionOf(key: string): number {
    return numberOf(this.#statements.check.get(key), 'revision');
  }

  #since(from: number): readonly Revision[] | 'compacted' {
    const oldest = numberOf(this.#statements.oldest.get(), 'revision');
    if (from > this.#durable || (from < this.#durable && from + 1 < oldest)) {
      return 'compacted';
    }
    const revisions: { revision: number; changes: { key: string; value: unknown }[] }[] = [];
    // What is not durable yet comes when it is published.
    for (const row of this.#statements.since.iterate(from, this.#durable)) {
      const revision = numberOf(row, 'revision');
      const json = row['value'];
      const change = { key: String(row['key']), value: typeof json === 'string' ? decodeFrozen(json) : undefined };
      const newest = revisions.at(-1);
      if (newest?.revision === revision) {
        newest.changes.push(change);
      } else {
        revisions.push({ revision, changes: [change] });
      }
    }
    return revisions;
  }

  /** What was read may be committed and not yet synced: it is returned when it is. */
  async #settled(): Promise<void> {
    if (this.#durable !== this.#revision) {
      await this.#sync.catch(() => undefined);
    }
    this.#assertHealthy();
  }

  /** After a failed sync nobody knows what the disk holds: the store stops for good. */
  #fail(error: unknown): never {
    const reason = error instanceof Error ? error.message : String(error);
    this.#failure = errors.unavailable(`Cannot sync the state database: ${reason}`, error);
    this.#leases.loseAll();
    this.#hub.close(this.#failure);
    throw this.#failure;
  }

  #assertOpen(): void {
    this.#assertHealthy();
    if (this.#disposed !== undefined) {
      throw errors.unavailable('The state store is closed');
    }
  }

  #assertHealthy(): void {
    if (this.#failure !== undefined) {
      throw this.#failure;
    }
  }
}

type Statements = Record<
  'get' | 'list' | 'check' | 'put' | 'delete' | 'log' | 'trim' | 'revision' | 'oldest' | 'since',
  StatementSync
>;

function prepareStatements(database: DatabaseSync): Statements {
  const prepare = (sql: string) => database.prepare(sql);
  return {
    get: prepare('SELECT key, value, revision FROM documents WHERE key = ?'),
    list: prepare('SELECT key, value, revision FROM documents WHERE key >= ? ORDER BY key'),
    check: prepare('SELECT revision FROM documents WHERE key = ?'),
    put: prepare(
      'INSERT INTO documents (key, value, revision) VALUES (?, ?, ?)' +
        ' ON CONFLICT (key) DO UPDATE SET value = excluded.value, revision = excluded.revision',
    ),
    delete: prepare('DELETE FROM documents WHERE key = ?'),
    log: prepare('INSERT INTO changes (revision, position, key, value) VALUES (?, ?, ?, ?)'),
    trim: prepare('DELETE FROM changes WHERE revision <= ?'),
    revision: prepare('SELECT max(revision) AS revision FROM changes'),
    oldest: prepare('SELECT min(revision) AS revision FROM changes'),
    since: prepare(
      'SELECT revision, key, value FROM changes WHERE revision > ? AND revision <= ? ORDER BY revision, position',
    ),
  };
}

type Row = NonNullable<ReturnType<StatementSync['get']>>;

/** An integer column; 0 when there is no row or no value. */
function numberOf(row: Row | undefined, column: string): number {
  const value = row?.[column];
  return typeof value === 'number' ? value : 0;
}

function versioned(row: Row): Versioned {
  return {
    key: String(row['key']),
    value: JSON.parse(String(row['value'])) as unknown,
    revision: numberOf(row, 'revision'),
  };
}
