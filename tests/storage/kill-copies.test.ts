import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { logged, problemsOf, startDaemon, type TestDaemon, until } from '@keelson/testkit';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { namesIn } from './small-disk.ts';

const ROUNDS = 6;
const POOLS = ['p', 'b'];
const FILES = 300;

const volumes = (pool: string) => `/1.0/storage-pools/${pool}/volumes/custom`;

/** What takes long: copies with contents of some size, kept up to date, moved, backed up and imported. */
describe('kill -9 in the middle of a long copy', () => {
  let daemon: TestDaemon;
  let backup: Buffer;

  // A second try must not find what the first one left.
  beforeEach(async () => {
    daemon = await startDaemon();
    await daemon.run('POST', '/1.0/storage-pools', { name: 'p', driver: 'dir' });
    await daemon.run('POST', '/1.0/storage-pools', { name: 'b', driver: 'btrfs', config: { size: '512MiB' } });
    await fill('p');
    await daemon.run('POST', `${volumes('p')}/v/backups`, { name: 'k', compression_algorithm: 'none' });
    backup = await download(`${volumes('p')}/v/backups/k/export`);
    await daemon.run('DELETE', `${volumes('p')}/v`);
  }, 120_000);
  afterEach(() => daemon?.[Symbol.asyncDispose](), 120_000);

  const folder = (pool: string, path: string) => join(daemon.stateDir, 'storage-pools', pool, path);
  const list = async (url: string) =>
    ((await daemon.request<string[] | null>('GET', url)).body.metadata ?? []).filter(
      (one) => !/snapshots\/[^/]+$/.test(one) || url.endsWith('snapshots'),
    );
  const names = async (url: string) => (await list(url)).map((one) => one.split('/').at(-1) ?? '').toSorted();

  const download = (path: string) =>
    new Promise<Buffer>((resolve, reject) => {
      const sent = httpRequest({ socketPath: daemon.socket, path }, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => resolve(Buffer.concat(chunks)));
      });
      sent.on('error', reject);
      sent.end();
    });

  /** Volume `v` with a snapshot: in it every file says `old`, now every one says `new`. */
  const fill = async (pool: string): Promise<void> => {
    await daemon.run('POST', volumes(pool), { name: 'v' });
    const write = (text: string): void => {
      const top = folder(pool, 'custom/default_v');
      mkdirSync(join(top, 'd'), { recursive: true });
      for (let index = 0; index < FILES; index++) writeFileSync(join(top, `d/f${index}`), text.padEnd(20_000));
    };
    write('old');
    await daemon.run('POST', `${volumes(pool)}/v/snapshots`, { name: 's0' });
    write('new');
  };

  const change = async (pool: string, other: string): Promise<void> => {
    const source = { type: 'copy', pool, name: 'v' };
    const headers = { 'Content-Type': 'application/octet-stream', 'X-LXD-name': 'i' };
    await fill(pool);
    await daemon.run('POST', volumes(other), { name: 'c', source });
    await daemon.run('POST', `${volumes(pool)}/v/snapshots`, { name: 's1' });
    await daemon.run('POST', volumes(other), { name: 'c', source: { ...source, refresh: true } });
    await daemon.run('POST', volumes(pool), { name: 'c', source });
    await daemon.run('POST', `${volumes(pool)}/v/snapshots/s1`, { name: 's2' });
    await daemon.run('POST', volumes(other), backup, { headers });
    await daemon.run('POST', `${volumes(pool)}/v/backups`, { name: 'k' });
    await daemon.run('POST', `${volumes(pool)}/v/backups/k`, { name: 'l' });
    await daemon.run('POST', `${volumes(pool)}/v`, { name: 'm', pool: other });
    await daemon.run('POST', `${volumes(other)}/m`, { name: 'n' });
    await daemon.run('PUT', `${volumes(other)}/n`, { restore: 's0' });
  };

  const clean = async (): Promise<void> => {
    for (const pool of POOLS) for (const url of await list(volumes(pool))) await daemon.run('DELETE', url);
  };

  /** What a volume or a snapshot says in all its files; a mixture is two words. */
  const wordsIn = (path: string): string[] => {
    const files = namesIn(join(path, 'd'));
    if (files.length !== FILES) return [`${files.length} files`];
    return [...new Set(files.map((name) => readFileSync(join(path, 'd', name), 'utf8').trim()))];
  };

  /** Records and content tell the same, and every content is one whole state. */
  const check = async (at: string): Promise<void> => {
    for (const pool of POOLS) {
      const known = await names(volumes(pool));
      expect(namesIn(folder(pool, 'custom')), `volumes of ${pool} ${at}`).toEqual(known.map((one) => `default_${one}`));
      for (const name of known) {
        const snapshots = await names(`${volumes(pool)}/${name}/snapshots`);
        const kept = folder(pool, `custom-snapshots/default_${name}`);
        expect(namesIn(kept), `snapshots of ${pool}/${name} ${at}`).toEqual(snapshots);
        // `v` is written by this test itself.
        if (name !== 'v')
          expect([['old'], ['new']], `${pool}/${name} ${at}`).toContainEqual(
            wordsIn(folder(pool, `custom/default_${name}`)),
          );
        if (snapshots.includes('s0') && name !== 'v')
          expect(wordsIn(join(kept, 's0')), `${pool}/${name}/s0 ${at}`).toEqual(['old']);
        const files = namesIn(join(daemon.stateDir, `backups/custom/${pool}/default_${name}`));
        expect(files, `backups of ${pool}/${name} ${at}`).toEqual(await names(`${volumes(pool)}/${name}/backups`));
      }
    }
    expect((await daemon.request<unknown[] | null>('GET', '/1.0/operations')).status).toBe(200);
  };

  const remains = (): string[] =>
    POOLS.flatMap((pool) =>
      ['custom', 'custom-snapshots', 'staging', 'trash'].flatMap((name) =>
        namesIn(folder(pool, name)).map((one) => `${pool}/${name}/${one}`),
      ),
    );
  const emptied = (at: string) =>
    until(
      () => `the pools to be empty ${at}, which hold ${remains().join()}; ${problemsOf(daemon)}`,
      () => remains().length === 0,
    );

  it(`leaves whole things only, ${ROUNDS} times`, { timeout: 600_000 }, async ({ signal }) => {
    const started = performance.now();
    await change('p', 'b');
    const length = performance.now() - started;
    await check('after the first');
    await clean();
    for (let round = 0; round < ROUNDS; round++) {
      signal.throwIfAborted();
      const [pool = '', other = ''] = round % 2 === 0 ? POOLS : POOLS.toReversed();
      let killed = false;
      const cut = change(pool, other).catch((error: unknown) => (killed ? undefined : error));
      const moment = ((round + Math.random()) / ROUNDS) * length;
      const at = `after kill ${round} at ${Math.round(moment)} of ${Math.round(length)} ms`;
      await sleep(moment);
      killed = true;
      await daemon.kill();
      expect(await cut, `what failed before ${at}`).toBeUndefined();
      await daemon.start();
      await check(at);
      await clean();
      await emptied(at);
    }
    expect(logged(daemon, /next start tries again|cannot delete the remains|is left over|was not undone/)).toEqual([]);
    // And the next attempt works.
    await change('b', 'p');
    await check('at the end');
    await clean();
    expect(await emptied('at the end')).toBe(true);
  });
});
