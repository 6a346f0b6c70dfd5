import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { expiresAt, expiry, parseExpiry } from './expiry.ts';

const from = new Date('2026-01-31T10:00:00Z');

describe('expiry', () => {
  test('reads each unit once, in any order', () => {
    const part = fc.tuple(fc.nat(99_999), fc.constantFrom('M', 'H', 'd', 'w', 'm', 'y'));
    fc.assert(
      fc.property(fc.uniqueArray(part, { selector: ([, unit]) => unit, minLength: 1 }), (parts) => {
        const text = parts.map(([count, unit]) => `${count}${unit}`).join(' ');
        expect(parseExpiry(text)).toEqual(Object.fromEntries(parts.map(([count, unit]) => [unit, count])));
      }),
    );
  });

  test.each(['1D', '1 d', '1d  2H', '1d 2d', '1m1d', 'd', '-1d', '1.5d', '1d\n2H', '9999999999d'])(
    'refuses %j',
    (text) => {
      expect(expiry.check(text)).toBe('Invalid expiry expression');
      expect(expiresAt(text, from)).toBeUndefined();
    },
  );

  test('an empty text never expires', () => {
    expect(expiry.check('')).toBeUndefined();
    expect(expiresAt('', from)).toBeUndefined();
  });

  test.each([
    ['30M', '2026-01-31T10:30:00.000Z'],
    ['2H 1d', '2026-02-01T12:00:00.000Z'],
    ['1w', '2026-02-07T10:00:00.000Z'],
    ['1m', '2026-03-03T10:00:00.000Z'],
    ['1y', '2027-01-31T10:00:00.000Z'],
  ])('%s after the end of January is %s', (text, expected) => {
    expect(expiresAt(text, from)?.toISOString()).toBe(expected);
  });

  test('a time beyond the calendar never comes', () => {
    expect(expiresAt('999999999y', from)).toBeUndefined();
  });
});
