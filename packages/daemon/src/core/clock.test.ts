import { describe, expect, it } from 'vitest';
import { ManualClock, SystemClock, formatNano, timestamp } from './clock.ts';

describe('clock', () => {
  it.each([
    [0n, '1970-01-01T00:00:00Z'],
    [1_616_622_278_000_000_000n, '2021-03-24T21:44:38Z'],
    [1_616_622_278_753_398_689n, '2021-03-24T21:44:38.753398689Z'],
    [1_616_622_278_100_000_000n, '2021-03-24T21:44:38.1Z'],
    [1_616_622_278_000_000_010n, '2021-03-24T21:44:38.00000001Z'],
  ])('formats %s ns as %s', (nanoseconds, text) => {
    expect(formatNano(nanoseconds)).toBe(text);
  });

  it('never goes back and agrees with the wall clock', () => {
    const clock = new SystemClock();
    let last = 0n;
    for (let count = 0; count < 1000; count += 1) {
      const next = clock.nanoseconds();
      expect(next).toBeGreaterThanOrEqual(last);
      last = next;
    }
    expect(Math.abs(Number(last / 1_000_000n) - Date.now())).toBeLessThan(1000);
  });

  it('moves by hand', () => {
    const clock = new ManualClock(0);
    clock.advance(1500.25);
    expect([clock.now(), timestamp(clock)]).toEqual([1500, '1970-01-01T00:00:01.50025Z']);
  });
});
