import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { retry, sleep } from './retry.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('retry', () => {
  it('tries again with doubled pauses until it succeeds', async () => {
    const at: number[] = [];
    const start = Date.now();
    const result = retry(
      async (attempt) => {
        at.push(Date.now() - start);
        if (attempt < 5) throw new Error('not yet');
        return attempt;
      },
      { attempts: 9, delay: 100, maxDelay: 300 },
    );
    await vi.runAllTimersAsync();
    expect(await result).toBe(5);
    expect(at).toEqual([0, 100, 300, 600, 900]);
  });

  it('rejects with the last error after all attempts, or with the first that cannot be retried', async () => {
    const failing = (options: { retryable?: () => boolean }): Promise<string> => {
      let count = 0;
      const result = retry<string>(
        () => {
          count += 1;
          return Promise.reject(new Error(`failure ${count}`));
        },
        { attempts: 3, delay: 1, ...options },
      );
      return result.catch((error: Error) => error.message);
    };
    const outcomes = Promise.all([failing({}), failing({ retryable: () => false })]);
    await vi.runAllTimersAsync();
    expect(await outcomes).toEqual(['failure 3', 'failure 1']);
  });

  it('stops when aborted, also while pausing', async () => {
    const stop = new AbortController();
    let calls = 0;
    const work = (): Promise<never> => {
      calls += 1;
      return Promise.reject(new Error('no'));
    };
    const result = retry(work, { attempts: 9, delay: 1000, signal: stop.signal });
    await Promise.resolve();
    setTimeout(() => stop.abort(new Error('stopped')), 500);
    const [outcome] = await Promise.all([
      result.catch((error: Error) => error.message),
      vi.advanceTimersByTimeAsync(500),
    ]);
    expect(outcome).toBe('stopped');
    expect(calls).toBe(1);
    await expect(sleep(1, stop.signal)).rejects.toThrow('stopped');
    expect(vi.getTimerCount()).toBe(0);
  });
});
