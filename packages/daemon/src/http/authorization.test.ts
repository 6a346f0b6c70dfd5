import { allRoutes, type RouteDefinition } from '@keelson/api';
import { request, startInProcess, type CallerKind, type TestApi } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

/**
 * Every endpoint of the contract for every kind of caller. The expectations come from the contract's `access`; an
 * endpoint open to untrusted callers must stand in the list below with the reason.
 */
const OPEN: Readonly<Record<string, string>> = {
  'api.root': 'names the versions',
  'server.get': 'tells untrusted callers only what they need to introduce themselves',
  'api.openapi': 'describes the API',
  'certificates.create': 'a client adds itself by password or token; the service decides',
  'operations.wait': 'the service asks for rights',
  'operations.websocket': 'the secret is the right',
  'images.list': 'public images only',
  'images.create': 'push with a secret only',
  'images.get': 'public images, or with a secret',
  'images.export': 'public images, or with a secret',
  'image-aliases.get': 'aliases of public images only',
};

/** What a restricted caller may ask without naming a project of its own, and why. */
const ANY_PROJECT: Readonly<Record<string, string>> = {
  'storage-pools.list': 'pools are the server\u2019s; their settings and the users of others are left out',
  'storage-pools.get': 'as their list',
  'operations.get': 'an operation has a project of its own, which counts',
  'operations.delete': 'as operations.get',
};

let api: TestApi;
beforeAll(async () => {
  api = await startInProcess();
  await api.request('PUT', '/1.0', { config: { 'user.secret': 'hidden' } });
});
afterAll(() => api[Symbol.asyncDispose]());

const pathOf = (route: RouteDefinition, name = 'none'): string => route.path.replaceAll(/:[a-z]+/g, name);
const scoped = (route: RouteDefinition): boolean => JSON.stringify(route.query ?? {}).includes('"project"');

async function statusOf(
  route: RouteDefinition,
  kind: CallerKind,
  query = '',
  projects: string[] = [],
): Promise<number> {
  const socket = await api.as(kind, projects);
  // A body that no schema takes: a caller who is let in gets to a 400 at worst and changes nothing.
  const body = route.body === undefined ? undefined : '[]';
  const headers = { 'Content-Type': 'application/json' };
  return (await request(socket, route.method, `${pathOf(route)}${query}`, body, { headers })).status;
}

test('the list of open endpoints is the contract’s', () => {
  const open = allRoutes.filter(({ access }) => access === 'untrusted').map(({ id }) => id);
  expect(open.sort()).toEqual(Object.keys(OPEN).sort());
});

describe.each(allRoutes.map((route) => [route.id, route] as const))('%s', (_id, route) => {
  const closed = route.access !== 'untrusted';

  if (closed)
    test('refuses callers without trust', async () => {
      for (const query of ['', '?recursion=1', '?recursion=2', '?project=default&recursion=1']) {
        expect(await statusOf(route, 'untrusted', query)).toBe(403);
      }
    });

  if (closed)
    test('refuses metrics certificates', async () => {
      expect(await statusOf(route, 'metrics')).toBe(403);
    });

  if (route.access === 'admin')
    test('refuses restricted callers', async () => {
      expect(await statusOf(route, 'restricted', '', ['default'])).toBe(403);
    });

  if (route.access === 'user' && scoped(route) && ANY_PROJECT[route.id] === undefined)
    test('keeps restricted callers to their projects', async () => {
      for (const query of ['', '?recursion=1', '?recursion=2', '?project=default', '?project=nope']) {
        expect(await statusOf(route, 'restricted', query, ['other'])).toBe(403);
      }
    });

  if (route.access === 'user')
    test('lets restricted callers into their projects', async () => {
      // A project is itself what the caller may or may not use.
      const named = route.path.startsWith('/1.0/projects/') ? { ...route, path: pathOf(route, 'default') } : route;
      expect(await statusOf(named, 'restricted', '', ['default'])).not.toBe(403);
    });

  test('lets administrators in', async () => {
    expect(await statusOf(route, 'trusted')).not.toBe(403);
    expect(await statusOf(route, 'unix')).not.toBe(403);
  });
});

