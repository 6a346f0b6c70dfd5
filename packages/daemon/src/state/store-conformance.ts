import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { isKeelsonError } from '../core/errors.ts';
import type { Change, Check, Store, Write } from './store.ts';

export interface StoreHarness {
  /** A new, empty store that keeps about `history` revisions for watches; disposed by the suite. */
  create(options: { readonly history: number }): Promise<Store>;
}

/** What every store promises. One line in a store's own test: `describeStore('memory', harness)`. */
export function describeStore(name: string, harness: StoreHarness): void {
  describe(`store ${name}`, () => {
    const stores: Store[] = [];
    const create = async (history = 1000): Promise<Store> => {
      const store = await harness.create({ history });
      stores.push(store);
      return store;
    };
    afterEach(async () => {
      await Promise.all(stores.splice(0).map((store) => store[Symbol.asyncDispose]()));
    });
    describeDocuments(create);
    describeChecks(create);
    describeWatch(create);
    describeLife(create);
    describeModel(create);
  });
}

type Create = (history?: number) => Promise<Store>;

const put = (key: string, value: unknown): Write => ({ type: 'put', key, value });
const remove = (key: string): Write => ({ type: 'delete', key });

/** Commits or fails the test. Returns the revision. */
async function commit(store: Store, ...writes: Write[]): Promise<number> {
  const result = await store.transact([], writes);
  if (!result.committed) {
    throw new Error('a transaction without checks was not committed');
  }
  return result.revision;
}

const keys = async (store: Store, prefix: string): Promise<string[]> =>
  (await store.list(prefix)).entries.map((entry) => entry.key);

/** The next `count` changes of a watch; `'compacted'` ends the list. */
async function take(
  store: Store,
  watch: { prefix: string; from: number },
  count: number,
): Promise<(Change | 'compacted')[]> {
  const seen: (Change | 'compacted')[] = [];
  const stop = new AbortController();
  for await (const item of store.watch(watch.prefix, watch.from, stop.signal)) {
    seen.push(item.type === 'change' ? item.change : 'compacted');
    if (seen.length === count) {
      stop.abort();
    }
  }
  return seen;
}

function describeDocuments(create: Create): void {
  it('returns what was put, with the revision of its write', async () => {
    const store = await create();
    const value = { text: 'ä"\n', list: [1, null, { deep: true }], empty: {} };
    const revision = await commit(store, put('/a/1', value));
    expect(await store.get('/a/1')).toEqual({ key: '/a/1', value, revision });
    const next = await commit(store, put('/a/1', 'other'));
    expect(next).toBeGreaterThan(revision);
    expect(await store.get('/a/1')).toEqual({ key: '/a/1', value: 'other', revision: next });
  });

  it('has nothing at a key never written or deleted', async () => {
    const store = await create();
    expect(await store.get('/a')).toBeUndefined();
    await commit(store, put('/a', 1));
    await commit(store, remove('/a'));
    expect(await store.get('/a')).toBeUndefined();
    expect((await store.list('/')).entries).toEqual([]);
  });

  it('lists by prefix, sorted by key, and not what only looks alike', async () => {
    const store = await create();
    await commit(
      store,
      ...['/p/b', '/p/a', '/p', '/p/', '/p0', '/p/a/z', '/pp/a', '/p/~', '/p/ä', '/o/z'].map((key) => put(key, 1)),
    );
    expect(await keys(store, '/p/')).toEqual(['/p/', '/p/a', '/p/a/z', '/p/b', '/p/~', '/p/ä']);
    expect(await keys(store, '/p/a')).toEqual(['/p/a', '/p/a/z']);
    expect(await keys(store, '/none/')).toEqual([]);
    expect(await keys(store, '/')).toHaveLength(10);
  });

  it('lists with the current revision, also of an empty prefix', async () => {
    const store = await create();
    expect((await store.list('/')).revision).toBe(0);
    const revision = await commit(store, put('/a', 1));
    expect((await store.list('/none')).revision).toBe(revision);
  });

  it('is not changed by what happens to a value passed in or handed out', async () => {
    const store = await create();
    const value = { n: 1 };
    const done = store.transact([], [put('/a', value)]);
    value.n = 2;
    await done;
    const read = await store.get('/a');
    Object.assign(read?.value as object, { n: 3 });
    expect((await store.get('/a'))?.value).toEqual({ n: 1 });
  });

  it.each([
    ['a key without a leading slash', put('a', 1)],
    ['a key with a NUL', put('/a\0b', 1)],
    ['a key that is no Unicode text', put('/\ud800', 1)],
    ['no value', put('/a', undefined)],
    ['a value that is no document', put('/a', 1n)],
  ])('refuses %s', async (_name, write) => {
    const store = await create();
    await expect(store.transact([], [write])).rejects.toSatisfy((error) => isKeelsonError(error, 'bad-request'));
  });

  it('refuses two writes of one key', async () => {
    const store = await create();
    const transaction = store.transact([], [put('/a', 1), remove('/a')]);
    await expect(transaction).rejects.toSatisfy((error) => isKeelsonError(error, 'bad-request'));
    expect(await store.get('/a')).toBeUndefined();
  });
}

