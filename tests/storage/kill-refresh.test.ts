import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Operation } from '@keelson/api';
import { logged, startDaemon, type TestDaemon, until } from '@keelson/testkit';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { namesIn } from './small-disk.ts';

const FILES = 200;
const ROUNDS = 4;

const volumes = (pool: string) => `/1.0/storage-pools/${pool}/volumes/custom`;

/** A copy that is brought up to date, and is cut off on the way. */
describe('a refresh of a custom volume', () => {
  let daemon: TestDaemon;

  const folder = (pool: string, path: string) => join(daemon.stateDir, 'storage-pools', pool, path);
  const write = (text: string): void => {
    const top = folder('p', 'custom/default_v/d');
    mkdirSync(top, { recursive: true });
    for (let index = 0; index < FILES; index++) writeFileSync(join(top, `f${index}`), text.padEnd(20_000));
  };
  /** What all files of a folder say. */
  const wordsIn = (path: string): string[] => {
    const files = namesIn(join(path, 'd'));
    return [...new Set(files.map((name) => readFileSync(join(path, 'd', name), 'utf8').trim()))];
  };
  const snapshots = async (pool: string): Promise<string[]> => {
    const { body } = await daemon.request<string[]>('GET', `${volumes(pool)}/c/snapshots`);
    return body.metadata.map((url) => url.split('/').at(-1) ?? '').toSorted();
  };
  const refresh = { name: 'c', source: { type: 'copy', pool: 'p', name: 'v', refresh: true } };
  const begin = async (pool: string): Promise<Operation> =>
    (await daemon.request<Operation>('POST', volumes(pool), refresh)).body.metadata;
  const ended = async ({ id }: Operation): Promise<Operation> =>
    (await daemon.request<Operation>('GET', `/1.0/operations/${id}/wait?timeout=150`)).body.metadata;

  /** `c` is a copy of `v` when it said `old`; `v` says `new` now, and has a snapshot more and one less. */
  const prepare = async (): Promise<void> => {
    for (const pool of ['p', 'b'])
      for (const name of ['v', 'c'])
        if ((await daemon.request('GET', `${volumes(pool)}/${name}`)).status === 200)
          await daemon.run('DELETE', `${volumes(pool)}/${name}`);
    await daemon.run('POST', volumes('p'), { name: 'v' });
    write('old');
    await daemon.run('POST', `${volumes('p')}/v/snapshots`, { name: 's0' });
    const copy = { name: 'c', source: { ...refresh.source, refresh: false } };
    for (const pool of ['p', 'b']) await daemon.run('POST', volumes(pool), copy);
    await daemon.run('DELETE', `${volumes('p')}/v/snapshots/s0`);
    write('between');
    await daemon.run('POST', `${volumes('p')}/v/snapshots`, { name: 's1' });
    write('new');
  };
  // A second try must not find what the first one left.
  beforeEach(async () => {
    daemon = await startDaemon();
    await daemon.run('POST', '/1.0/storage-pools', { name: 'p', driver: 'dir' });
    await daemon.run('POST', '/1.0/storage-pools', { name: 'b', driver: 'btrfs', config: { size: '512MiB' } });
    await prepare();
  }, 120_000);
  afterEach(() => daemon?.[Symbol.asyncDispose](), 120_000);

  /** All of the old or all of the new, in content, snapshots and records; true for the new. */
  const whole = async (at: string): Promise<boolean> => {
    const kept = await snapshots('b');
    expect(namesIn(folder('b', 'custom-snapshots/default_c')), at).toEqual(kept);
    const isNew = kept.includes('s1');
    expect(kept, at).toEqual([isNew ? 's1' : 's0']);
    expect(wordsIn(folder('b', 'custom/default_c')), at).toEqual([isNew ? 'new' : 'old']);
    expect(wordsIn(folder('b', `custom-snapshots/default_c/${kept[0]}`)), at).toEqual([isNew ? 'between' : 'old']);
    return isNew;
  };

  it('leaves the old or the new when the daemon is killed', { timeout: 600_000 }, async ({ signal }) => {
    const started = performance.now();
    await daemon.run('POST', volumes('b'), refresh);
    const length = performance.now() - started;
    expect(await whole('when all goes well')).toBe(true);
    for (let round = 0; round < ROUNDS; round++) {
      signal.throwIfAborted();
      await prepare();
      let killed = false;
      const cut = daemon.run('POST', volumes('b'), refresh).then(
        () => undefined,
        (error: unknown) => (killed ? undefined : error),
      );
      const moment = ((round + Math.random()) / ROUNDS) * length;
      const at = `after kill ${round} at ${Math.round(moment)} of ${Math.round(length)} ms`;
      await sleep(moment);
      killed = true;
      await daemon.kill();
      expect(await cut, `what failed before ${at}`).toBeUndefined();
      await daemon.start();
      await whole(at);
      await daemon.run('POST', volumes('b'), refresh);
      expect(await whole(`at the next attempt ${at}`)).toBe(true);
    }
    expect(logged(daemon, /next start tries again|cannot delete the remains|is left over|was not undone/)).toEqual([]);
  });

  it('leaves the old when it is cancelled', { timeout: 180_000 }, async () => {
    await daemon.run('PATCH', '/1.0/storage-pools/b', { config: { 'rsync.bwlimit': '2000' } });
    const operation = await begin('b');
    await until('the refresh to run', async () => {
      const { body } = await daemon.request<Operation>('GET', `/1.0/operations/${operation.id}`);
      return body.metadata.metadata?.['fs_progress'] !== undefined;
    });
    expect((await daemon.request('DELETE', `/1.0/operations/${operation.id}`)).status).toBe(200);
    expect((await ended(operation)).status).toBe('Cancelled');
    expect(await whole('after it was cancelled')).toBe(false);
    await daemon.run('PATCH', '/1.0/storage-pools/b', { config: { 'rsync.bwlimit': '0' } });
    await daemon.run('POST', volumes('b'), refresh);
    expect(await whole('at the next attempt')).toBe(true);
  });

  it('on a pool of folders is mended by the next one', { timeout: 180_000 }, async () => {
    await daemon.run('PATCH', '/1.0/storage-pools/p', { config: { 'rsync.bwlimit': '2000' } });
    const operation = await begin('p');
    await until('the refresh to run', async () => {
      const { body } = await daemon.request<Operation>('GET', `/1.0/operations/${operation.id}`);
      return body.metadata.metadata?.['fs_progress'] !== undefined;
    });
    await daemon.kill();
    await daemon.start();
    expect(await snapshots('p')).toEqual(['s0']);
    expect(namesIn(folder('p', 'custom-snapshots/default_c'))).toEqual(['s0']);
    await daemon.run('PATCH', '/1.0/storage-pools/p', { config: { 'rsync.bwlimit': '0' } });
    await daemon.run('POST', volumes('p'), refresh);
    expect(await snapshots('p')).toEqual(['s1']);
    expect(wordsIn(folder('p', 'custom/default_c'))).toEqual(['new']);
  });
});
