import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startDaemon, type TestDaemon, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { namesIn } from './small-disk.ts';

const ROUNDS = 6;
const POOLS = ['p', 'b'];
const FILES = 300;

const volumes = (pool: string) => `/1.0/storage-pools/${pool}/volumes/custom`;

/** What takes long: copies with contents of some size, kept up to date, moved, backed up and imported. */
describe('kill -9 in the middle of a long copy', () => {
  let daemon: TestDaemon;
  let backup: Buffer;

  beforeAll(async () => {
    daemon = await startDaemon();
    await daemon.run('POST', '/1.0/storage-pools', { name: 'p', driver: 'dir' });
    await daemon.run('POST', '/1.0/storage-pools', { name: 'b', driver: 'btrfs', config: { size: '512MiB' } });
    await fill('p');
    await daemon.run('POST', `${volumes('p')}/v/backups`, { name: 'k', compression_algorithm: 'none' });
    backup = await download(`${volumes('p')}/v/backups/k/export`);
    await daemon.run('DELETE', `${volumes('p')}/v`);
  }, 60_000);
  afterAll(() => daemon?.[Symbol.asyncDispose]());

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
        if (snapshots.includes('s0') && name !== 'v') expect(wordsIn(join(kept, 's0'))).toEqual(['old']);
        const files = namesIn(join(daemon.stateDir, `backups/custom/${pool}/default_${name}`));
        expect(files, `backups of ${pool}/${name} ${at}`).toEqual(await names(`${volumes(pool)}/${name}/backups`));
      }
    }
    expect((await daemon.request<unknown[] | null>('GET', '/1.0/operations')).status).toBe(200);
  };

  const emptied = () =>
    until('the pools to be empty', () =>
      POOLS.every((pool) =>
        ['custom', 'custom-snapshots', 'staging', 'trash'].every((name) => namesIn(folder(pool, name)).length === 0),
      ),
    );

  it(`leaves whole things only, ${ROUNDS} times`, { timeout: 300_000 }, async () => {
    const started = performance.now();
    await change('p', 'b');
    const length = performance.now() - started;
    await check('after the first');
    await clean();
    for (let round = 0; round < ROUNDS; round++) {
      const [pool = '', other = ''] = round % 2 === 0 ? POOLS : POOLS.toReversed();
      const cut = change(pool, other).catch(() => undefined);
      const moment = ((round + Math.random()) / ROUNDS) * length;
      await sleep(moment);
      await daemon.kill();
      await cut;
      await daemon.start();
      await check(`after a kill at ${Math.round(moment)} of ${Math.round(length)} ms`);
      await clean();
      await emptied();
    }
    // And the next attempt works.
    await change('b', 'p');
    await check('at the end');
    await clean();
    expect(await emptied()).toBe(true);
  });
});
