import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { StorageVolume } from '@keelson/api';
import { startDaemon, type TestDaemon } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const volumes = (pool: string) => `/1.0/storage-pools/${pool}/volumes/custom`;

/** What goes with a volume that gets another name, pool or project. */
describe('a custom volume that moves', () => {
  let daemon: TestDaemon;

  beforeAll(async () => {
    daemon = await startDaemon();
    await daemon.run('POST', '/1.0/storage-pools', { name: 'p', driver: 'dir' });
    await daemon.run('POST', '/1.0/storage-pools', { name: 'b', driver: 'btrfs', config: { size: '256MiB' } });
    await daemon.run('POST', '/1.0/projects', { name: 'other', config: { 'features.images': 'false' } });
    await daemon.run('POST', volumes('p'), { name: 'v', description: 'd', config: { 'user.x': '1' } });
    writeFileSync(content('p', 'default_v'), 'old');
    await daemon.run('POST', `${volumes('p')}/v/snapshots`, { name: 's0' });
    writeFileSync(content('p', 'default_v'), 'new');
    await daemon.run('POST', `${volumes('p')}/v/backups`, { name: 'k', compression_algorithm: 'none' });
    const devices = { data: { type: 'disk', pool: 'p', source: 'v', path: '/v' } };
    await daemon.run('POST', '/1.0/profiles', { name: 'user', devices });
  });
  afterAll(() => daemon?.[Symbol.asyncDispose]());

  const content = (pool: string, name: string) => join(daemon.stateDir, 'storage-pools', pool, 'custom', name, 'file');
  const get = async <T>(url: string) => (await daemon.request<T>('GET', url)).body.metadata;

  it.each([
    ['by name', 'p', 'v', { name: 'w' }, 'p', 'w', ''],
    ['to another pool', 'p', 'w', { name: 'x', pool: 'b' }, 'b', 'x', ''],
    ['and back', 'b', 'x', { name: 'v', pool: 'p' }, 'p', 'v', ''],
    ['to another project', 'p', 'v', { name: 'v', pool: 'p', project: 'other' }, 'p', 'v', '?project=other'],
  ] as const)(
    'takes snapshots, backups and users along: %s',
    async (...[, pool, name, body, toPool, toName, project]) => {
      await daemon.run('POST', `${volumes(pool)}/${name}`, body);
      const url = `${volumes(toPool)}/${toName}`;
      expect(await get<StorageVolume>(`${url}${project}`)).toMatchObject({
        description: 'd',
        config: { 'user.x': '1' },
      });
      const folder = `${project === '' ? 'default' : 'other'}_${toName}`;
      expect(readFileSync(content(toPool, folder), 'utf8')).toBe('new');
      expect(await get(`${url}/snapshots${project}`)).toEqual([`${url}/snapshots/s0${project}`]);
      expect(await get(`${url}/backups${project}`)).toEqual([`${url}/backups/k${project}`]);
      const exported = await daemon.request('GET', `${url}/backups/k/export${project}`);
      expect(exported).toMatchObject({ status: 200 });
      expect(exported.text.length).toBeGreaterThan(1024);
      expect((await daemon.request('GET', `${volumes(pool)}/${name}`)).status).toBe(404);
      if (project === '') {
        // What takes the name next has none of it.
        await daemon.run('POST', volumes(pool), { name });
        expect(await get(`${volumes(pool)}/${name}/backups`)).toEqual([]);
        expect(await get(`${volumes(pool)}/${name}/snapshots`)).toEqual([]);
        await daemon.run('DELETE', `${volumes(pool)}/${name}`);
        const { devices } = await get<{ devices: object }>('/1.0/profiles/user');
        expect(devices).toEqual({ data: { type: 'disk', pool: toPool, source: toName, path: '/v' } });
      }
      await daemon.run('PUT', `${url}${project}`, { restore: 's0' });
      expect(readFileSync(content(toPool, folder), 'utf8')).toBe('old');
      writeFileSync(content(toPool, folder), 'new');
    },
  );

  it('is refused where the other project has no room', async () => {
    await daemon.run('POST', '/1.0/projects', {
      name: 'small',
      config: { 'features.images': 'false', 'limits.disk': '10MiB' },
    });
    await daemon.run('POST', volumes('p'), { name: 'big', config: { size: '20MiB' } });
    const refused = await daemon.request('POST', `${volumes('p')}/big`, { name: 'big', pool: 'p', project: 'small' });
    expect(refused.body).toMatchObject({ error_code: 400 });
    expect(refused.body.error).toContain('Reached maximum aggregate value "10MiB" for "limits.disk"');
  });

  it('leaves the name to another when it is renamed twice at once', async () => {
    await daemon.run('POST', volumes('p'), { name: 'r' });
    const answers = await Promise.all(
      ['r1', 'r2', 'r3'].map((name) => daemon.request('POST', `${volumes('p')}/r`, { name })),
    );
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 404, 404]);
  });
});
