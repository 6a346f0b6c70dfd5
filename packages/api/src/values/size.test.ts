import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { bitRate, formatSize, memoryLimit, parseBits, parseMemoryLimit, parseSize, size } from './size.ts';

const units: Readonly<Record<string, number>> = {
  '': 1,
  B: 1,
  ' bytes': 1,
  kB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};

describe('parseSize', () => {
  test('multiplies whole numbers by their unit', () => {
    fc.assert(
      fc.property(fc.nat(1000), fc.constantFrom(...Object.keys(units)), (count, unit) => {
        expect(parseSize(`${count}${unit}`)).toEqual({ ok: true, value: count * (units[unit] ?? 0) });
      }),
    );
  });

  test('never throws and never answers with anything but a whole number', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const parsed = parseSize(text);
        expect(parsed.ok ? Number.isInteger(parsed.value) && parsed.value >= 0 : parsed.message !== '').toBe(true);
      }),
    );
  });

  test('an empty text is 0', () => {
    expect(parseSize('')).toEqual({ ok: true, value: 0 });
  });

  test.each([
    ['1K', 'Invalid value: 1K'],
    ['1KB', 'Invalid value: 1KB'],
    ['1 GB', 'Invalid value: 1 GB'],
    ['1.5GB', 'Invalid value: 1.5GB'],
    ['-1', 'Invalid value: -1'],
    ['GiB', 'Invalid value: GiB'],
    ['5GiB\n', 'Invalid value: 5GiB\n'],
    ['9EiB', 'Overflow multiplying 9 with 1152921504606846976'],
    ['99999999999999999999', 'Invalid integer: 99999999999999999999'],
  ])('refuses %j', (text, message) => {
    expect(parseSize(text)).toEqual({ ok: false, message });
    expect(size.check(text)).toBe(message);
  });
});

describe('parseBits', () => {
  test('reads rates', () => {
    expect(parseBits('10Mbit')).toEqual({ ok: true, value: 10_000_000 });
    expect(parseBits('1Gibit')).toEqual({ ok: true, value: 2 ** 30 });
    expect(bitRate.check('10MB')).toBe('Invalid value: 10MB');
  });
});

describe('memory limits', () => {
  test('are sizes or percentages, not zero', () => {
    expect(memoryLimit.check('50%')).toBeUndefined();
    expect(memoryLimit.check('512MiB')).toBeUndefined();
    expect(memoryLimit.check('0')).toBe("Memory limit can't be 0");
    expect(memoryLimit.check('0%')).toBe("Memory limit can't be 0%");
    expect(memoryLimit.check('x%')).toBe('strconv.ParseInt: parsing "x": invalid syntax');
  });

  test('percentages are of the total', () => {
    expect(parseMemoryLimit('50%', 1000)).toBe(500);
    expect(parseMemoryLimit('1kB', 5)).toBe(1000);
    expect(parseMemoryLimit('', 5)).toBeUndefined();
  });
});

test('formatSize uses powers of 1000 and two digits', () => {
  expect([0, 999, 1000, 25_720_000, 8.45e9].map(formatSize)).toEqual(['0B', '999B', '1.00kB', '25.72MB', '8.45GB']);
});
