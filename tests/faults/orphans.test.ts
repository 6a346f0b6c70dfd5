import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Operation } from '@keelson/api';
import { startDaemon, type TestDaemon, until } from '@keelson/testkit';
import { afterAll, beforeAll, expect, it } from 'vitest';

const volumes = '/1.0/storage-pools/p/volumes/custom';

let daemon: TestDaemon;
beforeAll(async () => {
  daemon = await startDaemon();
  await daemon.run('POST', '/1.0/storage-pools', { name: 'p', driver: 'dir' });
  await daemon.run('POST', volumes, { name: 'v' });
});
afterAll(() => daemon?.[Symbol.asyncDispose]());

const pool = (...path: string[]): string => join(daemon.stateDir, 'storage-pools/p', ...path);

it('no command of a killed daemon runs on beside the next one', { timeout: 120_000 }, async () => {
  const megabyte = Buffer.alloc(1024 ** 2, 'x');
  mkdirSync(pool('custom/default_v/d'));
  for (let index = 0; index < 30; index++) writeFileSync(pool(`custom/default_v/d/f${index}`), megabyte);
  await daemon.run('POST', volumes, { name: 'c', source: { type: 'copy', pool: 'p', name: 'v' } });
  for (let index = 0; index < 30; index++) writeFileSync(pool(`custom/default_v/d/f${index}`), megabyte.fill('y'));
  // At a megabyte a second it takes half a minute.
  await daemon.run('PATCH', '/1.0/storage-pools/p', { config: { 'rsync.bwlimit': '1000' } });
  const refresh = { name: 'c', source: { type: 'copy', pool: 'p', name: 'v', refresh: true } };
  const { body } = await daemon.request<Operation>('POST', volumes, refresh);
  const copying = async () => [...(await daemon.leftovers()).processes].filter(([, line]) => line.startsWith('rsync'));
  await until('the refresh to run', async () => {
    const { body: now } = await daemon.request<Operation>('GET', `/1.0/operations/${body.metadata.id}`);
    return now.metadata.metadata?.['fs_progress'] !== undefined;
  });
  await daemon.kill();
  expect(await copying(), 'what the kill left').not.toEqual([]);
  await daemon.start();
  expect(await copying()).toEqual([]);
  await daemon.run('PATCH', '/1.0/storage-pools/p', { config: { 'rsync.bwlimit': '0' } });
  await daemon.run('POST', volumes, refresh);
  expect(readdirSync(pool('custom/default_c/d')).toSorted()).toEqual(
    readdirSync(pool('custom/default_v/d')).toSorted(),
  );
});
