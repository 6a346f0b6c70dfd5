import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { named, startDaemon, type TestDaemon, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { logicalVolumes, lvmHere, removeGroup } from './lvm-host.ts';

const ROUNDS = 5;
const FILES = 60;

const volumes = (pool: string) => `/1.0/storage-pools/${pool}/volumes/custom`;

describe.skipIf(!lvmHere.ok)(
  named('kill -9 in the middle of a change on lvm', lvmHere),
  {
    timeout: 1_800_000,
  },
  () => {
    let daemon: TestDaemon;
    const group = (pool: string) => `keelson-${process.pid}-${pool}`;
    const POOLS = ['thin', 'plain'];

    beforeAll(async () => {
      daemon = await startDaemon();
      await daemon.run('POST', '/1.0/storage-pools', { name: 'well', driver: 'dir' });
      for (const pool of POOLS) {
        const config = { size: '640MiB', 'lvm.vg_name': group(pool), 'volume.size': '24MiB' };
        const kind = { 'lvm.use_thinpool': String(pool === 'thin') };
        await daemon.run('POST', '/1.0/storage-pools', { name: pool, driver: 'lvm', config: { ...config, ...kind } });
      }
      for (const name of ['old', 'new']) {
        await daemon.run('POST', volumes('well'), { name });
        const folder = join(at('custom'), `default_${name}/d`);
        mkdirSync(folder);
        for (let index = 0; index < FILES; index++) writeFileSync(join(folder, `f${index}`), name.padEnd(20_000));
      }
    });
    afterAll(async () => {
      await daemon?.stop();
      for (const pool of POOLS) await removeGroup(group(pool));
      await daemon?.[Symbol.asyncDispose]();
    });

    const at = (folder: string) => join(daemon.stateDir, 'storage-pools/well', folder);
    const list = async (url: string) => (await daemon.request<string[] | null>('GET', url)).body.metadata ?? [];
    const names = async (url: string) => (await list(url)).map((one) => one.split('/').at(-1) ?? '').toSorted();
    const ownOf = async (pool: string) =>
      (await list(volumes(pool)))
        .filter((url) => !url.includes('/snapshots/'))
        .map((url) => url.split('/').at(-1) ?? '');

    const change = async (pool: string): Promise<void> => {
      const well = (name: string) => ({ type: 'copy', pool: 'well', name });
      await daemon.run('POST', volumes(pool), { name: 'v', source: well('old') });
      await daemon.run('POST', `${volumes(pool)}/v/snapshots`, { name: 's0' });
      await daemon.run('POST', volumes(pool), { name: 'v', source: { ...well('new'), refresh: true } });
      await daemon.run('POST', volumes(pool), { name: 'w', source: { type: 'copy', pool, name: 'v' } });
      await daemon.run('PUT', `${volumes(pool)}/v`, { restore: 's0' });
      await daemon.run('POST', `${volumes(pool)}/w`, { name: 'y' });
      const devices = { root: { type: 'disk', path: '/', pool } };
      await daemon.run('POST', '/1.0/instances', {
        name: `c-${pool}`,
        source: { type: 'none' },
        devices,
        profiles: [],
      });
      await daemon.run('POST', `/1.0/instances/c-${pool}/snapshots`, { name: 's0' });
      await daemon.run('PUT', `/1.0/instances/c-${pool}`, { restore: 's0' });
      await daemon.run('DELETE', `${volumes(pool)}/y/snapshots/s0`);
      await daemon.run('DELETE', `/1.0/instances/c-${pool}`);
      await daemon.run('DELETE', `${volumes(pool)}/v`);
    };
    const clean = async (): Promise<void> => {
      for (const instance of await list('/1.0/instances')) await daemon.run('DELETE', instance);
      for (const pool of POOLS)
        for (const name of await ownOf(pool)) await daemon.run('DELETE', `${volumes(pool)}/${name}`);
    };

    /** What a volume or a snapshot says in all its files, by way of a copy; a mixture is two words. */
    const wordsOf = async (pool: string, name: string): Promise<string[]> => {
      await daemon.run('POST', volumes('well'), {
        name: 'seen',
        source: { type: 'copy', pool, name, volume_only: true },
      });
      const folder = join(at('custom'), 'default_seen/d');
      const files = readdirSync(folder);
      const words = new Set(files.map((file) => readFileSync(join(folder, file), 'utf8').trim()));
      await daemon.run('DELETE', `${volumes('well')}/seen`);
      return files.length === FILES ? [...words] : [`${files.length} files`];
    };

    /** Records and logical volumes tell the same story, and every content is one whole state. */
    const check = async (when: string): Promise<void> => {
      for (const pool of POOLS) {
        const expected: string[] = [];
        for (const name of await ownOf(pool)) {
          const snapshots = await names(`${volumes(pool)}/${name}/snapshots`);
          expected.push(`custom_default_${name}`, ...snapshots.map((snapshot) => `custom_default_${name}-${snapshot}`));
          // A refresh brings files up to date one by one: cut off, `v` has some of both until the next one.
          const words = await wordsOf(pool, name);
          if (name !== 'v') expect([['old'], ['new']], `${pool}/${name} ${when}`).toContainEqual(words);
          for (const snapshot of snapshots)
            expect(await wordsOf(pool, `${name}/${snapshot}`), `${pool}/${name}/${snapshot} ${when}`).toEqual(['old']);
        }
        for (const url of await list('/1.0/instances')) {
          const name = url.split('/').at(-1) ?? '';
          if (name !== `c-${pool}`) continue;
          const own = `containers_${name.replaceAll('-', '--')}`;
          const snapshots = await names(`${url}/snapshots`);
          expected.push(own, ...snapshots.map((snapshot) => `${own}-${snapshot}`));
        }
        const there = () => logicalVolumes(group(pool));
        await until(`the logical volumes of ${pool} ${when}`, async () => {
          return JSON.stringify(await there()) === JSON.stringify(expected.toSorted());
        }).catch(async () => expect(await there(), `${pool} ${when}`).toEqual(expected.toSorted()));
        expect(readdirSync(join(daemon.stateDir, 'storage-pools', pool, 'staging'))).toEqual([]);
      }
    };

    it(`leaves whole things only, ${ROUNDS} times`, async () => {
      const started = performance.now();
      await Promise.all(POOLS.map(change));
      const length = performance.now() - started;
      await check('before any kill');
      await clean();
      for (let round = 0; round < ROUNDS; round++) {
        const moment = ((round + Math.random()) / ROUNDS) * length;
        const cut = Promise.all(POOLS.map((pool) => change(pool).catch(() => undefined)));
        await sleep(moment);
        await daemon.kill();
        await cut;
        await daemon.start();
        await check(`after a kill at ${Math.round(moment)} of ${Math.round(length)} ms`);
        await clean();
        for (const pool of POOLS) expect(await logicalVolumes(group(pool)), pool).toEqual([]);
      }
      // And the next attempt works.
      await Promise.all(POOLS.map(change));
      await check('at the end');
      await clean();
    });
  },
);
