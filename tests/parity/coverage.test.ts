import { allRoutes } from '@keelson/api';
import { expect, it } from 'vitest';
import { names } from './case.ts';
import { cases } from './cases.ts';

/** Endpoints that are compared with LXD elsewhere, and where. */
const elsewhere: Readonly<Record<string, string>> = {};

const endpoints = allRoutes.filter(({ path }) => path.startsWith('/1.0/storage-pools'));
const asked = cases.map((one) => `${one.method} ${one.path(names).split('?')[0]}`);

/** `/a/:b` as a pattern of what fills it. */
const pattern = (path: string): RegExp => new RegExp(`^${path.replaceAll(/:\w+/g, '[^/]+')}$`);

it.each(endpoints.map(({ id, method, path }) => [id, method, path] as const))(
  'compares %s (%s %s) with LXD',
  (id, method, path) => {
    const matching = asked.filter((one) => pattern(`${method} ${path}`).test(one));
    if (elsewhere[id] === undefined) expect(matching.length).toBeGreaterThan(0);
    else expect(matching).toEqual([]);
  },
);

it.each(['recursion=1', 'filter=', 'target=', 'project='])('compares volumes with %s', (option) => {
  const lists = cases.map((one) => one.path(names)).filter((path) => path.startsWith('/1.0/storage-pools/p1/volumes?'));
  expect(lists.some((path) => path.includes(option))).toBe(true);
});
