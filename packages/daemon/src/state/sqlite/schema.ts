import type { DatabaseSync } from 'node:sqlite';
import { errors } from '../../core/errors.ts';

/** Version of the tables below, kept in `PRAGMA user_version`. */
const schemaVersion = 1;

/**
 * `changes` holds every write of the last revisions, so that a watch can start in the past. Its newest revision is
 * the store's revision; that is why it is never trimmed to nothing.
 */
const tables = `
  CREATE TABLE documents (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    revision INTEGER NOT NULL
  ) WITHOUT ROWID, STRICT;
  CREATE TABLE changes (
    revision INTEGER NOT NULL,
    position INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT,
    PRIMARY KEY (revision, position)
  ) WITHOUT ROWID, STRICT;
  PRAGMA user_version = ${schemaVersion};
`;

/**
 * Sets the connection up and creates the tables of a new database.
 *
 * `synchronous` is NORMAL: SQLite itself then syncs around checkpoints only. The store syncs the write-ahead log after
 * each commit and before it acknowledges, which promises the same as FULL without stopping the event loop for the disk.
 * `locking_mode` EXCLUSIVE keeps a second daemon out.
 * @throws unavailable when another process has it open or a newer version wrote it.
 */
export function prepareDatabase(database: DatabaseSync, file: string): void {
  database.exec(`
    PRAGMA locking_mode = EXCLUSIVE;
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    PRAGMA wal_autocheckpoint = 4000;
    PRAGMA journal_size_limit = 67108864;
  `);
  database.exec('BEGIN IMMEDIATE');
  const found = database.prepare('PRAGMA user_version').get()?.['user_version'];
  if (found === 0) {
    database.exec(tables);
  } else if (found !== schemaVersion) {
    database.exec('ROLLBACK');
    throw errors.unavailable(
      `The state database ${file} has schema version ${String(found)}; this daemon reads ${schemaVersion}`,
    );
  }
  database.exec('COMMIT');
}
