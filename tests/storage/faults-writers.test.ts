import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { InstanceWorld } from '../instances/world.ts';
import { namesIn } from './small-disk.ts';

const volumes = (pool: string) => `/1.0/storage-pools/${pool}/volumes/custom`;

describe('two who want one volume', () => {
  let world: InstanceWorld;

  beforeAll(async () => {
    world = await InstanceWorld.open();
    await world.daemon.run('POST', '/1.0/storage-pools', { name: 'b', driver: 'btrfs', config: { size: '256MiB' } });
  }, 120_000);
  afterAll(() => world?.[Symbol.asyncDispose](), 120_000);

  // What another test, or an earlier try, left.
  beforeEach(async () => {
    for (const name of await list('/1.0/instances')) await world.ok('delete', '--force', String(name));
    for (const pool of ['p', 'b']) {
      const { body } = await world.daemon.request<string[]>('GET', volumes(pool));
      for (const url of body.metadata) if (!url.includes('/snapshots/')) await world.daemon.run('DELETE', url);
    }
  }, 60_000);

  const folder = (pool: string, path: string) => join(world.daemon.stateDir, 'storage-pools', pool, path);
  const content = (pool: string, name: string) => folder(pool, `custom/default_${name}/file`);
  const list = async (url: string) =>
    ((await world.daemon.request<string[] | null>('GET', url)).body.metadata ?? []).map((one) => one.split('/').at(-1));

  /** Status of the answer, or of how its operation ended; and its words. */
  const outcome = async (method: string, path: string, body?: unknown): Promise<[number, string]> => {
    const { status, body: answer } = await world.daemon.request(method, path, body);
    if (answer.type !== 'async') return [status, answer.error ?? ''];
    const { body: done } = await world.daemon.request<{ status_code: number; err: string }>(
      'GET',
      `${answer.operation}/wait?timeout=150`,
    );
    return [done.metadata.status_code, done.metadata.err];
  };

  /** Records and folders tell the same. */
  const consistent = async (pool: string, at: string): Promise<void> => {
    const known = (await list(volumes(pool))).filter((name) => name !== 's0' && name !== 's1');
    expect(namesIn(folder(pool, 'custom')), at).toEqual(known.map((name) => `default_${name}`).toSorted());
    for (const name of known) {
      const kept = namesIn(folder(pool, `custom-snapshots/default_${name}`));
      expect((await list(`${volumes(pool)}/${name}/snapshots`)).map(String).toSorted(), at).toEqual(kept);
    }
  };

  it.each(['p', 'b'])('are served as if one came after the other: pool %s', { timeout: 240_000 }, async (pool) => {
    const url = `${volumes(pool)}/v`;
    const copy = { name: 'w', source: { type: 'copy', pool, name: 'v' } };
    const pairs = [
      [
        ['PUT', url, { restore: 's0' }],
        ['DELETE', url],
      ],
      [
        ['POST', volumes(pool), copy],
        ['POST', url, { name: 'x' }],
      ],
      [
        ['POST', volumes(pool), copy],
        ['DELETE', url],
      ],
      [
        ['POST', volumes(pool), copy],
        ['POST', volumes(pool), copy],
      ],
      [
        ['POST', `${url}/snapshots`, { name: 's1' }],
        ['DELETE', url],
      ],
      [
        ['POST', `${url}/snapshots`, { name: 's1' }],
        ['POST', `${url}/snapshots`, { name: 's1' }],
      ],
      [
        ['PUT', url, { restore: 's0' }],
        ['DELETE', `${url}/snapshots/s0`],
      ],
      [
        ['POST', `${url}/snapshots/s0`, { name: 's1' }],
        ['PUT', url, { restore: 's0' }],
      ],
      [
        ['POST', url, { name: 'x' }],
        ['POST', url, { name: 'y' }],
      ],
      [
        ['POST', `${url}/backups`, { name: 'k' }],
        ['DELETE', url],
      ],
      [
        ['DELETE', url],
        ['DELETE', url],
      ],
      [
        ['PATCH', url, { description: 'd' }],
        ['POST', url, { name: 'x' }],
      ],
    ] as const;
    for (const [one, other] of pairs) {
      await world.daemon.run('POST', volumes(pool), { name: 'v' });
      writeFileSync(content(pool, 'v'), 'old');
      await world.daemon.run('POST', `${url}/snapshots`, { name: 's0' });
      writeFileSync(content(pool, 'v'), 'new');
      const ends = await Promise.all([outcome(one[0], one[1], one[2]), outcome(other[0], other[1], other[2])]);
      const what = `${JSON.stringify([one, other])} ended ${JSON.stringify(ends)}`;
      expect(
        ends.some(([status]) => status < 400),
        what,
      ).toBe(true);
      for (const [status, text] of ends) {
        expect([200, 201, 202, 400, 404, 409], what).toContain(status);
        expect(text, what).not.toMatch(/ENOENT|EEXIST|undefined|internal/i);
      }
      await consistent(pool, what);
      for (const name of await list(volumes(pool))) {
        if (name === 's0' || name === 's1') continue;
        expect(['old', 'new'], what).toContain(readFileSync(content(pool, String(name)), 'utf8'));
        await world.daemon.run('DELETE', `${volumes(pool)}/${name}`);
      }
    }
    expect(namesIn(folder(pool, 'custom'))).toEqual([]);
  });

  it('may be two running instances', { timeout: 240_000 }, async () => {
    await world.daemon.run('POST', volumes('p'), { name: 'shared', config: { 'security.shifted': 'true' } });
    for (const name of ['one', 'two']) {
      await world.ok('launch', 'tiny', name);
      await world.ok('storage', 'volume', 'attach', 'p', 'shared', name, '/data');
    }
    const script = (name: string) =>
      `for i in 1 2 3 4 5 6 7 8 9; do echo ${name} >> /data/all; echo $i > /data/${name}$i; done`;
    await Promise.all(['one', 'two'].map((name) => world.ok('exec', name, '--', 'sh', '-c', script(name))));
    const lines = (await world.ok('exec', 'one', '--', 'cat', '/data/all')).trim().split('\n');
    expect(lines.filter((line) => line === 'one').length).toBe(9);
    expect(lines.filter((line) => line === 'two').length).toBe(9);
    for (const [method, body] of [
      ['PUT', { restore: 'nope' }],
      ['POST', { name: 'other' }],
      ['DELETE', undefined],
    ] as const) {
      const [status] = await outcome(method, `${volumes('p')}/shared`, body);
      expect([400, 404]).toContain(status);
    }
    await world.ok('storage', 'volume', 'detach', 'p', 'shared', 'one');
    expect(await world.ok('exec', 'one', '--', 'sh', '-c', 'ls /data 2> /dev/null; true')).not.toContain('two9');
    expect(await world.ok('exec', 'two', '--', 'sh', '-c', 'cat /data/one9 /data/two9')).toBe('9\n9\n');
  });

  it.each([
    ['..', 'volume'],
    ['.', 'volume'],
    ['a/b', 'volume'],
    ['../../etc', 'volume'],
    ['a\u0000b', 'volume'],
    ['a\nb', 'volume'],
    ['a\u007fb', 'volume'],
    ['x'.repeat(250), 'volume'],
    ['..', 'snapshot'],
    ['a/b', 'snapshot'],
    ['a\nb', 'snapshot'],
    ['x'.repeat(300), 'snapshot'],
    ['..', 'backup'],
    ['a/b', 'backup'],
    ['a\u0000b', 'backup'],
  ])('cannot call anything %j (%s)', async (name, kind) => {
    await outcome('POST', volumes('p'), { name: 'named' });
    const url = `${volumes('p')}/named`;
    const attempts: [string, string, object][] =
      kind === 'volume'
        ? [
            ['POST', volumes('p'), { name }],
            ['POST', url, { name }],
            ['POST', url, { name, pool: 'b' }],
            ['POST', volumes('p'), { name, source: { type: 'copy', pool: 'p', name: 'named' } }],
          ]
        : [['POST', `${url}/${kind}s`, { name }]];
    for (const [method, path, body] of attempts) {
      const [status, text] = await outcome(method, path, body);
      expect([method, path, status]).toEqual([method, path, 400]);
      expect(text).not.toBe('');
    }
    const encoded = encodeURIComponent(name);
    for (const method of kind === 'backup' ? ['GET', 'DELETE'] : ['GET', 'DELETE', 'PUT']) {
      const path = kind === 'volume' ? `${volumes('p')}/${encoded}` : `${url}/${kind}s/${encoded}`;
      const { status } = await world.daemon.request(method, path, method === 'PUT' ? { description: 'x' } : undefined);
      expect(status).toBeGreaterThanOrEqual(400);
      expect(status).toBeLessThan(500);
    }
    expect(existsSync(content('p', 'named').replace('/file', ''))).toBe(true);
    expect(namesIn(folder('p', 'custom-snapshots'))).toEqual([]);
  });
});
