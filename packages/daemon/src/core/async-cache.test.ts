import { describe, expect, it } from 'vitest';
import { AsyncCache } from './async-cache.ts';

function create(maxEntries = 10) {
  const time = { now: 0 };
  const cache = new AsyncCache<number>({ ttl: 100, now: () => time.now, maxEntries });
  let calls = 0;
  const get = (key = 'a') => cache.get(key, async () => (calls += 1));
  return { time, cache, get };
}

describe('AsyncCache', () => {
  it('shares running work and remembers its result until it is too old', async () => {
    const { time, get } = create();
    expect(await Promise.all([get(), get()])).toEqual([1, 1]);
    time.now = 99;
    expect(await get()).toBe(1);
    expect(await get('b')).toBe(2);
    time.now = 100;
    expect(await get()).toBe(3);
  });

  it('tells a failure to those who waited, and tries again', async () => {
    const { cache, get } = create();
    const fail = () => Promise.reject(new Error('no'));
    const [one, two] = [cache.get('a', fail), cache.get('a', fail)];
    await expect(one).rejects.toThrow('no');
    await expect(two).rejects.toThrow('no');
    expect(await get()).toBe(1);
    await expect(
      cache.get('b', () => {
        throw new Error('at once');
      }),
    ).rejects.toThrow('at once');
  });

  it('forgets one key or all', async () => {
    const { cache, get } = create();
    await Promise.all([get('a'), get('b')]);
    cache.forget('a');
    expect([await get('a'), await get('b')]).toEqual([3, 2]);
    cache.forget();
    expect(await get('b')).toBe(4);
  });

  it('does not let old work that was forgotten replace newer', async () => {
    const { cache, get } = create();
    const slow = Promise.withResolvers<number>();
    const old = cache.get('a', () => slow.promise);
    cache.forget('a');
    expect(await get()).toBe(1);
    slow.reject(new Error('late'));
    await expect(old).rejects.toThrow('late');
    expect(await get()).toBe(1);
  });

  it('keeps a bounded number of keys', async () => {
    const { get } = create(2);
    await Promise.all(['a', 'b', 'c'].map((key) => get(key)));
    expect([await get('c'), await get('b'), await get('a')]).toEqual([3, 2, 4]);
  });
});
