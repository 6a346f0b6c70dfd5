import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startDaemon, type TestDaemon, until } from '@keelson/testkit';
import { afterEach, beforeEach, expect, it } from 'vitest';

const volumes = '/1.0/storage-pools/p/volumes/custom';

let daemon: TestDaemon;
// A second try must not find what the first one left.
beforeEach(async () => {
  daemon = await startDaemon();
  await daemon.run('POST', '/1.0/storage-pools', { name: 'p', driver: 'dir' });
  await daemon.run('POST', volumes, { name: 'v' });
});
afterEach(() => daemon?.[Symbol.asyncDispose]());

const pool = (...path: string[]): string => join(daemon.stateDir, 'storage-pools/p', ...path);

it('no command of a killed daemon runs on beside the next one', { timeout: 240_000 }, async () => {
  const megabyte = Buffer.alloc(1024 ** 2, 'x');
  mkdirSync(pool('custom/default_v/d'));
  for (let index = 0; index < 30; index++) writeFileSync(pool(`custom/default_v/d/f${index}`), megabyte);
  await daemon.run('POST', volumes, { name: 'c', source: { type: 'copy', pool: 'p', name: 'v' } });
  for (let index = 0; index < 30; index++) writeFileSync(pool(`custom/default_v/d/f${index}`), megabyte.fill('y'));
  // At a megabyte a second it takes half a minute.
  await daemon.run('PATCH', '/1.0/storage-pools/p', { config: { 'rsync.bwlimit': '1000' } });
  const refresh = { name: 'c', source: { type: 'copy', pool: 'p', name: 'v', refresh: true } };
  expect((await daemon.request('POST', volumes, refresh)).status).toBe(202);
  const copying = async () => [...(await daemon.leftovers()).processes].filter(([, line]) => line.startsWith('rsync'));
  await until('the refresh to run', async () => (await copying()).length > 0);
  await daemon.kill();
  expect(await copying(), 'what the kill left').not.toEqual([]);
  await daemon.start();
  expect(await copying()).toEqual([]);
  await daemon.run('PATCH', '/1.0/storage-pools/p', { config: { 'rsync.bwlimit': '0' } });
  await daemon.run('POST', volumes, refresh);
  const copied = readdirSync(pool('custom/default_c/d'));
  expect(copied.length).toBe(30);
  expect(copied.filter((name) => !readFileSync(pool('custom/default_c/d', name)).equals(megabyte))).toEqual([]);
});
