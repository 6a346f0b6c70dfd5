import { quote, type ValueType } from './value-type.ts';

const int64Max = 2n ** 63n - 1n;
const int64Min = -(2n ** 63n);

/** Decimal integer of 64 bits; undefined when the text is none. */
export function parseInteger(value: string): bigint | undefined {
  if (!/^[+-]?\d+$/.test(value)) {
    return undefined;
  }
  const number = BigInt(value.startsWith('+') ? value.slice(1) : value);
  return number < int64Min || number > int64Max ? undefined : number;
}

/** Whole number of 64 bits, with or without sign. */
export const integer: ValueType = {
  name: 'integer',
  check: (value) => (parseInteger(value) === undefined ? `Invalid value for an integer ${quote(value)}` : undefined),
};

/** Whole number within bounds, both included. */
export function integerBetween(minimum: number, maximum: number): ValueType {
  return {
    name: `integer from ${minimum} to ${maximum}`,
    check: (value) => {
      const number = parseInteger(value);
      if (number === undefined) {
        return `Invalid value for an integer ${quote(value)}`;
      }
      return number < minimum || number > maximum
        ? `Invalid value for an integer ${quote(value)}. Must be between ${minimum} and ${maximum}`
        : undefined;
    },
  };
}

/** 0 to 4294967295. */
export const uint32: ValueType = {
  name: 'unsigned integer',
  check: (value) => {
    const prefix = `Invalid value for uint32 ${quote(value)}: strconv.ParseUint: parsing ${quote(value)}`;
    if (!/^\d+$/.test(value)) {
      return `${prefix}: invalid syntax`;
    }
    return BigInt(value) > 0xffff_ffffn ? `${prefix}: value out of range` : undefined;
  },
};

/** 0 (least) to 10 (most). */
export const priority: ValueType = {
  name: 'integer from 0 to 10',
  check: (value) => {
    const number = parseInteger(value);
    if (number === undefined) {
      return `Invalid value for an integer ${quote(value)}`;
    }
    return number < 0 || number > 10
      ? `Invalid value for a limit ${quote(value)}. Must be between 0 and 10`
      : undefined;
  },
};

/** User or group id. */
export const unixId: ValueType = {
  name: 'uid or gid',
  check: (value) => (uint32.check(value) === undefined ? undefined : 'Invalid value for a UNIX ID'),
};

/** Major or minor number of a device. */
export const deviceNumber: ValueType = {
  name: 'device number',
  check: (value) => (uint32.check(value) === undefined ? undefined : 'Invalid value for a UNIX device number'),
};

/** Octal permission bits such as `0660`. */
export const fileMode: ValueType = {
  name: 'octal file mode',
  check: (value) => (/^[0-7]+$/.test(value) ? undefined : 'Invalid value for an octal file mode'),
};
