import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { logged, problemsOf, startDaemon, type TestDaemon, until } from '@keelson/testkit';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { namesIn } from './small-disk.ts';

const ROUNDS = 8;
const POOLS = ['p', 'b'];

/** Everything that changes volumes and instance roots, one after the other, in both pools and between them. */
describe('kill -9 in the middle of a storage change', () => {
  let daemon: TestDaemon;

  // A second try must not find what the first one left.
  beforeEach(async () => {
    daemon = await startDaemon();
    await daemon.run('POST', '/1.0/storage-pools', { name: 'p', driver: 'dir' });
    await daemon.run('POST', '/1.0/storage-pools', { name: 'b', driver: 'btrfs', config: { size: '256MiB' } });
  }, 120_000);
  afterEach(() => daemon?.[Symbol.asyncDispose](), 120_000);

  const folder = (pool: string, path: string) => join(daemon.stateDir, 'storage-pools', pool, path);
  const volumes = (pool: string) => `/1.0/storage-pools/${pool}/volumes/custom`;
  const list = async (url: string) => (await daemon.request<string[]>('GET', url)).body.metadata ?? [];
  const names = (urls: readonly string[]) => urls.map((url) => url.slice(url.lastIndexOf('/') + 1)).sort();

  const changeVolumes = async (pool: string, other: string): Promise<void> => {
    const url = `${volumes(pool)}/v`;
    await daemon.run('POST', volumes(pool), { name: 'v' });
    writeFileSync(folder(pool, 'custom/default_v/file'), 'one');
    await daemon.run('POST', `${url}/snapshots`, { name: 's0' });
    writeFileSync(folder(pool, 'custom/default_v/file'), 'two');
    await daemon.run('POST', volumes(pool), { name: 'w', source: { type: 'copy', pool, name: 'v' } });
    await daemon.run('POST', volumes(other), { name: 'x', source: { type: 'copy', pool, name: 'v' } });
    await daemon.run('PUT', url, { restore: 's0' });
    await daemon.run('POST', `${url}/backups`, { name: 'k', compression_algorithm: 'none' });
    await daemon.run('POST', `${volumes(pool)}/w`, { name: 'y' });
    await daemon.run('POST', `${volumes(pool)}/y`, { name: 'z', pool: other });
    await daemon.run('DELETE', `${url}/snapshots/s0`);
    await daemon.run('DELETE', url);
  };

  const changeRoots = async (pool: string): Promise<void> => {
    const devices = { root: { type: 'disk', path: '/', pool } };
    await daemon.run('POST', '/1.0/instances', { name: 'c', source: { type: 'none' }, devices, profiles: [] });
    await daemon.run('POST', '/1.0/instances/c/snapshots', { name: 's0' });
    await daemon.run('POST', '/1.0/instances', { name: 'd', source: { type: 'copy', source: 'c' } });
    await daemon.run('PUT', '/1.0/instances/c', { restore: 's0' });
    await daemon.run('POST', '/1.0/instances/c', { name: 'e' });
    await daemon.run('DELETE', '/1.0/instances/e');
    await daemon.run('DELETE', '/1.0/instances/d');
  };

  const changeAll = async (): Promise<void> => {
    await Promise.all([changeVolumes('p', 'b'), changeRoots('b')]);
    await clean();
    await Promise.all([changeVolumes('b', 'p'), changeRoots('p')]);
  };

  const clean = async (): Promise<void> => {
    for (const instance of await list('/1.0/instances')) await daemon.run('DELETE', instance);
    for (const pool of POOLS) {
      for (const volume of await list(volumes(pool))) {
        if (!volume.includes('/snapshots/')) await daemon.run('DELETE', volume);
      }
    }
  };

  /** Records and content tell the same story, and every content is whole. */
  const check = async (at: string): Promise<void> => {
    for (const pool of POOLS) {
      const urls = await list(volumes(pool));
      const known = names(urls.filter((url) => !url.includes('/snapshots/')));
      expect(namesIn(folder(pool, 'custom')), `volumes of ${pool} ${at}`).toEqual(
        known.map((name) => `default_${name}`),
      );
      for (const name of known) {
        const file = folder(pool, `custom/default_${name}/file`);
        const snapshots = names(await list(`${volumes(pool)}/${name}/snapshots`));
        const kept = folder(pool, `custom-snapshots/default_${name}`);
        expect(namesIn(kept), `snapshots of ${pool}/${name} ${at}`).toEqual(snapshots);
        if (name !== 'v') expect(['one', 'two'], `${pool}/${name} ${at}`).toContain(textOf(file));
        for (const snapshot of snapshots)
          expect(textOf(join(kept, snapshot, 'file')), `${pool}/${name}/${snapshot} ${at}`).toBe('one');
      }
      const instances = names(await list(`/1.0/storage-pools/${pool}/volumes/container`)).filter(
        (name) => name !== 's0',
      );
      expect(namesIn(folder(pool, 'containers')), `roots of ${pool} ${at}`).toEqual(instances);
    }
    const backups = join(daemon.stateDir, 'backups/custom');
    const files = existsSync(backups)
      ? readdirSync(backups, { recursive: true }).filter((path) => String(path).endsWith('/k'))
      : [];
    for (const file of files) {
      const [pool = '', volume = ''] = String(file).split('/');
      const url = `${volumes(pool)}/${volume.replace('default_', '')}/backups`;
      expect(names(await list(url)), `backups of ${pool}/${volume} ${at}`).toEqual(['k']);
    }
  };
  const textOf = (path: string): string => (existsSync(path) ? readFileSync(path, 'utf8') : 'no file');

  /** What is still in the pools though nothing should be. */
  const remains = (): string[] =>
    POOLS.flatMap((pool) =>
      ['custom', 'containers', 'custom-snapshots', 'staging', 'trash'].flatMap((name) =>
        namesIn(folder(pool, name)).map((one) => `${pool}/${name}/${one}`),
      ),
    );

  it(`leaves whole things only, ${ROUNDS} times`, { timeout: 600_000 }, async ({ signal }) => {
    const started = performance.now();
    await changeAll();
    await clean();
    const length = performance.now() - started;
    await check('when all goes well');
    for (let round = 0; round < ROUNDS; round++) {
      signal.throwIfAborted();
      let killed = false;
      const cut = changeAll()
        .then(clean)
        .catch((error: unknown) => (killed ? undefined : error));
      const moment = ((round + Math.random()) / ROUNDS) * length;
      const at = `after kill ${round} at ${Math.round(moment)} of ${Math.round(length)} ms`;
      await sleep(moment);
      killed = true;
      await daemon.kill();
      expect(await cut, `what failed before ${at}`).toBeUndefined();
      await daemon.start();
      await check(at);
      await clean();
      await until(
        () => `the pools to be empty ${at}, which hold ${remains().join()}; ${problemsOf(daemon)}`,
        () => remains().length === 0,
      );
    }
    expect(readdirSync(folder('p', 'layers'))).toEqual([]);
    expect(logged(daemon, /next start tries again|cannot delete the remains|is left over|was not undone/)).toEqual([]);
    // And the next attempt works.
    await changeAll();
    await clean();
  });
});
