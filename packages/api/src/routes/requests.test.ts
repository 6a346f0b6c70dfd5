import { describe, expect, test } from 'vitest';
import { checkerOf } from '../check.ts';
import { allRoutes, type RouteDefinition } from '../routes.ts';
import requests from './lxc-requests.json' with { type: 'json' };

/** The route a router would choose: fixed segments before parameters. */
function routeOf(method: string, path: string): RouteDefinition | undefined {
  return allRoutes
    .filter((route) => route.method === method)
    .filter((route) => new RegExp(`^${route.path.replaceAll(/:[a-z]+/g, '[^/]+')}$`).test(path))
    .sort((left, right) => left.path.split(':').length - right.path.split(':').length)[0];
}

describe('what lxc 5.0.2 sends', () => {
  test.each(requests)('$method $path', ({ method, path, body }) => {
    const route = routeOf(method, path.split('?')[0] ?? '');
    expect(route?.body).toBeDefined();
    if (route?.body === undefined) return;
    expect(checkerOf(route.body)(body)).toMatchObject({ ok: true });
    const described = Object.keys((route.body as { properties?: object }).properties ?? {});
    expect(Object.keys(body).filter((field) => !described.includes(field))).toEqual([]);
  });
});
