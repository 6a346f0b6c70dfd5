import type { Operation, Project, ProjectState } from '@keelson/api';
import { request, startInProcess, type TestApi } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

let api: TestApi;
beforeAll(async () => {
  api = await startInProcess();
});
afterAll(() => api[Symbol.asyncDispose]());

const create = (name: string, config?: Record<string, string>) =>
  api.request('POST', '/1.0/projects', { name, ...(config === undefined ? {} : { config }) });

describe('projects over the API', () => {
  test('go from creation through change and rename to deletion', async () => {
    const created = await create('walk', { 'features.images': 'false' });
    expect([created.status, created.headers.location]).toEqual([201, '/1.0/projects/walk']);
    const read = await api.request<Project>('GET', '/1.0/projects/walk');
    expect(read.body.metadata).toEqual({
      config: { 'features.images': 'false', 'features.profiles': 'true', 'features.storage.volumes': 'true' },
      description: '',
      name: 'walk',
      used_by: ['/1.0/profiles/default?project=walk'],
    });
    const stale = await api.request('PUT', '/1.0/projects/walk', {}, { headers: { 'If-Match': 'abc' } });
    expect(stale.status).toBe(412);
    const etag = String(read.headers.etag);
    const patched = await api.request(
      'PATCH',
      '/1.0/projects/walk',
      { description: 'x' },
      { headers: { 'If-Match': etag } },
    );
    expect(patched.status).toBe(200);
    const renamed = await api.request('POST', '/1.0/projects/walk', { name: 'run' });
    expect(renamed.status).toBe(202);
    const done = await api.request<Operation>('GET', `${renamed.body.operation}/wait`);
    expect(done.body.metadata).toMatchObject({ description: 'Renaming project', status_code: 200, resources: null });
    expect((await api.request('GET', '/1.0/projects/walk')).body).toMatchObject({
      error_code: 404,
      error: 'Project not found',
    });
    expect((await api.request<string[]>('GET', '/1.0/projects')).body.metadata).toEqual([
      '/1.0/projects/default',
      '/1.0/projects/run',
    ]);
    expect((await api.request('DELETE', '/1.0/projects/run')).status).toBe(200);
    expect((await api.request('GET', '/1.0/profiles?project=run')).status).toBe(404);
  });

  test('keep profiles of their own, or share those of the default project', async () => {
    await create('own');
    await create('shares', { 'features.profiles': 'false' });
    const profiles = async (project: string) =>
      (await api.request<string[]>('GET', `/1.0/profiles?project=${project}`)).body.metadata;
    expect(await profiles('own')).toEqual(['/1.0/profiles/default?project=own']);
    await api.request('POST', '/1.0/profiles?project=own', { name: 'p1' });
    expect(await profiles('own')).toHaveLength(2);
    expect(await profiles('shares')).toHaveLength(1);
    const refused = await api.request('DELETE', '/1.0/projects/own');
    expect(refused.body).toMatchObject({ error_code: 400, error: 'Only empty projects can be removed' });
    expect((await api.request('DELETE', '/1.0/projects/default')).status).toBe(403);
  });

  test('show limits and use', async () => {
    await create('limited', { 'limits.memory': '1GiB', 'limits.containers': '5' });
    const { resources } = (await api.request<ProjectState>('GET', '/1.0/projects/limited/state')).body.metadata;
    expect(resources).toMatchObject({
      memory: { Limit: 1024 ** 3, Usage: 0 },
      containers: { Limit: 5, Usage: 0 },
      cpu: { Limit: -1, Usage: 0 },
    });
    expect((await api.request('GET', '/1.0/projects/none/state')).status).toBe(404);
  });

  test('of others are hidden from a restricted caller, who may change none', async () => {
    await create('mine');
    const socket = await api.as('restricted', ['mine']);
    const list = await request<Project[]>(socket, 'GET', '/1.0/projects?recursion=1');
    expect(list.body.metadata.map(({ name }) => name)).toEqual(['mine']);
    const status = async (method: string, path: string, body?: unknown) =>
      (await request(socket, method, path, body)).status;
    expect(await status('GET', '/1.0/projects/mine')).toBe(200);
    expect([await status('GET', '/1.0/projects/default'), await status('GET', '/1.0/projects/none/state')]).toEqual([
      404, 404,
    ]);
    expect(await status('PATCH', '/1.0/projects/mine', { config: { restricted: 'false' } })).toBe(403);
    expect(await status('POST', '/1.0/projects', { name: 'more' })).toBe(403);
    expect(await status('DELETE', '/1.0/projects/mine')).toBe(403);
  });
});

test('warnings answer as LXD does when there are none', async () => {
  expect((await api.request('GET', '/1.0/warnings?recursion=1')).body.metadata).toEqual([]);
  for (const [method, body] of [['GET'], ['DELETE'], ['PUT', { status: 'new' }]] as const) {
    const answer = await api.request(method, '/1.0/warnings/none', body);
    expect(answer.body).toMatchObject({ error_code: 404, error: 'Warning not found' });
  }
});
