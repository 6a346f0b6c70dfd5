import { existsSync, readdirSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import type { Operation } from '@keelson/api';
import { until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { InstanceWorld } from '../instances/world.ts';

const BACKUPS = '/1.0/instances/c1/backups';
const V = '/1.0/storage-pools/p/volumes/custom/v';

describe('backups and what ends them', { timeout: 400_000 }, () => {
  let world: InstanceWorld;
  let soon: string;

  beforeAll(async () => {
    world = await InstanceWorld.open();
    await world.ok('launch', 'tiny', 'c1', '-s', 'p');
    await world.ok('exec', 'c1', '--', 'dd', 'if=/dev/urandom', 'of=/big', 'bs=1M', 'count=160');
    await world.daemon.run('POST', '/1.0/storage-pools/p/volumes/custom', { name: 'v' });
    // Expired things go with the minute; the other tests run meanwhile.
    soon = new Date(Date.now() + 1000).toISOString();
    const later = '2090-01-01T00:00:00Z';
    for (const [name, expires_at] of [
      ['soon', soon],
      ['later', later],
    ]) {
      await world.daemon.run('POST', `${V}/backups`, { name, expires_at });
      await world.daemon.run('POST', `${V}/snapshots`, { name, expires_at });
      await world.daemon.run('POST', '/1.0/instances/c1/snapshots', { name, expires_at });
    }
    await world.daemon.run('POST', BACKUPS, {
      name: 'soon',
      expires_at: soon,
      instance_only: true,
      compression_algorithm: 'none',
    });
  }, 240_000);
  afterAll(() => world?.[Symbol.asyncDispose](), 120_000);

  const files = (): string[] => {
    const folder = join(world.daemon.stateDir, 'backups/instances/c1');
    return existsSync(folder) ? readdirSync(folder).filter((name) => !name.startsWith('soon')) : [];
  };
  /** What an earlier try left. */
  const remove = async (url: string): Promise<void> => {
    if ((await world.daemon.request('GET', url)).status === 200) await world.daemon.run('DELETE', url);
  };
  const begin = async (name: string): Promise<string> => {
    await remove(`${BACKUPS}/${name}`);
    const body = { name, compression_algorithm: 'xz' };
    const answer = await world.daemon.request<Operation>('POST', BACKUPS, body);
    expect(answer.status).toBe(202);
    await until('the file to grow', async () => files().some((file) => file.endsWith('.part')), { intervalMs: 5 });
    return answer.body.operation;
  };
  const names = async (url: string): Promise<string[]> =>
    (await world.daemon.request<string[]>('GET', url)).body.metadata
      .map((one) => one.slice(one.lastIndexOf('/') + 1))
      .sort();

  it('one that is cancelled leaves nothing', async () => {
    const operation = await begin('cancelled');
    expect((await world.daemon.request('DELETE', operation)).status).toBe(200);
    const { body } = await world.daemon.request<Operation>('GET', `${operation}/wait`);
    expect(body.metadata.status).toBe('Cancelled');
    expect(files()).toEqual([]);
    expect(await names(BACKUPS)).not.toContain('cancelled');
  });

  it('one that the daemon does not live to end leaves nothing, and the next works', async () => {
    await remove('/1.0/instances/c1/snapshots/after');
    await begin('killed');
    await world.daemon.kill();
    await world.daemon.start();
    expect(files()).toEqual([]);
    expect(await names(BACKUPS)).not.toContain('killed');
    expect(await world.ok('snapshot', 'c1', 'after')).toBeDefined();
    await world.daemon.run('POST', BACKUPS, { name: 'killed', instance_only: true, compression_algorithm: 'zstd' });
    expect(files()).toEqual(['killed']);
    // No snapshot that a backup made for itself is left in the pool.
    expect((await names('/1.0/instances/c1/snapshots')).filter((name) => name !== 'soon')).toEqual(['after', 'later']);
  });

  it('a name or an end that the daemon does not live to give is given, or not, to file and record alike', async () => {
    await remove('/1.0/instances/c2');
    await remove('/1.0/storage-pools/p/volumes/custom/k');
    await world.daemon.run('POST', '/1.0/storage-pools/p/volumes/custom', { name: 'k' });
    const K = '/1.0/storage-pools/p/volumes/custom/k/backups';
    const sides = [
      { url: '/1.0/instances/c2/backups', folder: join(world.daemon.stateDir, 'backups/instances/c2') },
      { url: K, folder: join(world.daemon.stateDir, 'backups/custom/p/default_k') },
    ];
    await world.ok('init', 'tiny', 'c2', '-s', 'p');
    for (let round = 0; round < 2; round++) {
      for (const { url } of sides) {
        for (const name of ['going', 'moving'])
          if (!(await names(url)).includes(name)) await world.daemon.run('POST', url, { name });
      }
      const asked = Promise.allSettled(
        sides.flatMap(({ url }) => [
          world.daemon.request('DELETE', `${url}/going`),
          world.daemon.request('POST', `${url}/moving`, { name: `moved${round}` }),
        ]),
      );
      await new Promise((resolve) => setTimeout(resolve, 1 + round * 8));
      await world.daemon.kill();
      await asked;
      await world.daemon.start();
      for (const { url, folder } of sides)
        expect(readdirSync(folder).sort(), `${url}, kill ${round}`).toEqual(await names(url));
    }
  });

  it('tells how far it is', async () => {
    await remove(`${BACKUPS}/told`);
    const { body } = await world.daemon.request<Operation>('POST', BACKUPS, {
      name: 'told',
      compression_algorithm: 'none',
    });
    const seen: unknown[] = [];
    await until(
      'progress',
      async () => {
        const { metadata } = (await world.daemon.request<Operation>('GET', body.operation)).body;
        seen.push(metadata.metadata?.['create_backup_progress']);
        return metadata.status_code >= 200;
      },
      { intervalMs: 5, timeoutMs: 100_000 },
    );
    expect(seen.some((one) => typeof one === 'string' && one !== '')).toBe(true);
  });

  it('one that lost its end with the host is never sent', async () => {
    for (const [url, folder] of [
      [BACKUPS, 'instances/c1'],
      [`${V}/backups`, 'custom/p/default_v'],
    ] as const) {
      await remove(`${url}/torn`);
      await world.daemon.run('POST', url, { name: 'torn', instance_only: true, compression_algorithm: 'none' });
      const path = join(world.daemon.stateDir, 'backups', folder, 'torn');
      truncateSync(path, statSync(path).size - 4096);
      const { status, body } = await world.daemon.request('GET', `${url}/torn/export`);
      expect(status).toBe(500);
      expect(body.error).toMatch(/^Backup "torn" is damaged: it has \d+ of \d+ bytes; make it again$/);
      await world.daemon.run('DELETE', `${url}/torn`);
    }
  });

  it('those that expired are gone, with their files', async () => {
    // What an operation keeps busy when its minute comes goes a minute later.
    for (const url of [`${V}/backups`, `${V}/snapshots`])
      await until(`${url} to hold one`, async () => (await names(url)).join() === 'later', {
        timeoutMs: 100_000,
        intervalMs: 250,
      });
    await until(
      'the snapshot of the instance to go',
      async () => !(await names('/1.0/instances/c1/snapshots')).includes('soon'),
      { timeoutMs: 100_000 },
    );
    await until('the backup of the instance to go', async () => !(await names(BACKUPS)).includes('soon'), {
      timeoutMs: 100_000,
    });
    const folder = join(world.daemon.stateDir, 'backups');
    expect(readdirSync(folder, { recursive: true }).filter((path) => String(path).endsWith('soon'))).toEqual([]);
    expect(existsSync(join(world.daemon.stateDir, 'storage-pools/p/custom-snapshots/default_v/soon'))).toBe(false);
  });
});
