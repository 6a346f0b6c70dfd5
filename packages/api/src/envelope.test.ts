import { describe, expect, test } from 'vitest';
import { errorEnvelope, isFinal, statusCodes, statusText, syncEnvelope } from './envelope.ts';
import { errorKind, errorStatus } from './error-codes.ts';

describe('envelope', () => {
  test('has the fields of every answer in one order', () => {
    const keys = ['type', 'status', 'status_code', 'operation', 'error_code', 'error', 'metadata'];
    expect(Object.keys(syncEnvelope({}))).toEqual(keys);
    expect(Object.keys(errorEnvelope(404, 'x'))).toEqual(keys);
  });

  test('an error repeats the HTTP status and has no status code', () => {
    expect(errorEnvelope(404, 'Profile not found')).toMatchObject({ error_code: 404, status_code: 0, metadata: null });
  });

  test('names status codes as they stand on the wire', () => {
    expect(statusText(100)).toBe('Operation created');
    expect(statusText(110)).toBe('Frozen');
    expect(statusText(999)).toBe('');
  });

  test('tells ended operations from running ones', () => {
    const ended = Object.values(statusCodes).filter(isFinal);
    expect(ended).toEqual([200, 400, 401]);
  });
});

describe('error kinds', () => {
  test('map to a status and back', () => {
    for (const [kind, status] of Object.entries(errorStatus)) {
      expect(errorKind(status)).toBe(kind);
    }
  });

  test('unlisted statuses fall to the nearest kind', () => {
    expect(errorKind(418)).toBe('bad-request');
    expect(errorKind(502)).toBe('internal');
  });
});
