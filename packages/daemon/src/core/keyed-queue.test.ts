import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { KeyedQueue } from './keyed-queue.ts';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('KeyedQueue', () => {
  it('runs work of one key one after another, in the order asked', async () => {
    const queue = new KeyedQueue();
    const order: number[] = [];
    let running = 0;
    await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        queue.run({ exclusive: ['a'] }, async () => {
          running += 1;
          expect(running).toBe(1);
          await turn();
          order.push(index);
          running -= 1;
        }),
      ),
    );
    expect(order).toEqual(Array.from({ length: 20 }, (_, index) => index));
    expect(queue.isHeld('a')).toBe(false);
  });

  it('runs different keys at the same time', async () => {
    const queue = new KeyedQueue();
    const nested = queue.run({ exclusive: ['a'] }, () => queue.run({ exclusive: ['b'] }, turn));
    await expect(nested).resolves.toBeUndefined();
  });

  it('lets shared holders in together and keeps an exclusive one out until they leave', async () => {
    const queue = new KeyedQueue();
    const [one, two] = [await queue.acquire({ shared: ['a'] }), await queue.acquire({ shared: ['a'] })];
    let entered = false;
    const exclusive = queue.acquire({ exclusive: ['a'] }).then((held) => {
      entered = true;
      return held;
    });
    one[Symbol.dispose]();
    await turn();
    expect(entered).toBe(false);
    two[Symbol.dispose]();
    (await exclusive)[Symbol.dispose]();
    expect(queue.isHeld('a')).toBe(false);
  });

  it('does not let later shared requests overtake a waiting exclusive one', async () => {
    const queue = new KeyedQueue();
    const order: string[] = [];
    const first = await queue.acquire({ shared: ['a'] });
    const exclusive = queue.run({ exclusive: ['a'] }, () => order.push('exclusive'));
    const shared = queue.run({ shared: ['a'] }, () => order.push('shared'));
    expect(queue.tryAcquire({ shared: ['a'] })).toBeUndefined();
    first[Symbol.dispose]();
    await Promise.all([exclusive, shared]);
    expect(order).toEqual(['exclusive', 'shared']);
  });

  it('releases when work fails', async () => {
    const queue = new KeyedQueue();
    await expect(queue.run({ exclusive: ['a'] }, () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(queue.isHeld('a')).toBe(false);
  });

  it('gives up waiting when aborted, holding nothing and letting those behind go on', async () => {
    const queue = new KeyedQueue();
    const stop = new AbortController();
    const shared = await queue.acquire({ shared: ['b'] });
    const given = queue.acquire({ exclusive: ['a', 'b'], signal: stop.signal });
    const behind = queue.acquire({ shared: ['b'] });
    await turn();
    expect(queue.isHeld('a')).toBe(true);
    stop.abort(new Error('cancelled'));
    await expect(given).rejects.toThrow('cancelled');
    expect(queue.isHeld('a')).toBe(false);
    (await behind)[Symbol.dispose]();
    shared[Symbol.dispose]();
    await expect(queue.acquire({ exclusive: ['a'], signal: stop.signal })).rejects.toThrow('cancelled');
    expect(queue.isHeld('b')).toBe(false);
  });

  it('tries all keys or none', async () => {
    const queue = new KeyedQueue();
    const held = queue.tryAcquire({ exclusive: ['b'] });
    expect(queue.tryAcquire({ exclusive: ['a', 'b'] })).toBeUndefined();
    expect(queue.isHeld('a')).toBe(false);
    held?.[Symbol.dispose]();
    held?.[Symbol.dispose]();
    using both = queue.tryAcquire({ exclusive: ['a', 'b'] });
    expect(both).toBeDefined();
  });

  it('never deadlocks, mixes holders or leaves a lock behind, whatever is asked', async () => {
    const keys = fc.subarray(['a', 'b', 'c']);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ exclusive: keys, shared: keys, abort: fc.boolean() }), { maxLength: 20 }),
        async (requests) => {
          const queue = new KeyedQueue();
          const inside = new Map<string, number>();
          const enter = (held: readonly string[], by: number) => {
            for (const key of held) {
              inside.set(key, (inside.get(key) ?? 0) + by);
            }
          };
          const work = requests.map(async ({ exclusive, shared, abort }) => {
            const stop = new AbortController();
            const only = shared.filter((key) => !exclusive.includes(key));
            const done = queue.run({ exclusive, shared, signal: stop.signal }, async () => {
              expect(exclusive.every((key) => !inside.get(key))).toBe(true);
              enter(exclusive, 1000);
              enter(only, 1);
              await Promise.resolve();
              expect(only.every((key) => (inside.get(key) ?? 0) < 1000)).toBe(true);
              enter(exclusive, -1000);
              enter(only, -1);
            });
            if (abort) {
              stop.abort(new Error('gave up'));
            }
            return done.catch((error: Error) => expect(error.message).toBe('gave up'));
          });
          await Promise.all(work);
          expect(['a', 'b', 'c'].some((key) => queue.isHeld(key))).toBe(false);
        },
      ),
    );
  });
});
