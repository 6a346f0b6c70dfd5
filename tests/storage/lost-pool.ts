import type { StoragePool, Warning } from '@keelson/api';
import { type TestDaemon, until } from '@keelson/testkit';
import { expect } from 'vitest';

/** Where the custom volumes of a pool are. */
export const volumes = (pool: string): string => `/1.0/storage-pools/${pool}/volumes/custom`;

export async function statusOf(daemon: TestDaemon, pool: string): Promise<string | undefined> {
  return (await daemon.request<StoragePool>('GET', `/1.0/storage-pools/${pool}`)).body.metadata.status;
}

export async function warningOf(daemon: TestDaemon, pool: string): Promise<Warning | undefined> {
  const { body } = await daemon.request<Warning[]>('GET', '/1.0/warnings?recursion=1');
  return body.metadata.find(({ entity_url: url }) => url === `/1.0/storage-pools/${pool}`);
}

/** What is answered while the source of a pool with the volume `v` is away, and the pool `well` is there. */
export async function expectLost(daemon: TestDaemon, pool: string, reason = /(?:)/): Promise<void> {
  const resources = (name: string) => daemon.request('GET', `/1.0/storage-pools/${name}/resources`);
  // A mount that goes under a running daemon is noticed within a second.
  await until('the pool to be missed', async () => (await resources(pool)).status === 503);
  for (const [method, path, body] of [
    ['GET', `/1.0/storage-pools/${pool}/resources`, undefined],
    ['POST', volumes(pool), { name: 'w' }],
    ['PUT', `${volumes(pool)}/v`, { restore: 's0' }],
    ['DELETE', `${volumes(pool)}/v`, undefined],
  ] as const) {
    const { status, body: answer } = await daemon.request(method, path, body);
    expect([method, path, status], answer.error).toEqual([method, path, 503]);
    expect(answer.error).toContain(`Storage pool "${pool}"`);
    expect(answer.error).toMatch(reason);
  }
  const failed = daemon.run('POST', volumes('well'), { name: 'x', source: { type: 'copy', pool, name: 'v' } });
  await expect(failed).rejects.toThrow(`Storage pool "${pool}"`);
  // What the records know is still told, and the other pools work.
  expect((await daemon.request('GET', `${volumes(pool)}/v`)).status).toBe(200);
  expect(await statusOf(daemon, pool)).toBe('Unavailable');
  const unavailable = { type: 'Storage pool unavailable', severity: 'high', status: 'new' };
  expect(await until('the warning', () => warningOf(daemon, pool))).toMatchObject(unavailable);
  expect((await resources('well')).status).toBe(200);
}

/** What is answered once the source is back. */
export async function expectBack(daemon: TestDaemon, pool: string): Promise<void> {
  expect((await daemon.request('GET', `/1.0/storage-pools/${pool}/resources`)).status).toBe(200);
  expect(await statusOf(daemon, pool)).toBe('Created');
  await until('the warning to be resolved', async () => (await warningOf(daemon, pool))?.status === 'resolved');
}
