import { describe, expect, it } from 'vitest';
import { Coalesce } from './coalesce.ts';

describe('Coalesce', () => {
  it('shares one further run among all that come while one runs', async () => {
    const coalesce = new Coalesce();
    const gate = Promise.withResolvers<void>();
    let runs = 0;
    let at = 0;
    const work = async (): Promise<void> => {
      runs++;
      expect(++at).toBe(1);
      await gate.promise;
      at--;
    };
    const all = [1, 2, 3, 4].map(() => coalesce.run('a', work));
    const other = coalesce.run('b', async () => undefined);
    await other;
    expect(runs).toBe(1);
    gate.resolve();
    await Promise.all(all);
    expect(runs).toBe(2);
    await coalesce.run('a', work);
    expect(runs).toBe(3);
  });

  it('tells a failure to those it concerns only', async () => {
    const coalesce = new Coalesce();
    const first = coalesce.run('a', () => Promise.reject(new Error('no')));
    const second = coalesce.run('a', () => Promise.resolve());
    await expect(first).rejects.toThrow('no');
    await second;
  });
});
