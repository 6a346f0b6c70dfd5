import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { StoragePool, Warning } from '@keelson/api';
import { command, startDaemon, type TestDaemon, until } from '@keelson/testkit';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const volumes = (pool: string) => `/1.0/storage-pools/${pool}/volumes/custom`;

describe('a pool whose source is not what it was', () => {
  let daemon: TestDaemon;
  let outside: string;

  // A second try must not find what the first one left.
  beforeEach(async () => {
    outside = mkdtempSync(join(tmpdir(), 'keelson-sources-'));
    daemon = await startDaemon();
    await daemon.run('POST', '/1.0/storage-pools', { name: 'well', driver: 'dir' });
    await daemon.run('POST', volumes('well'), { name: 'v' });
  }, 120_000);
  afterEach(async () => {
    await daemon?.[Symbol.asyncDispose]();
    rmSync(outside, { recursive: true, force: true });
  }, 120_000);

  const at = (pool: string) => join(daemon.stateDir, 'storage-pools', pool);
  const file = (pool: string) => join(at(pool), 'custom/default_v/file');
  const statusOf = async (pool: string) =>
    (await daemon.request<StoragePool>('GET', `/1.0/storage-pools/${pool}`)).body.metadata.status;

  const warningOf = async (pool: string) => {
    const { body } = await daemon.request<Warning[]>('GET', '/1.0/warnings?recursion=1');
    return body.metadata.find(({ entity_url: url }) => url === `/1.0/storage-pools/${pool}`);
  };

  const refusals = async (pool: string): Promise<void> => {
    // A mount that goes under a running daemon is noticed within a second.
    await until(
      'the pool to be missed',
      async () => (await daemon.request('GET', `/1.0/storage-pools/${pool}/resources`)).status === 503,
      { timeoutMs: 20_000, intervalMs: 100 },
    );
    for (const [method, path, body] of [
      ['GET', `/1.0/storage-pools/${pool}/resources`, undefined],
      ['POST', volumes(pool), { name: 'w' }],
      ['PUT', `${volumes(pool)}/v`, { restore: 's0' }],
      ['DELETE', `${volumes(pool)}/v`, undefined],
    ] as const) {
      const { status, body: answer } = await daemon.request(method, path, body);
      expect([method, path, status], answer.error).toEqual([method, path, 503]);
      expect(answer.error).toContain(`Storage pool "${pool}"`);
    }
    const failed = daemon.run('POST', volumes('well'), { name: 'x', source: { type: 'copy', pool, name: 'v' } });
    await expect(failed).rejects.toThrow(`Storage pool "${pool}"`);
    // What the records know is still told, and the other pools work.
    expect((await daemon.request('GET', `${volumes(pool)}/v`)).status).toBe(200);
    expect(await statusOf(pool)).toBe('Unavailable');
    const unavailable = { type: 'Storage pool unavailable', severity: 'high', status: 'new' };
    expect(await until('the warning', () => warningOf(pool))).toMatchObject(unavailable);
    expect((await daemon.request('GET', '/1.0/storage-pools/well/resources')).status).toBe(200);
  };

  const prepare = async (pool: string): Promise<void> => {
    await daemon.run('POST', volumes(pool), { name: 'v' });
    writeFileSync(file(pool), 'old');
    await daemon.run('POST', `${volumes(pool)}/v/snapshots`, { name: 's0' });
    writeFileSync(file(pool), 'new');
  };

  const works = async (pool: string): Promise<void> => {
    expect((await daemon.request('GET', `/1.0/storage-pools/${pool}/resources`)).status).toBe(200);
    expect(await statusOf(pool)).toBe('Created');
    await until('the warning to be resolved', async () => (await warningOf(pool))?.status === 'resolved');
    expect(readFileSync(file(pool), 'utf8')).toBe('new');
    await daemon.run('PUT', `${volumes(pool)}/v`, { restore: 's0' });
    expect(readFileSync(file(pool), 'utf8')).toBe('old');
    await daemon.run('DELETE', `${volumes(pool)}/v`);
    await daemon.run('DELETE', `/1.0/storage-pools/${pool}`);
  };

  /** The mount goes with the source, as that of a disk that is pulled out. */
  const unplug = (pool: string) => command('umount', ['-l', at(pool)]);

  it.each(['running', 'starting'])(
    'is unavailable, and back with its folder: %s',
    { timeout: 180_000 },
    async (when) => {
      const [pool, source] = [`dir-${when}`, join(outside, when)];
      mkdirSync(source);
      await daemon.run('POST', '/1.0/storage-pools', { name: pool, driver: 'dir', config: { source } });
      await prepare(pool);
      if (when === 'starting') await daemon.stop();
      await unplug(pool);
      renameSync(source, `${source}-away`);
      if (when === 'starting') await daemon.start();
      await refusals(pool);
      renameSync(`${source}-away`, source);
      await works(pool);
      expect(existsSync(source)).toBe(true);
    },
  );

  it.each(['running', 'starting'])(
    'is unavailable, and back with its loop file: %s',
    { timeout: 180_000 },
    async (when) => {
      const pool = `loop-${when}`;
      await daemon.run('POST', '/1.0/storage-pools', { name: pool, driver: 'btrfs', config: { size: '128MiB' } });
      await prepare(pool);
      const image = join(daemon.stateDir, `disks/${pool}.img`);
      if (when === 'starting') await daemon.stop();
      await unplug(pool);
      renameSync(image, `${image}-away`);
      if (when === 'starting') await daemon.start();
      await refusals(pool);
      renameSync(`${image}-away`, image);
      await works(pool);
      expect(existsSync(image)).toBe(false);
    },
  );

  it('says so when its loop file was cut off, and can be deleted', { timeout: 180_000 }, async () => {
    await daemon.run('POST', '/1.0/storage-pools', { name: 'cut', driver: 'btrfs', config: { size: '128MiB' } });
    await prepare('cut');
    const image = join(daemon.stateDir, 'disks/cut.img');
    await daemon.stop();
    await unplug('cut');
    truncateSync(image, 1024 ** 2);
    await daemon.start();
    await refusals('cut');
    // A file system that is broken is never made anew over what may be rescued.
    expect(existsSync(image)).toBe(true);
    expect((await daemon.request('GET', '/1.0')).status).toBe(200);
  });
});
