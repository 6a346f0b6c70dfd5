import { startInProcess, type TestApi } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

interface Profile {
  readonly name: string;
  readonly description: string;
  readonly config: Record<string, string>;
  readonly devices: Record<string, Record<string, string>>;
  readonly used_by: string[];
}

let api: TestApi;
beforeAll(async () => {
  api = await startInProcess();
});
afterAll(() => api[Symbol.asyncDispose]());

const create = (name: string, rest: object = {}) => api.request('POST', '/1.0/profiles', { name, ...rest });
const read = (name: string) => api.request<Profile>('GET', `/1.0/profiles/${name}`);

describe('profiles', () => {
  test('the default profile is there from the start', async () => {
    const { body, status } = await api.request('GET', '/1.0/profiles');
    expect(status).toBe(200);
    expect(body.metadata).toEqual(['/1.0/profiles/default']);
  });

  test('a created profile can be read, listed and deleted', async () => {
    const made = await create('web', { description: 'Web', config: { 'user.a': '1' }, devices: null });
    expect([made.status, made.headers.location, made.body.metadata]).toEqual([201, '/1.0/profiles/web', null]);
    expect((await read('web')).body.metadata).toEqual({
      name: 'web',
      description: 'Web',
      config: { 'user.a': '1' },
      devices: {},
      used_by: [],
    });
    const list = await api.request<Profile[]>('GET', '/1.0/profiles?recursion=1');
    expect(list.body.metadata.map(({ name }) => name)).toEqual(['default', 'web']);
    expect((await api.request('DELETE', '/1.0/profiles/web')).status).toBe(200);
    expect((await read('web')).status).toBe(404);
    expect((await api.request('GET', '/1.0/profiles')).body.metadata).toEqual(['/1.0/profiles/default']);
  });

  test('PUT replaces, PATCH merges', async () => {
    await create('change', { description: 'x', config: { 'user.a': '1' }, devices: { r: { type: 'none' } } });
    await api.request('PATCH', '/1.0/profiles/change', { config: { 'user.b': '2' } });
    expect((await read('change')).body.metadata).toMatchObject({
      description: 'x',
      config: { 'user.a': '1', 'user.b': '2' },
      devices: { r: { type: 'none' } },
    });
    await api.request('PUT', '/1.0/profiles/change', { config: { 'user.c': '3' } });
    expect((await read('change')).body.metadata).toMatchObject({
      description: '',
      config: { 'user.c': '3' },
      devices: {},
    });
  });

  test('a rename keeps the content', async () => {
    await create('old', { description: 'kept' });
    const renamed = await api.request('POST', '/1.0/profiles/old', { name: 'new' });
    expect([renamed.status, renamed.headers.location]).toEqual([201, '/1.0/profiles/new']);
    expect((await read('new')).body.metadata.description).toBe('kept');
    expect((await read('old')).status).toBe(404);
    expect((await api.request('POST', '/1.0/profiles/new', { name: 'default' })).status).toBe(409);
  });

  test('If-Match refuses a change made on another state', async () => {
    await create('guarded');
    const { headers } = await read('guarded');
    const change = (config: object, tag: string | undefined) =>
      api.request('PUT', '/1.0/profiles/guarded', { config }, { headers: { 'If-Match': tag ?? '' } });
    expect((await change({ 'user.a': '1' }, headers.etag)).status).toBe(200);
    expect((await change({ 'user.a': '2' }, headers.etag)).status).toBe(412);
    expect((await read('guarded')).body.metadata.config).toEqual({ 'user.a': '1' });
  });

  test.each([
    ['DELETE', 403, 'The "default" profile cannot be deleted'],
    ['POST', 403, 'The "default" profile cannot be renamed'],
  ])('the default profile stays: %s', async (method, status, error) => {
    const answer = await api.request(method, '/1.0/profiles/default', method === 'POST' ? { name: 'x' } : undefined);
    expect([answer.status, answer.body.error]).toEqual([status, error]);
  });

  test('two creations of one name at a time: one wins', async () => {
    const answers = await Promise.all([create('race'), create('race'), create('race')]);
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 409, 409]);
  });
});

describe('bad input', () => {
  test.each([
    ['', 400, 'EOF'],
    ['xx', 400, 'not valid JSON'],
    ['{"name":', 400, 'not valid JSON'],
    ['[]', 400, 'object'],
    ['"x"', 400, 'object'],
    ['null', 400, 'object'],
    ['{"name":5}', 400, '"name"'],
    ['{"name":"x","config":{"limits.cpu":3}}', 400, 'config.limits.cpu'],
    ['{"name":"x","config":[]}', 400, '"config"'],
    ['{"name":"x","devices":{"eth0":5}}', 400, 'devices.eth0'],
    ['{"name":"x","__proto__":{}}', 400, '__proto__'],
    ['{}', 400, 'No name provided'],
    ['{"name":""}', 400, 'No name provided'],
    ['{"name":"a/b"}', 400, 'Profile names may not contain slashes'],
    ['{"name":".."}', 400, 'Invalid profile name'],
    ['{"name":"x","config":{"foo":"bar"}}', 400, 'Unknown configuration key: foo'],
    ['{"name":"x","config":{"volatile.x":"1"}}', 400, 'Volatile keys can only be set on instances'],
    ['{"name":"x","devices":{"a":{"type":"zork"}}}', 400, 'device type'],
    [`{"name":"${'x'.repeat(300)}"}`, 400, 'Invalid profile name'],
    [`{"name":"x","description":"${'y'.repeat(1024 * 1024)}"}`, 413, 'larger than'],
  ])('%.60s → %i', async (body, status, error) => {
    const answer = await api.request('POST', '/1.0/profiles', body);
    expect([answer.status, answer.body.error_code, answer.body.type]).toEqual([status, status, 'error']);
    expect(answer.body.error).toContain(error);
    expect((await read('x')).status).toBe(404);
  });

  test('bytes that are no UTF-8', async () => {
    const answer = await api.request('POST', '/1.0/profiles', Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d]));
    expect(answer.status).toBe(400);
  });

  test('a body nested very deep', async () => {
    const answer = await api.request(
      'POST',
      '/1.0/profiles',
      `{"name":"x","config":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
    );
    expect(answer.status).toBe(400);
  });
});
