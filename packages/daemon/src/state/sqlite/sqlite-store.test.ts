import { copyFile, mkdtemp, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as turn } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isKeelsonError } from '../../core/errors.ts';
import { describeStore } from '../store-conformance.ts';
import type { Store } from '../store.ts';
import { openSqliteStore } from './sqlite-store.ts';

let folder: string;
let count = 0;
const newFile = (): string => join(folder, `${(count += 1)}`, 'state.db');

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'keelson-sqlite-'));
});
afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

describeStore('sqlite', { create: async (options) => openSqliteStore({ ...options, file: newFile() }) });

const put = (store: Store, key: string, value: unknown) => store.transact([], [{ type: 'put', key, value }]);
const values = async (store: Store): Promise<unknown[]> => (await store.list('/')).entries.map(({ value }) => value);

describe('sqlite files', () => {
  it('keeps documents, revision and history over a reopen', async () => {
    const file = newFile();
    {
      await using store = await openSqliteStore({ file });
      await put(store, '/a', 1);
      await put(store, '/b', 2);
    }
    await using store = await openSqliteStore({ file });
    expect((await store.list('/')).revision).toBe(2);
    const stop = new AbortController();
    const first = await store.watch('/', 1, stop.signal)[Symbol.asyncIterator]().next();
    expect(first.value).toEqual({ type: 'change', change: { revision: 2, key: '/b', value: 2, last: true } });
    expect(await put(store, '/c', 3)).toEqual({ committed: true, revision: 3 });
  });

  it('has every acknowledged write after an abrupt end', async () => {
    const [file, copy] = [newFile(), newFile()];
    await using store = await openSqliteStore({ file });
    await openSqliteStore({ file: copy }).then((other) => other[Symbol.asyncDispose]());
    await Promise.all(
      Array.from({ length: 30 }, (_, index) => put(store, `/${String(index).padStart(2, '0')}`, index)),
    );
    // What lies on the disk at this instant, as after a kill.
    await copyFile(file, copy);
    await copyFile(`${file}-wal`, `${copy}-wal`);
    await using reopened = await openSqliteStore({ file: copy });
    expect(await values(reopened)).toEqual(Array.from({ length: 30 }, (_, index) => index));
  });

  it('drops a commit whose end is torn, and keeps those before it', async () => {
    const [file, copy] = [newFile(), newFile()];
    await using store = await openSqliteStore({ file });
    await openSqliteStore({ file: copy }).then((other) => other[Symbol.asyncDispose]());
    await put(store, '/a', 'kept');
    await copyFile(`${file}-wal`, `${copy}-wal`);
    const keptSize = (await stat(`${copy}-wal`)).size;
    await store.transact(
      [],
      [
        { type: 'put', key: '/a', value: 'torn' },
        { type: 'put', key: '/b', value: 'torn' },
      ],
    );
    await copyFile(file, copy);
    await copyFile(`${file}-wal`, `${copy}-wal`);
    await truncate(`${copy}-wal`, keptSize + 100);
    await using reopened = await openSqliteStore({ file: copy });
    expect(await values(reopened)).toEqual(['kept']);
  });

  it('refuses a second daemon', async () => {
    const file = newFile();
    await using store = await openSqliteStore({ file });
    await expect(openSqliteStore({ file })).rejects.toSatisfy(
      (error) => isKeelsonError(error, 'unavailable') && error.message.includes('in use by another daemon'),
    );
    expect(await put(store, '/a', 1)).toMatchObject({ committed: true });
  });

  it('refuses a database of a newer version and one that is none', async () => {
    const [newer, none] = [newFile(), newFile()];
    await openSqliteStore({ file: newer }).then((store) => store[Symbol.asyncDispose]());
    const database = new DatabaseSync(newer);
    database.exec('PRAGMA user_version = 99');
    database.close();
    await expect(openSqliteStore({ file: newer })).rejects.toThrow('schema version 99');
    await openSqliteStore({ file: none }).then((store) => store[Symbol.asyncDispose]());
    await writeFile(none, 'this is no database at all, but long enough to be looked at as one'.repeat(20));
    await expect(openSqliteStore({ file: none })).rejects.toThrow('Cannot open the state database');
  });

  it('is readable by its owner only', async () => {
    const file = newFile();
    await using store = await openSqliteStore({ file });
    await put(store, '/a', 1);
    const modes = await Promise.all([file, `${file}-wal`].map(async (path) => (await stat(path)).mode & 0o777));
    expect(modes).toEqual([0o600, 0o600]);
  });
});

describe('sqlite durability', () => {
  it('acknowledges and shows nothing before it is on the disk, and lets waiting writers share the next sync', async () => {
    const syncs: PromiseWithResolvers<void>[] = [];
    const sync = () => {
      const pending = Promise.withResolvers<void>();
      syncs.push(pending);
      return pending.promise;
    };
    await using store = await openSqliteStore({ file: newFile(), sync });
    const seen: string[] = [];
    const first = put(store, '/a', 1).then(() => seen.push('acknowledged'));
    await turn();
    const read = store.get('/a').then((found) => seen.push(`read ${String(found?.value)}`));
    const list = store.list('/').then(({ entries }) => seen.push(`list ${entries.length}`));
    const stop = new AbortController();
    const watch = store.watch('/', 0, stop.signal)[Symbol.asyncIterator]();
    const change = watch.next().then(() => seen.push('watched'));
    const others = [2, 3, 4, 5].map((value) => put(store, `/${value}`, value));
    await turn();
    expect([seen, syncs.length]).toEqual([[], 1]);
    syncs[0]?.resolve();
    await Promise.all([first, read, list, change]);
    expect(seen.toSorted()).toEqual(['acknowledged', 'list 1', 'read 1', 'watched']);
    await turn();
    expect(syncs).toHaveLength(2);
    syncs[1]?.resolve();
    expect((await Promise.all(others)).map((result) => result.committed && result.revision)).toEqual([2, 3, 4, 5]);
    stop.abort();
  });

  it('stops for good when a sync fails', async () => {
    let fails = false;
    const sync = async () => {
      if (fails) throw new Error('input/output error');
    };
    await using store = await openSqliteStore({ file: newFile(), sync });
    const unavailable = (error: unknown) =>
      isKeelsonError(error, 'unavailable') && error.message.includes('input/output error');
    await put(store, '/a', 1);
    const lease = await store.lease(1000);
    const watch = store.watch('/', 1, new AbortController().signal)[Symbol.asyncIterator]().next();
    fails = true;
    const [one, two, watched] = await Promise.allSettled([put(store, '/b', 1), put(store, '/c', 1), watch]);
    for (const outcome of [one, two, watched]) {
      expect(outcome.status === 'rejected' && unavailable(outcome.reason)).toBe(true);
    }
    fails = false;
    await expect(put(store, '/d', 1)).rejects.toSatisfy(unavailable);
    await expect(store.get('/a')).rejects.toSatisfy(unavailable);
    expect(lease.lost.aborted).toBe(true);
  });
});
