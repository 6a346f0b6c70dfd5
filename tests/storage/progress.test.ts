import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startDaemon, type TestDaemon, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { namesIn } from './small-disk.ts';

const instances = '/1.0/instances';
const inPool = (pool: string) => ({ devices: { root: { type: 'disk', path: '/', pool } } });
const volumes = (pool: string) => `/1.0/storage-pools/${pool}/volumes/custom`;

/** What the operation of a copy tells while it runs; the last word stays in its record. */
describe('copies of storage', () => {
  let daemon: TestDaemon;

  beforeAll(async () => {
    daemon = await startDaemon();
    await daemon.run('POST', '/1.0/storage-pools', { name: 'p', driver: 'dir' });
    await daemon.run('POST', '/1.0/storage-pools', { name: 'b', driver: 'btrfs', config: { size: '2GiB' } });
    await daemon.run('POST', volumes('p'), { name: 'v' });
    await daemon.run('POST', instances, { name: 'i', source: { type: 'none' }, ...inPool('p') });
    const megabytes = randomBytes(1024 ** 2);
    const [layer = ''] = namesIn(join(daemon.stateDir, 'storage-pools/p/layers'));
    for (let index = 0; index < 300; index++) {
      writeFileSync(join(daemon.stateDir, `storage-pools/p/custom/default_v/f${index}`), megabytes);
      writeFileSync(join(daemon.stateDir, `storage-pools/p/layers/${layer}/fs/f${index}`), megabytes);
    }
  }, 120_000);
  afterAll(() => daemon?.[Symbol.asyncDispose]());

  const progressOf = async (method: string, path: string, body: object): Promise<Record<string, unknown>> => {
    const { body: answer } = await daemon.request(method, path, body);
    const { body: done } = await daemon.request<{ status: string; metadata: Record<string, unknown> | null }>(
      'GET',
      `${answer.operation}/wait?timeout=150`,
    );
    expect(done.metadata.status).toBe('Success');
    return done.metadata.metadata ?? {};
  };
  const source = { type: 'copy', pool: 'p', name: 'v' };

  const copied = { type: 'copy', source: 'i' };

  it.each([
    ['a copy of an instance to another pool', 'POST', instances, { name: 'j', ...inPool('b'), source: copied }, 'i'],
    ['its refresh', 'POST', instances, { name: 'j', ...inPool('b'), source: { ...copied, refresh: true } }, 'i'],
    ['a move of an instance to another pool', 'POST', `${instances}/i`, { name: 'i', pool: 'b', migration: true }, 'i'],
  ] as const)('tell how far they are: %s', { timeout: 180_000 }, async (...[, method, path, body, label]) => {
    const metadata = await progressOf(method, path, body);
    expect(metadata['fs_progress']).toMatch(new RegExp(`^${label}: [0-9.]+[kMG]?B \\([0-9.]+[kMG]?B/s\\)$`));
    expect(metadata['progress']).toMatchObject({ stage: 'fs', processed: expect.stringMatching(/^[0-9]+$/) as string });
  });

  it('of an instance that is cancelled leaves nothing, and the next one works', { timeout: 180_000 }, async () => {
    const path = (name: string) => join(daemon.stateDir, 'storage-pools', name);
    await daemon.run('PATCH', '/1.0/storage-pools/p', { config: { 'rsync.bwlimit': '2000' } });
    const body = { name: 'k', ...inPool('p'), source: copied };
    const { body: started } = await daemon.request('POST', instances, body);
    await until('the copy to run', async () => {
      const { body: now } = await daemon.request<{ metadata: object | null }>('GET', started.operation);
      return Object.hasOwn(now.metadata.metadata ?? {}, 'fs_progress');
    });
    expect((await daemon.request('DELETE', started.operation)).status).toBe(200);
    const { body: ended } = await daemon.request<{ status: string }>('GET', `${started.operation}/wait?timeout=150`);
    expect(ended.metadata.status).toBe('Cancelled');
    expect((await daemon.request('GET', `${instances}/k`)).status).toBe(404);
    expect((await daemon.request('GET', '/1.0/storage-pools/p/volumes/container/k')).status).toBe(404);
    await until('the target to be empty', () => namesIn(join(path('p'), 'layers')).length === 0);
    expect(namesIn(join(path('p'), 'containers'))).toEqual([]);
    expect(namesIn(join(path('b'), 'containers-snapshots/i'))).toEqual([]);
    await daemon.run('PATCH', '/1.0/storage-pools/p', { config: { 'rsync.bwlimit': '0' } });
    await daemon.run('POST', instances, body);
    expect((await daemon.request('GET', `${instances}/k`)).status).toBe(200);
  });

  it.each([
    ['a copy in one pool', 'POST', volumes('p'), { name: 'w', source }, 'fs', 'default_v'],
    ['a copy to another pool', 'POST', volumes('b'), { name: 'v', source }, 'fs', 'default_v'],
    ['a move to another pool', 'POST', `${volumes('b')}/v`, { name: 'x', pool: 'p' }, 'fs', 'default_v'],
    [
      'a backup',
      'POST',
      `${volumes('p')}/v/backups`,
      { name: 'k', compression_algorithm: 'none' },
      'create_backup',
      '',
    ],
  ] as const)('tell how far they are: %s', { timeout: 180_000 }, async (...[, method, path, body, stage, label]) => {
    const metadata = await progressOf(method, path, body);
    const text = label === '' ? '' : `${label}: `;
    expect(metadata[`${stage}_progress`]).toMatch(new RegExp(`^${text}[0-9.]+[kMG]?B( \\([0-9.]+[kMG]?B/s\\))?$`));
    expect(metadata['progress']).toMatchObject({ stage, processed: expect.stringMatching(/^[0-9]+$/) as string });
  });
});
