import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startDaemon, type TestDaemon, until } from '@keelson/testkit';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { namesIn, smallDisk, type SmallDisk } from './small-disk.ts';

const MIB = 1024 ** 2;
const volumes = (pool: string) => `/1.0/storage-pools/${pool}/volumes/custom`;

const byText = (a: string, b: string): number => (a < b ? -1 : 1);

/** The end of a request: its own error, or that of its operation; empty when all went well. */
async function failureOf(daemon: TestDaemon, method: string, path: string, body?: unknown): Promise<string> {
  return daemon.run(method, path, body).then(
    () => '',
    (error: unknown) => String(error),
  );
}

describe('a full pool', () => {
  let daemon: TestDaemon;
  let disk: SmallDisk;

  // A second try must not find what the first one left.
  beforeEach(async () => {
    disk = await smallDisk(96);
    daemon = await startDaemon();
    const source = join(disk.path, 'pool');
    mkdirSync(source);
    await daemon.run('POST', '/1.0/storage-pools', { name: 'dir', driver: 'dir', config: { source } });
    await daemon.run('POST', '/1.0/storage-pools', { name: 'btrfs', driver: 'btrfs', config: { size: '128MiB' } });
    await daemon.run('POST', '/1.0/storage-pools', { name: 'large', driver: 'dir' });
    for (const [name, size] of [
      ['big', 100],
      ['small', 20],
    ] as const) {
      await daemon.run('POST', volumes('large'), { name });
      writeFileSync(join(daemon.stateDir, `storage-pools/large/custom/default_${name}/f`), randomBytes(size * MIB));
    }
  }, 180_000);
  afterEach(async () => {
    await daemon?.[Symbol.asyncDispose]();
    await disk?.[Symbol.asyncDispose]();
  }, 120_000);

  const folder = (pool: string, path: string) => join(daemon.stateDir, 'storage-pools', pool, path);
  const file = (pool: string, volume: string) => folder(pool, `custom/default_${volume}/file`);

  it.each(['dir', 'btrfs'])(
    'refuses a copy, keeps what is there and goes on: %s',
    { timeout: 180_000 },
    async (pool) => {
      await daemon.run('POST', volumes(pool), { name: 'old' });
      const content = randomBytes(40 * MIB);
      writeFileSync(file(pool, 'old'), content);
      const source = { type: 'copy', pool: 'large', name: 'big' };
      const failure = await failureOf(daemon, 'POST', volumes(pool), { name: 'new', source });
      expect(failure).toMatch(/no space left/i);
      expect(namesIn(folder(pool, 'custom'))).toEqual(['default_old']);
      expect(namesIn(folder(pool, 'staging'))).toEqual([]);
      expect(readFileSync(file(pool, 'old')).equals(content)).toBe(true);
      expect((await daemon.request('GET', `${volumes(pool)}/new`)).status).toBe(404);
      expect((await daemon.request('GET', `/1.0/storage-pools/${pool}/resources`)).status).toBe(200);
      // Space is back, on btrfs after a while: the next attempt works.
      await daemon.run('DELETE', `${volumes(pool)}/old`);
      const small = { type: 'copy', pool: 'large', name: 'small' };
      await until(
        'the space to be back',
        async () => {
          return (await failureOf(daemon, 'POST', volumes(pool), { name: 'new', source: small })) === '';
        },
        { timeoutMs: 90_000, intervalMs: 200 },
      );
      expect(namesIn(folder(pool, 'custom/default_new'))).toEqual(['f']);
    },
  );
});

describe('a full disk under the state folder', () => {
  let daemon: TestDaemon;
  let disk: SmallDisk;

  beforeEach(async () => {
    disk = await smallDisk(64);
    daemon = await startDaemon({ stateDir: disk.path });
    await daemon.run('POST', '/1.0/storage-pools', { name: 'p', driver: 'dir' });
    await daemon.run('POST', volumes('p'), { name: 'v', description: 'before' });
    writeFileSync(join(disk.path, 'storage-pools/p/custom/default_v/file'), 'precious');
  }, 180_000);
  afterEach(async () => {
    await daemon?.[Symbol.asyncDispose]();
    await disk?.[Symbol.asyncDispose]();
  }, 120_000);

  const descriptionOf = async (name: string) =>
    (await daemon.request<{ description: string }>('GET', `${volumes('p')}/${name}`)).body.metadata?.description;

  it('refuses changes with the reason, answers reads, and works when there is space again', {
    timeout: 300_000,
  }, async () => {
    await disk.fill();
    const made: string[] = [];
    let refusal = '';
    // What the database has in hand may do for some changes more; then they are refused.
    for (let index = 0; index < 2000 && refusal === ''; index++) {
      refusal = await failureOf(daemon, 'POST', volumes('p'), { name: `n${index}`, description: 'x'.repeat(2000) });
      if (refusal === '') made.push(`n${index}`);
    }
    expect(refusal).toMatch(/no space left|disk is full|full/i);
    // The daemon is up, what was acknowledged is there, and nothing that was refused.
    expect((await daemon.request('GET', '/1.0')).status).toBe(200);
    const listed = (await daemon.request<string[]>('GET', volumes('p'))).body.metadata;
    expect(listed.map((url) => url.split('/').at(-1) ?? '').toSorted(byText)).toEqual([...made, 'v'].toSorted(byText));
    expect(await descriptionOf('v')).toBe('before');
    expect(readFileSync(join(disk.path, 'storage-pools/p/custom/default_v/file'), 'utf8')).toBe('precious');
    await disk.empty();
    await daemon.run('PATCH', `${volumes('p')}/v`, { description: 'after' });
    await daemon.run('POST', volumes('p'), { name: 'again' });
    expect(await descriptionOf('v')).toBe('after');
    // A restart finds the same.
    await daemon.restart();
    expect(await descriptionOf('v')).toBe('after');
    const folders = namesIn(join(disk.path, 'storage-pools/p/custom'));
    expect(folders).toEqual([...made, 'v', 'again'].map((name) => `default_${name}`).toSorted());
  });

  it.each(['none', 'gzip'])(
    'refuses a backup that does not fit and leaves nothing of it: %s',
    {
      timeout: 180_000,
    },
    async (compression_algorithm) => {
      const backups = `${volumes('p')}/v/backups`;
      writeFileSync(join(disk.path, 'storage-pools/p/custom/default_v/large'), randomBytes(10 * MIB));
      await disk.fill(8 * MIB);
      const refusal = await failureOf(daemon, 'POST', backups, { name: 'b', compression_algorithm });
      expect(refusal).toContain('No space left for the backup');
      expect(namesIn(join(disk.path, 'backups/custom/p/default_v'))).toEqual([]);
      await disk.empty();
      await daemon.run('POST', backups, { name: 'b', compression_algorithm });
      expect(namesIn(join(disk.path, 'backups/custom/p/default_v'))).toEqual(['b']);
      await daemon.run('DELETE', `${backups}/b`);
    },
  );

  it('is survived by a daemon that is killed on it', { timeout: 300_000 }, async () => {
    await disk.fill();
    await daemon.kill();
    const up = await daemon.start().then(
      () => true,
      () => false,
    );
    await disk.empty();
    if (!up) {
      await daemon.kill(); // it may be up and not answer
      await daemon.start();
    }
    expect(await descriptionOf('v')).toBe('before');
    await daemon.run('PATCH', `${volumes('p')}/v`, { description: 'later' });
    expect(await descriptionOf('v')).toBe('later');
  });
});
