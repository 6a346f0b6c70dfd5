import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isKeelsonError } from '../core/errors.ts';
import type { Ledger } from './collection.ts';
import { createLedger } from './ledger.ts';
import { MemoryStore } from './memory/memory-store.ts';
import type { Store } from './store.ts';

interface Thing {
  readonly n: number;
  readonly deep?: { readonly list: readonly number[] };
}

let store: Store;
let ledger: Ledger;

beforeEach(async () => {
  store = new MemoryStore();
  await store.transact([], [{ type: 'put', key: '/things/old', value: { n: 0 } }]);
  ledger = await createLedger(store);
});
afterEach(async () => {
  await ledger[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
});

const things = () => ledger.collection<Thing>('/things/');
/** Another daemon of the same store. */
const outside = (key: string, value: unknown) => store.transact([], [{ type: 'put', key, value }]);
const eventually = async (holds: () => boolean): Promise<void> => {
  for (let tries = 0; tries < 1000 && !holds(); tries += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(holds()).toBe(true);
};

describe('ledger', () => {
  it('knows what was there, and its own writes when they resolve', async () => {
    expect(things().get('old')?.value).toEqual({ n: 0 });
    const created = await things().create('a', { n: 1 });
    expect(things().get('a')).toEqual(created);
    const updated = await things().update('a', ({ n }) => ({ n: n + 1 }));
    expect(updated).toMatchObject({ key: '/things/a', value: { n: 2 } });
    expect(updated.revision).toBeGreaterThan(created.revision);
    expect(things().get('a')).toEqual(updated);
    expect(await things().delete('a')).toBe(true);
    expect(things().get('a')).toBeUndefined();
    expect(await things().delete('a')).toBe(false);
  });

  it('refuses to create what exists and to update what does not', async () => {
    await expect(things().create('old', { n: 1 })).rejects.toSatisfy((error) => isKeelsonError(error, 'conflict'));
    await expect(things().update('none', (value) => value)).rejects.toSatisfy((error) =>
      isKeelsonError(error, 'not-found'),
    );
  });

  it('hands out one collection per prefix and keeps prefixes apart', async () => {
    expect(ledger.collection('/things/')).toBe(things());
    await ledger.collection('/things2/').create('x', 1);
    expect(things().list()).toHaveLength(1);
  });

  it('lists sorted by id below a prefix, and the same array until something there changes', async () => {
    for (const id of ['p2/a', 'p1/b', 'p1/a', 'p10/a']) {
      await things().create(id, { n: 1 });
    }
    const ids = (prefix?: string) =>
      things()
        .list(prefix)
        .map((entry) => entry.key.slice('/things/'.length));
    expect(ids()).toEqual(['old', 'p1/a', 'p1/b', 'p10/a', 'p2/a']);
    expect(ids('p1/')).toEqual(['p1/a', 'p1/b']);
    const [first, other, revision] = [things().list('p1/'), things().list('p2/'), things().revision];
    expect(things().list('p1/')).toBe(first);
    await things().update('p1/a', () => ({ n: 2 }));
    expect(things().list('p1/')).not.toBe(first);
    expect(things().list('p1/')[0]?.value).toEqual({ n: 2 });
    expect(things().list('p2/')).toBe(other);
    expect(things().revision).toBeGreaterThan(revision);
  });

  it('freezes what it hands out', async () => {
    await things().create('a', { n: 1, deep: { list: [1] } });
    const value = things().get('a')?.value;
    expect(() => Object.assign(value ?? {}, { n: 2 })).toThrow();
    expect(() => Object.assign(value?.deep?.list ?? [], [2])).toThrow();
    expect(() => Object.assign(things().get('old')?.value ?? {}, { n: 2 })).toThrow();
    expect(() => Object.assign(things().list(), [])).not.toThrow();
    expect(Object.isFrozen(things().list())).toBe(true);
  });

  it('writes nothing when an update returns the same value', async () => {
    const before = things().get('old');
    expect(await things().update('old', (value) => value)).toBe(before);
    expect(things().get('old')).toBe(before);
  });

  it('applies an update again when another writer won', async () => {
    let calls = 0;
    const update = things().update('old', ({ n }) => {
      calls += 1;
      if (calls === 1) {
        void outside('/things/old', { n: 10 });
      }
      return { n: n + 1 };
    });
    expect((await update).value).toEqual({ n: 11 });
    expect(calls).toBe(2);
  });

  it('loses no update of many at once', async () => {
    await Promise.all(Array.from({ length: 20 }, () => things().update('old', ({ n }) => ({ n: n + 1 }))));
    expect(things().get('old')?.value.n).toBe(20);
  });

  it('tells subscribers after the view has the whole transaction, in order', async () => {
    const seen: unknown[] = [];
    const stop = things().subscribe(({ id, before, after }) => {
      seen.push([id, before?.n, after?.n, things().get('a')?.value.n, things().get('b')?.value.n]);
    });
    const failing = things().subscribe(() => {
      throw new Error('a bad listener');
    });
    await ledger.transact([], [things().put('a', { n: 1 }), things().put('b', { n: 2 })]);
    await things().update('a', () => ({ n: 3 }));
    await things().delete('b');
    expect(seen).toEqual([
      ['a', undefined, 1, 1, 2],
      ['b', undefined, 2, 1, 2],
      ['a', 1, 3, 3, 2],
      ['b', 2, undefined, 3, undefined],
    ]);
    stop();
    failing();
    await things().delete('a');
    expect(seen).toHaveLength(4);
  });

  it('checks records across collections', async () => {
    const others = ledger.collection<Thing>('/others/');
    const entry = things().get('old');
    await ledger.transact(
      [things().unchanged('old', entry), others.unchanged('x', undefined)],
      [others.put('x', { n: 1 })],
    );
    const again = ledger.transact(
      [others.unchanged('x', undefined)],
      [others.put('x', { n: 2 }), things().remove('old')],
    );
    await expect(again).rejects.toSatisfy((error) => isKeelsonError(error, 'conflict'));
    expect(things().get('old')).toBe(entry);
  });

  it('follows other writers of the store', async () => {
    await outside('/things/far', { n: 7 });
    await eventually(() => things().get('far')?.value.n === 7);
  });

  it('lists again when the history was compacted, and tells what changed', async () => {
    // The watch lags behind: it starts from a revision that a store with so short a history forgot.
    const short = new MemoryStore({ history: 1 });
    const forgetful: Store = {
      get: (key) => short.get(key),
      list: (prefix) => short.list(prefix),
      transact: (checks, writes) => short.transact(checks, writes),
      watch: (prefix, from, signal) => short.watch(prefix, Math.min(from, 1), signal),
      lease: (ttl) => short.lease(ttl),
      [Symbol.asyncDispose]: () => short[Symbol.asyncDispose](),
    };
    await short.transact([], [{ type: 'put', key: '/things/gone', value: { n: 1 } }]);
    const lagging = await createLedger(forgetful);
    const seen: unknown[] = [];
    const view = lagging.collection<Thing>('/things/');
    view.subscribe(({ id, after }) => seen.push([id, after?.n]));
    await short.transact([], [{ type: 'delete', key: '/things/gone' }]);
    await short.transact([], [{ type: 'put', key: '/things/new', value: { n: 2 } }]);
    await eventually(() => seen.length === 2);
    expect(seen).toEqual([
      ['gone', undefined],
      ['new', 2],
    ]);
    await lagging[Symbol.asyncDispose]();
    await short[Symbol.asyncDispose]();
  });

  it('does not hang a writer when it is closed', async () => {
    await ledger[Symbol.asyncDispose]();
    await expect(things().create('late', { n: 1 })).rejects.toSatisfy((error) => isKeelsonError(error, 'unavailable'));
  });
});
