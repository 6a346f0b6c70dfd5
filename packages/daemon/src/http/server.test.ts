import { request, startInProcess, type TestApi } from '@keelson/testkit';
import { recordProblems, routes } from '@keelson/api';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

interface Server {
  readonly config: Record<string, unknown>;
  readonly auth: string;
  readonly environment: Record<string, unknown>;
}

let api: TestApi;
beforeAll(async () => {
  api = await startInProcess();
});
afterAll(() => api[Symbol.asyncDispose]());

const read = () => api.request<Server>('GET', '/1.0');
const config = async (): Promise<Record<string, unknown>> => (await read()).body.metadata.config;

describe('GET /1.0', () => {
  test('is the contract’s record', async () => {
    const { body, headers } = await read();
    expect(recordProblems(routes['server.get'].response, body.metadata)).toEqual([]);
    expect(body.metadata.environment).toMatchObject({ server: 'keelson', project: 'default', server_clustered: false });
    expect(headers.etag).toMatch(/^"[0-9a-f]{64}"$/);
  });

  test('names the project asked for', async () => {
    await api.request('POST', '/1.0/projects', { name: 'other' });
    const { body } = await api.request<Server>('GET', '/1.0?project=other');
    expect(body.metadata.environment['project']).toBe('other');
  });
});

describe('configuration', () => {
  test('PATCH merges and unsets, PUT replaces', async () => {
    await api.request('PUT', '/1.0', { config: { 'user.a': '1', 'images.auto_update_interval': '12' } });
    await api.request('PATCH', '/1.0', { config: { 'user.b': '2', 'user.a': '' } });
    expect(await config()).toEqual({ 'user.b': '2', 'images.auto_update_interval': '12' });
    await api.request('PUT', '/1.0', { config: { 'user.c': '3' } });
    expect(await config()).toEqual({ 'user.c': '3' });
  });

  test.each([
    [{ zork: 'x' }, "cannot set 'zork' to 'x': unknown key"],
    [
      { 'images.auto_update_interval': 'often' },
      "cannot set 'images.auto_update_interval' to 'often': invalid integer",
    ],
    [{ 'user.x': {} }, 'config.user.x'],
    [{ 'core.https_address': 'foo:bar:baz' }, 'core.https_address'],
  ])('%j is refused as a whole', async (bad, error) => {
    const before = await config();
    const answer = await api.request('PATCH', '/1.0', { config: { 'user.good': '1', ...bad } });
    expect([answer.status, answer.body.error]).toEqual([400, expect.stringContaining(error)]);
    expect(await config()).toEqual(before);
  });

  test('the listener stays where it is when another key is refused', async () => {
    await api.request('PATCH', '/1.0', { config: { 'core.https_address': '127.0.0.1:0' } });
    const addresses = async (): Promise<unknown> => (await read()).body.metadata.environment['addresses'];
    const before = await addresses();
    const answer = await api.request('PATCH', '/1.0', { config: { 'core.https_address': '[::1]:0', zork: 'x' } });
    expect(answer.status).toBe(400);
    expect(await addresses()).toEqual(before);
    await api.request('PATCH', '/1.0', { config: { 'core.https_address': '' } });
    expect(await addresses()).toEqual([]);
  });

  test('If-Match', async () => {
    const { headers } = await read();
    const patch = (value: string) =>
      api.request('PATCH', '/1.0', { config: { 'user.m': value } }, { headers: { 'If-Match': headers.etag ?? '' } });
    expect((await patch('1')).status).toBe(200);
    expect((await patch('2')).status).toBe(412);
    expect((await config())['user.m']).toBe('1');
  });

  test('the trust password is stored as a hash, shown as true, and stays when true comes back', async () => {
    await api.request('PATCH', '/1.0', { config: { 'core.trust_password': 'sesame' } });
    const shown = await config();
    expect(shown['core.trust_password']).toBe(true);
    await api.request('PUT', '/1.0', { config: { ...shown, 'user.n': '1' } });
    expect(await config()).toEqual({ ...shown, 'user.n': '1' });
    await api.request('PATCH', '/1.0', { config: { 'core.trust_password': '' } });
    expect(await config()).not.toHaveProperty('core.trust_password');
  });

  test('changes one at a time: none is lost', async () => {
    const keys = Array.from({ length: 20 }, (_, index) => `user.k${index}`);
    await Promise.all(keys.map((key) => api.request('PATCH', '/1.0', { config: { [key]: '1' } })));
    expect(Object.keys(await config())).toEqual(expect.arrayContaining(keys));
  });
});

describe('documents', () => {
  test('resources', async () => {
    const { body, status } = await api.request('GET', '/1.0/resources');
    expect(status).toBe(200);
    expect(recordProblems(routes['server.resources'].response, body.metadata)).toEqual([]);
  });

  test('openapi.json describes every endpoint, for everybody', async () => {
    const { text, status } = await request(await api.as('untrusted'), 'GET', '/1.0/openapi.json');
    const document = JSON.parse(text) as { openapi: string; paths: Record<string, unknown> };
    expect([status, document.openapi.slice(0, 3)]).toEqual([200, '3.1']);
    expect(document.paths).toHaveProperty('/1.0/profiles');
  });

  test('metadata/configuration', async () => {
    const { body } = await api.request<{ configs: Record<string, Record<string, unknown>> }>(
      'GET',
      '/1.0/metadata/configuration',
    );
    expect(body.metadata.configs['server']).toHaveProperty(['core.https_address']);
  });
});
