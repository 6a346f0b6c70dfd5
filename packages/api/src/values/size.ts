import type { ValueType } from './value-type.ts';

const byteUnits = unitTable('B', { kB: 1, MB: 2, GB: 3, TB: 4, PB: 5, EB: 6 }, [
  'KiB',
  'MiB',
  'GiB',
  'TiB',
  'PiB',
  'EiB',
]);
const bitUnits = unitTable('bit', { kbit: 1, Mbit: 2, Gbit: 3, Tbit: 4, Pbit: 5, Ebit: 6 }, [
  'Kibit',
  'Mibit',
  'Gibit',
  'Tibit',
  'Pibit',
  'Eibit',
]);
const int64Max = 2n ** 63n - 1n;

/** A size read from text, or the reason it cannot be. */
export type ParsedSize =
  | { readonly ok: true; readonly value: number }
  | { readonly ok: false; readonly message: string };

/**
 * Bytes of a size such as `5GiB`, `10GB`, `512MB`, `64kB`, `1024`, `1024 bytes`; an empty text is 0. Units are written
 * exactly so, whole numbers only. Sizes beyond 2^53 lose their last digits.
 */
export function parseSize(text: string): ParsedSize {
  return parse(text, byteUnits);
}

/** Bits (per second) of a rate such as `10Mbit` or `1Gibit`; an empty text is 0. */
export function parseBits(text: string): ParsedSize {
  return parse(text, bitUnits);
}

/** Bytes as people read them, in powers of 1000 (`1.50GB`) as progress texts show them. */
export function formatSize(bytes: number): string {
  let value = bytes;
  for (const unit of ['B', 'kB', 'MB', 'GB', 'TB', 'PB']) {
    if (value < 1000) {
      return unit === 'B' ? `${value}B` : `${value.toFixed(2)}${unit}`;
    }
    value /= 1000;
  }
  return `${value.toFixed(2)}EB`;
}

export const size: ValueType = {
  name: 'size',
  check: (value) => {
    const parsed = parseSize(value);
    return parsed.ok ? undefined : parsed.message;
  },
};

export const bitRate: ValueType = {
  name: 'bit rate',
  check: (value) => {
    const parsed = parseBits(value);
    return parsed.ok ? undefined : parsed.message;
  },
};

/** Memory limit: a size, or a share of the host's memory such as `50%`. */
export const memoryLimit: ValueType = {
  name: 'size or percentage',
  check: (value) => {
    if (value.endsWith('%')) {
      const digits = value.slice(0, -1);
      if (!/^[+-]?\d+$/.test(digits)) {
        return `strconv.ParseInt: parsing ${JSON.stringify(digits)}: invalid syntax`;
      }
      return Number(digits) === 0 ? "Memory limit can't be 0%" : undefined;
    }
    const parsed = parseSize(value);
    if (!parsed.ok) {
      return parsed.message;
    }
    return parsed.value === 0 ? "Memory limit can't be 0" : undefined;
  },
};

/** Bytes of a memory limit; percentages are of `total` bytes. Undefined for an empty or invalid text. */
export function parseMemoryLimit(text: string, total: number): number | undefined {
  if (text === '' || memoryLimit.check(text) !== undefined) {
    return undefined;
  }
  if (text.endsWith('%')) {
    return Math.floor((total / 100) * Number(text.slice(0, -1)));
  }
  const parsed = parseSize(text);
  return parsed.ok ? parsed.value : undefined;
}

function unitTable(base: string, decimal: Readonly<Record<string, number>>, binary: readonly string[]) {
  const table = new Map<string, bigint>([
    ['', 1n],
    [base, 1n],
  ]);
  if (base === 'B') {
    table.set(' bytes', 1n);
  }
  for (const [unit, power] of Object.entries(decimal)) {
    table.set(unit, 1000n ** BigInt(power));
  }
  binary.forEach((unit, index) => table.set(unit, 1024n ** BigInt(index + 1)));
  return table;
}

function parse(text: string, units: ReadonlyMap<string, bigint>): ParsedSize {
  if (text === '') {
    return { ok: true, value: 0 };
  }
  const match = /^(\d+)(.*)$/s.exec(text);
  const factor = units.get(match?.[2] ?? '');
  if (match === null || factor === undefined) {
    return { ok: false, message: `Invalid value: ${text}` };
  }
  const count = BigInt(match[1] ?? '0');
  if (count > int64Max) {
    return { ok: false, message: `Invalid integer: ${match[1]}` };
  }
  if (count * factor > int64Max) {
    return { ok: false, message: `Overflow multiplying ${count} with ${factor}` };
  }
  return { ok: true, value: Number(count * factor) };
}
