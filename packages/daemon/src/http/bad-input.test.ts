import { allRoutes, type RouteDefinition } from '@keelson/api';
import { startInProcess, type TestApi } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

let api: TestApi;
beforeAll(async () => {
  api = await startInProcess();
});
afterAll(() => api[Symbol.asyncDispose]());

const withBody = allRoutes.filter(({ body }) => body !== undefined);
const pathOf = (route: RouteDefinition, name: string): string => route.path.replaceAll(/:[a-z]+/g, name);
const JSON_TYPE = { 'Content-Type': 'application/json' };

describe.each(withBody.map((route) => [route.id, route] as const))('%s', (_id, route) => {
  test.each([
    ['nothing', ''],
    ['a word', 'zork'],
    ['half an object', '{"name":'],
    ['a list', '[]'],
    ['a number', '5'],
    ['null', 'null'],
    ['two values', '{}{}'],
    ['a forbidden key', '{"__proto__":{"admin":true}}'],
    ['no UTF-8', Buffer.from([0x7b, 0xff, 0x7d])],
    ['too much', `{"x":"${'y'.repeat(1024 * 1024)}"}`],
  ])('%s is the caller’s mistake', async (_what, body) => {
    const { status, body: answer } = await api.request(route.method, pathOf(route, 'none'), body, {
      headers: JSON_TYPE,
    });
    expect(answer.type).toBe('error');
    expect(answer.error).not.toBe('');
    expect([400, 413, 501]).toContain(status);
  });

  test('every field with a wrong type is the caller’s mistake', async () => {
    const fields = Object.keys((route.body as { properties?: object }).properties ?? {});
    for (const field of fields) {
      for (const value of [{ zork: [[]] }, [[5]], 1.5]) {
        const { status } = await api.request(route.method, pathOf(route, 'none'), { [field]: value });
        expect([200, 201, 202, 400, 403, 404, 409, 501], `${field}: ${JSON.stringify(value)}`).toContain(status);
      }
    }
  });
});

const named = allRoutes.filter((route) => route.path.includes(':'));

describe.each(named.map((route) => [route.id, route] as const))('%s', (_id, route) => {
  test('strange names are the caller’s mistake', async () => {
    for (const name of ['..%2F..%2Fetc', '%00', '%0a', '-', '*', '%F0%9F%98%80', 'x'.repeat(3000), '.', '%2e%2e']) {
      const body = route.body === undefined ? undefined : '{}';
      const { status, body: answer } = await api.request(route.method, pathOf(route, name), body, {
        headers: JSON_TYPE,
      });
      expect(status, `${name}: ${answer.error}`).not.toBe(500);
    }
  });
});