describe('what an open endpoint tells', () => {
  test('GET /1.0 of an untrusted caller', async () => {
    const { body } = await request<Record<string, unknown>>(await api.as('untrusted'), 'GET', '/1.0');
    expect(Object.keys(body.metadata).sort()).toEqual(
      ['api_extensions', 'api_status', 'api_version', 'auth', 'auth_methods', 'public'].sort(),
    );
    expect(body.metadata['auth']).toBe('untrusted');
  });

  test('GET /1.0 of a restricted caller holds no configuration', async () => {
    const { text } = await request(await api.as('restricted', ['default']), 'GET', '/1.0');
    expect(text).not.toContain('hidden');
    expect((await api.request('GET', '/1.0')).text).toContain('hidden');
  });

  test('a restricted caller need not name a project of its own', async () => {
    await api.request('POST', '/1.0/storage-pools', { name: 'p', driver: 'dir', config: { 'user.secret': 'hidden' } });
    const socket = await api.as('restricted', ['other']);
    for (const query of ['', '?project=default', '?project=nope']) {
      for (const path of ['/1.0', '/1.0/storage-pools', '/1.0/images', '/1.0/images/aliases/x'])
        expect((await request(socket, 'GET', `${path}${query}`)).status, path + query).not.toBe(403);
      expect((await request(socket, 'GET', `/1.0/operations/none${query}`)).status).toBe(404);
      expect((await request(socket, 'GET', `/1.0/operations/none/wait${query}`)).status).toBe(404);
      expect((await request(socket, 'POST', `/1.0/images${query}`, { source: { type: 'none' } })).status).not.toBe(202);
    }
    for (const path of ['/1.0', '/1.0/storage-pools?recursion=1', '/1.0/storage-pools/p'])
      expect((await request(socket, 'GET', path)).text, path).not.toContain('hidden');
  });

  test('all-projects needs no right to other projects, and shows none of them', async () => {
    const { status, body } = await request(
      await api.as('restricted', ['default']),
      'GET',
      '/1.0/operations?all-projects=true&recursion=1',
    );
    expect([status, body.metadata]).toEqual([200, {}]);
  });
});

describe('what a project shares with the default one', () => {
  const shared = { 'features.images': 'false', 'features.profiles': 'false', 'features.storage.volumes': 'false' };
  const own = { 'features.profiles': 'true' };
  beforeAll(async () => {
    await api.request('POST', '/1.0/projects', { name: 'sharing', config: shared });
    await api.request('POST', '/1.0/projects', { name: 'owning', config: own });
  });

  test.each([
    ['POST', '/1.0/profiles', { name: 'evil' }],
    ['PATCH', '/1.0/profiles/default', { config: { 'security.privileged': 'true' } }],
    ['PUT', '/1.0/profiles/default', {}],
    ['DELETE', '/1.0/profiles/nope', undefined],
    ['POST', '/1.0/images', { source: { type: 'instance', name: 'x' } }],
    ['DELETE', '/1.0/images/abcdef', undefined],
    ['POST', '/1.0/images/aliases', { name: 'a', target: 'b' }],
    ['POST', '/1.0/networks', { name: 'evil0' }],
    ['PATCH', '/1.0/networks/evil0', { config: { 'raw.dnsmasq': 'dhcp-script=/bin/false' } }],
    ['POST', '/1.0/storage-pools/p/volumes/custom', { name: 'v' }],
    ['DELETE', '/1.0/storage-pools/p/volumes/custom/v', undefined],
  ])('is not changed by who may only use the sharing one: %s %s', async (method, path, body) => {
    const socket = await api.as('restricted', ['sharing']);
    const { status } = await request(socket, method, `${path}?project=sharing`, body);
    expect(status).toBe(403);
  });

  test('is read by them', async () => {
    const socket = await api.as('restricted', ['sharing']);
    expect((await request(socket, 'GET', '/1.0/profiles/default?project=sharing')).status).toBe(200);
  });

  test('what a project has of its own is changed by who may use it', async () => {
    const socket = await api.as('restricted', ['owning']);
    expect((await request(socket, 'POST', '/1.0/profiles?project=owning', { name: 'mine' })).status).toBe(201);
  });
});
