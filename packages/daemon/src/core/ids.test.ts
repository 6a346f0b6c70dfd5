import { expect, it } from 'vitest';
import { randomIds } from './ids.ts';

it('makes ids of the right form, and never the same', () => {
  expect(randomIds.uuid()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(randomIds.secret()).toMatch(/^[0-9a-f]{64}$/);
  expect(randomIds.secret(8)).toMatch(/^[0-9a-f]{16}$/);
  expect(randomIds.mac()).toMatch(/^00:16:3e(:[0-9a-f]{2}){3}$/);
  expect(new Set(Array.from({ length: 1000 }, () => randomIds.secret())).size).toBe(1000);
});