function describeChecks(create: Create): void {
  it('writes all or nothing', async () => {
    const store = await create();
    const revision = await commit(store, put('/a', 1));
    const lost = await store.transact([{ key: '/a', revision: revision - 1 }], [put('/a', 2), put('/b', 2)]);
    expect(lost).toEqual({ committed: false });
    expect(await store.list('/')).toEqual({ entries: [{ key: '/a', value: 1, revision }], revision });
    const won = await store.transact([{ key: '/a', revision }], [put('/a', 3), put('/b', 3)]);
    expect(won.committed).toBe(true);
    expect((await store.list('/')).entries.map((entry) => entry.value)).toEqual([3, 3]);
  });

  it('checks that a key does not exist with revision 0', async () => {
    const store = await create();
    const absent: Check = { key: '/a', revision: 0 };
    expect((await store.transact([absent], [put('/a', 1)])).committed).toBe(true);
    expect((await store.transact([absent], [put('/a', 2)])).committed).toBe(false);
    await commit(store, remove('/a'));
    expect((await store.transact([absent], [put('/a', 3)])).committed).toBe(true);
  });

  it('checks keys that it does not write', async () => {
    const store = await create();
    const revision = await commit(store, put('/guard', 1));
    expect((await store.transact([{ key: '/guard', revision }], [put('/a', 1)])).committed).toBe(true);
    await commit(store, put('/guard', 2));
    expect((await store.transact([{ key: '/guard', revision }], [put('/a', 2)])).committed).toBe(false);
  });

  it('lets one of many racing writers win', async () => {
    const store = await create();
    const revision = await commit(store, put('/a', 'start'));
    const results = await Promise.all(
      Array.from({ length: 20 }, (_, writer) => store.transact([{ key: '/a', revision }], [put('/a', writer)])),
    );
    expect(results.filter((result) => result.committed)).toHaveLength(1);
    const winner = results.findIndex((result) => result.committed);
    expect((await store.get('/a'))?.value).toBe(winner);
  });

  it('loses no increment of parallel writers that retry', async () => {
    const store = await create();
    await commit(store, put('/n', 0));
    const increment = async (): Promise<void> => {
      for (;;) {
        const current = await store.get('/n');
        const check = { key: '/n', revision: current?.revision ?? 0 };
        const result = await store.transact([check], [put('/n', Number(current?.value) + 1)]);
        if (result.committed) {
          return;
        }
      }
    };
    await Promise.all(Array.from({ length: 10 }, increment));
    expect((await store.get('/n'))?.value).toBe(10);
  });

  it('keeps the revision when nothing is written', async () => {
    const store = await create();
    const revision = await commit(store, put('/a', 1));
    expect(await store.transact([], [])).toEqual({ committed: true, revision });
    expect(await store.transact([], [remove('/none')])).toEqual({ committed: true, revision });
  });
}

function describeWatch(create: Create): void {
  it('replays from a revision, then follows', async () => {
    const store = await create();
    const first = await commit(store, put('/a/1', 1));
    const second = await commit(store, put('/a/2', 2));
    const seen = take(store, { prefix: '/a/', from: first }, 2);
    await Promise.resolve();
    const third = await commit(store, remove('/a/1'));
    expect(await seen).toEqual([
      { revision: second, key: '/a/2', value: 2, last: true },
      { revision: third, key: '/a/1', value: undefined, last: true },
    ]);
  });

  it('delivers a transaction together and in order, without keys outside the prefix', async () => {
    const store = await create();
    const seen = take(store, { prefix: '/a/', from: 0 }, 3);
    const first = await commit(store, put('/a/2', 1), put('/b/1', 1), put('/a/1', 1), put('/z', 1));
    const second = await commit(store, put('/b/2', 1), put('/a/3', 1));
    expect(await seen).toEqual([
      { revision: first, key: '/a/2', value: 1, last: false },
      { revision: first, key: '/a/1', value: 1, last: true },
      { revision: second, key: '/a/3', value: 1, last: true },
    ]);
  });

  it('shows every commit once to a watcher that starts in the middle of them', async () => {
    const store = await create();
    const commits = Array.from({ length: 50 }, (_, index) => commit(store, put(`/a/${index}`, index)));
    await commits[10];
    const seen = await take(store, { prefix: '/', from: 0 }, 50);
    const revisions = await Promise.all(commits);
    expect(seen.map((change) => change !== 'compacted' && change.revision)).toEqual(revisions);
  });

  it('says compacted when the history does not reach back, and ends', async () => {
    const store = await create(4);
    let revision = 0;
    for (let index = 0; index < 20; index += 1) {
      revision = await commit(store, put('/a', index));
    }
    expect(await take(store, { prefix: '/', from: 1 }, 5)).toEqual(['compacted']);
    expect(await take(store, { prefix: '/', from: revision - 2 }, 2)).toHaveLength(2);
  });

  it('says compacted for a revision that is still to come', async () => {
    const store = await create();
    expect(await take(store, { prefix: '/', from: 7 }, 5)).toEqual(['compacted']);
  });

  it('ends when the signal aborts while waiting', async () => {
    const store = await create();
    const stop = new AbortController();
    const iterator = store.watch('/', 0, stop.signal)[Symbol.asyncIterator]();
    const next = iterator.next();
    stop.abort();
    expect(await next).toEqual({ done: true, value: undefined });
  });
}

