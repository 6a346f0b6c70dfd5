import { createHash } from 'node:crypto';
import { errors } from '../core/errors.ts';
import { anyState, type Precondition } from '../core/precondition.ts';

/** SHA-256 over the record's writable part; equal parts have equal tags whatever their key order. */
export function etagOf(source: readonly unknown[]): string {
  const hash = createHash('sha256');
  for (const part of source) hash.update(canonical(part)).update('\n');
  return hash.digest('hex');
}

/** The demand an `If-Match` header makes; `*` and a missing header demand nothing. */
export function preconditionOf(header: string | undefined): Precondition {
  if (header === undefined || header === '' || header === '*') return anyState;
  const wanted = header.split(',').map((tag) =>
    tag
      .trim()
      .replace(/^W\//, '')
      .replace(/^"(.*)"$/, '$1'),
  );
  return (source) => {
    const current = etagOf(source);
    if (wanted.includes(current)) return;
    throw errors.preconditionFailed(`ETag doesn't match: ${current} vs ${wanted.join(', ')}`);
  };
}

function canonical(value: unknown): string {
  if (value === undefined) return 'null';
  return JSON.stringify(value, (_key, part: unknown) =>
    part !== null && typeof part === 'object' && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}
