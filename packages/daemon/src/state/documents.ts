import { errors } from '../core/errors.ts';
import type { Check, Write } from './store.ts';

/** A write with its document as JSON text; `json` is undefined for a delete. */
export interface EncodedWrite {
  readonly key: string;
  readonly json: string | undefined;
}

export interface EncodedTransaction {
  readonly checks: readonly Check[];
  readonly writes: readonly EncodedWrite[];
}

/** One committed write, as a store keeps it in its history. */
export interface KeyChange {
  readonly key: string;
  /** Frozen document; undefined when the key was deleted. */
  readonly value: unknown;
}

/** All writes of one transaction. */
export interface Revision {
  readonly revision: number;
  readonly changes: readonly KeyChange[];
}

/** @throws bad-request for a key that is no well-formed, absolute path. */
export function assertKey(key: string): void {
  if (!key.startsWith('/') || key.length < 2 || key.includes('\0') || !key.isWellFormed()) {
    throw errors.badRequest(`Invalid store key ${JSON.stringify(key)}`);
  }
}

/**
 * Validates a transaction and turns documents into JSON text, so that later changes of a passed object change nothing.
 * @throws bad-request for an invalid or repeated key, or a value that is no JSON document.
 */
export function encodeTransaction(checks: readonly Check[], writes: readonly Write[]): EncodedTransaction {
  for (const check of checks) {
    assertKey(check.key);
  }
  const seen = new Set<string>();
  const encoded = writes.map((write): EncodedWrite => {
    assertKey(write.key);
    if (seen.has(write.key)) {
      throw errors.badRequest(`The transaction writes ${write.key} twice`);
    }
    seen.add(write.key);
    return { key: write.key, json: write.type === 'put' ? encode(write.key, write.value) : undefined };
  });
  return { checks: [...checks], writes: encoded };
}

function encode(key: string, value: unknown): string {
  let json: string | undefined;
  try {
    json = JSON.stringify(value);
  } catch (error) {
    throw errors.badRequest(`The value of ${key} is no JSON document`, error);
  }
  if (json === undefined) {
    throw errors.badRequest(`The value of ${key} is no JSON document`);
  }
  return json;
}

/** Parses a document and freezes it all the way down, so that it can be shared between readers. */
export function decodeFrozen(json: string): unknown {
  return deepFreeze(JSON.parse(json));
}

export function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const member of Object.values(value)) {
      deepFreeze(member);
    }
  }
  return value;
}