function describeLife(create: Create): void {
  it('grants leases that are lost with the store only', async () => {
    const store = await create();
    const [one, two] = [await store.lease(10_000), await store.lease(10_000)];
    expect(one.id).not.toBe(two.id);
    await one[Symbol.asyncDispose]();
    expect([one.lost.aborted, two.lost.aborted]).toEqual([true, false]);
    await store[Symbol.asyncDispose]();
    expect(two.lost.aborted).toBe(true);
    await expect(create().then((other) => other.lease(0))).rejects.toSatisfy((error) =>
      isKeelsonError(error, 'bad-request'),
    );
  });

  it('refuses everything after dispose, and ends its watches', async () => {
    const store = await create();
    const watch = take(store, { prefix: '/', from: 0 }, 100);
    await commit(store, put('/a', 1));
    await store[Symbol.asyncDispose]();
    await store[Symbol.asyncDispose]();
    expect(await watch).toHaveLength(1);
    const calls = [() => store.get('/a'), () => store.list('/'), () => store.transact([], []), () => store.lease(1000)];
    for (const call of calls) {
      await expect(call()).rejects.toSatisfy((error) => isKeelsonError(error, 'unavailable'));
    }
    expect(() => store.watch('/', 0, new AbortController().signal)).toThrow('closed');
  });

  it('finishes what it accepted before dispose', async () => {
    const store = await create();
    const accepted = Array.from({ length: 5 }, (_, index) => commit(store, put(`/a/${index}`, 1)));
    await store[Symbol.asyncDispose]();
    expect(await Promise.all(accepted)).toEqual([1, 2, 3, 4, 5]);
  });
}

const someKey = fc.constantFrom('/a', '/a/x', '/a/y', '/ab', '/b/x');
const someWrite = fc.oneof(
  fc.record({ type: fc.constant('put' as const), key: someKey, value: fc.jsonValue({ maxDepth: 2 }) }),
  fc.record({ type: fc.constant('delete' as const), key: someKey }),
);
/** A check is of the current revision, or wrong by `off`. */
const someTransaction = fc.record({
  checks: fc.array(fc.record({ key: someKey, off: fc.constantFrom(0, 0, 0, 1) }), { maxLength: 2 }),
  writes: fc.uniqueArray(someWrite, { maxLength: 4, selector: (write) => write.key }),
});

function describeModel(create: Create): void {
  it('behaves like a map with revisions under random transactions', { timeout: 60_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(someTransaction, { maxLength: 20 }), async (transactions) => {
        const store = await create();
        const model = new Map<string, { value: unknown; revision: number }>();
        let revision = 0;
        let changes = 0;
        for (const { checks, writes } of transactions) {
          const real = checks.map(({ key, off }) => ({ key, revision: (model.get(key)?.revision ?? 0) + off }));
          const result = await store.transact(real, writes);
          expect(result.committed).toBe(checks.every(({ off }) => off === 0));
          const effective = writes.filter((write) => write.type === 'put' || model.has(write.key));
          if (!result.committed || effective.length === 0) {
            continue;
          }
          revision += 1;
          changes += effective.length;
          expect(result.revision).toBe(revision);
          for (const write of effective) {
            if (write.type === 'put') {
              model.set(write.key, { value: JSON.parse(JSON.stringify(write.value)), revision });
            } else {
              model.delete(write.key);
            }
          }
        }
        const wanted = [...model]
          .map(([key, document]) => ({ key, ...document }))
          .sort((a, b) => (a.key < b.key ? -1 : 1));
        expect(await store.list('/')).toEqual({ entries: wanted, revision });
        expect(await replay(store, changes)).toEqual(new Map(wanted.map(({ key, value }) => [key, value])));
        await store[Symbol.asyncDispose]();
      }),
      { numRuns: 25 },
    );
  });
}

/** The documents as a watch from the beginning tells them. */
async function replay(store: Store, changes: number): Promise<Map<string, unknown>> {
  const documents = new Map<string, unknown>();
  for (const change of changes === 0 ? [] : await take(store, { prefix: '/', from: 0 }, changes)) {
    if (change === 'compacted') {
      throw new Error('compacted');
    }
    if (change.value === undefined) {
      documents.delete(change.key);
    } else {
      documents.set(change.key, change.value);
    }
  }
  return documents;
}
