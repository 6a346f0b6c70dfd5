import type { ValueType } from './value-type.ts';

const units = ['M', 'H', 'd', 'w', 'm', 'y'] as const;

/** Counts of a duration: Minutes, Hours, days, weeks, months, years. */
export type Expiry = Readonly<Partial<Record<(typeof units)[number], number>>>;

/** Reads `1M 2H 3d 4w 5m 6y` (each unit once, any order, one space apart); undefined when the text is none. */
export function parseExpiry(text: string): Expiry | undefined {
  const counts: Partial<Record<string, number>> = {};
  for (const part of text.trim().split(' ')) {
    const match = /^(\d{1,9})([MHdwmy])$/.exec(part);
    const unit = match?.[2];
    if (unit === undefined || (counts[unit] ?? 0) > 0) {
      return undefined;
    }
    counts[unit] = Number(match?.[1]);
  }
  return counts;
}

/**
 * When something made at `from` expires. Months and years count in the calendar (UTC); an overlong month runs over into
 * the next, as Go's does. Undefined for an empty or invalid text: it never expires.
 */
export function expiresAt(text: string, from: Date): Date | undefined {
  const expiry = text.trim() === '' ? undefined : parseExpiry(text);
  if (expiry === undefined) {
    return undefined;
  }
  const date = new Date(from);
  date.setUTCFullYear(
    date.getUTCFullYear() + (expiry.y ?? 0),
    date.getUTCMonth() + (expiry.m ?? 0),
    date.getUTCDate() + (expiry.d ?? 0) + 7 * (expiry.w ?? 0),
  );
  date.setTime(date.getTime() + ((expiry.H ?? 0) * 60 + (expiry.M ?? 0)) * 60_000);
  return Number.isNaN(date.getTime()) ? undefined : date;
}

export const expiry: ValueType = {
  name: 'expiry such as 1M 2H 3d 4w 5m 6y',
  check: (value) => (value.trim() === '' || parseExpiry(value) !== undefined ? undefined : 'Invalid expiry expression'),
};
