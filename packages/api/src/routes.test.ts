import { describe, expect, expectTypeOf, test } from 'vitest';
import type { Profile } from './resources/profile.ts';
import { allRoutes, type BodyOf, type ParamsOf, pathFor, type ResponseOf, type Routes, routes } from './routes.ts';

describe('routes', () => {
  test('are keyed by their own id', () => {
    expect(Object.entries(routes).filter(([key, route]) => key !== route.id)).toEqual([]);
  });

  test('declare each method of a path once', () => {
    const seen = allRoutes.map((route) => `${route.method} ${route.path}`);
    expect(seen.filter((entry, index) => seen.indexOf(entry) !== index)).toEqual([]);
  });

  test('have no trailing slash and only named parameters', () => {
    for (const { path } of allRoutes) {
      expect(path).toMatch(/^\/$|^(\/(:[a-z]+|[a-z0-9.-]+))+$/);
    }
  });

  test('change nothing through GET and HEAD', () => {
    const reads = allRoutes.filter((route) => route.method === 'GET' || route.method === 'HEAD');
    expect(reads.filter((route) => route.body !== undefined || route.kind === 'operation')).toEqual([]);
  });

  test('give every JSON body and record schema an $id or a reason', () => {
    const bodies = allRoutes.flatMap((route) => (route.body === undefined ? [] : [route]));
    const nameless = bodies.filter((route) => (route.body as { $id?: string }).$id === undefined);
    expect(nameless.map((route) => route.id)).toEqual(['instance-metadata.patch']);
  });

  test('type parameters, body and answer', () => {
    expectTypeOf<ParamsOf<Routes['instance-snapshots.get']>>().toEqualTypeOf<{ name: string; snapshot: string }>();
    expectTypeOf<BodyOf<Routes['profiles.create']>['name']>().toEqualTypeOf<string>();
    expectTypeOf<ResponseOf<Routes['profiles.get']>>().toEqualTypeOf<Profile>();
  });
});

describe('pathFor', () => {
  test('encodes parameters and query', () => {
    expect(pathFor(routes['profiles.get'], { name: 'a/b c' }, { project: 'x&y' })).toBe(
      '/1.0/profiles/a%2Fb%20c?project=x%26y',
    );
  });

  test('leaves out undefined query values', () => {
    expect(pathFor(routes['instances.list'], {}, { recursion: 2, project: undefined })).toBe(
      '/1.0/instances?recursion=2',
    );
  });

  test('refuses an empty parameter, which would address the collection', () => {
    expect(() => pathFor(routes['profiles.delete'], { name: '' })).toThrow('"name" of profiles.delete');
  });
});
