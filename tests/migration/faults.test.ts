import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { command, named, allOf, probePrograms, probeRoot, until } from '@keelson/testkit';
import type { Operation } from '@keelson/api';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { MigrationWorld, type Side } from './world.ts';

const probe = allOf(probeRoot(), probePrograms('lxc', 'rsync', 'btrfs'));

describe.skipIf(!probe.ok)(named('transfers that break', probe), { timeout: 240_000 }, () => {
  let world: MigrationWorld;
  let a: Side;
  let b: Side;

  beforeAll(async () => {
    world = new MigrationWorld();
    a = await world.keelson('a', ['btrfs']);
    b = await world.keelson('b', ['dir', 'btrfs']);
    await world.ok('init', 'a:c1', '--empty');
    const root = join(a.dir, 'storage-pools/p-btrfs/containers/c1/rootfs');
    await command('dd', ['if=/dev/urandom', `of=${root}/big`, 'bs=1M', 'count=40']);
    await world.ok('storage', 'set', 'a:p-btrfs', 'rsync.compression', 'false');
  }, 240_000);
  afterAll(async () => world?.[Symbol.asyncDispose](), 120_000);

  // What another test, or an earlier try, left.
  beforeEach(async () => {
    for (const { daemon } of [a, b]) if (daemon?.isRunning === false) await daemon.start();
    await slow('0');
    for (const side of [a, b]) {
      const { body } = await side.request<Record<string, Operation[]>>('GET', '/1.0/operations?recursion=1');
      for (const operation of Object.values(body.metadata).flat())
        await side.request('DELETE', `/1.0/operations/${operation.id}`);
      await until('operations to end', async () => {
        const { body: left } = await side.request<Record<string, string[]>>('GET', '/1.0/operations');
        return (left.metadata['running'] ?? []).length === 0;
      });
    }
    for (const name of ['c1', 'taken']) await world.run('delete', '--force', `b:${name}`);
    await world.run('storage', 'volume', 'delete', 'b:p-dir', 'other');
    for (const one of [
      ['volume', 'delete', 'b:small', 'filler'],
      ['delete', 'b:small'],
    ])
      await world.run('storage', ...one);
  }, 120_000);

  const slow = (limit: string): Promise<string> => world.ok('storage', 'set', 'a:p-btrfs', 'rsync.bwlimit', limit);

  interface Begun {
    readonly operation: string;
    readonly certificate: string;
    readonly secrets: Record<string, string>;
  }

  /** The source's half of a pull. */
  async function begin(): Promise<Begun> {
    const { body } = await a.request<Operation>('POST', '/1.0/instances/c1', { migration: true });
    const { body: info } = await a.request<{ environment: { addresses: string[]; certificate: string } }>(
      'GET',
      '/1.0',
    );
    const { addresses, certificate } = info.metadata.environment;
    const secrets = body.metadata.metadata as Record<string, string>;
    return { operation: `https://${addresses[0]}/1.0/operations/${body.metadata.id}`, certificate, secrets };
  }

  async function pull(begun: Partial<Begun>, name = 'c1'): Promise<Operation> {
    const devices = { root: { type: 'disk', path: '/', pool: 'p-dir' } };
    const source = { type: 'migration', mode: 'pull', ...begun };
    const { body } = await b.request<Operation>('POST', '/1.0/instances', { name, devices, profiles: [], source });
    if (body.type !== 'async') throw new Error(body.error);
    return body.metadata;
  }

  const ended = async (side: Side, { id }: Pick<Operation, 'id'>): Promise<Operation> =>
    (await side.request<Operation>('GET', `/1.0/operations/${id}/wait?timeout=150`)).body.metadata;

  const idOf = ({ operation }: Begun): { id: string } => ({ id: operation.split('/').at(-1) ?? '' });

  /** The copy is running: bytes go by. */
  async function underWay(side: Side, { id }: Pick<Operation, 'id'>): Promise<void> {
    await until('the transfer to run', async () => {
      const { body } = await side.request<Operation>('GET', `/1.0/operations/${id}`);
      if (body.metadata.status_code >= 200) throw new Error(body.metadata.err);
      return body.metadata.metadata?.['fs_progress'] !== undefined;
    });
  }

  /** Nothing of c1 is at the target, nothing temporary at the source. */
  async function expectClean(): Promise<void> {
    expect((await b.request('GET', '/1.0/instances/c1')).status).toBe(404);
    expect((await b.request<string[]>('GET', '/1.0/storage-pools/p-dir/volumes/container')).body.metadata).toEqual([]);
    for (const folder of ['storage-pools/p-dir/containers', 'storage-pools/p-dir/layers', 'scratch'])
      await until(`${folder} to be empty`, async () => (await readdir(join(b.dir, folder))).length === 0);
    const temporary = join(a.dir, 'storage-pools/p-btrfs/containers-snapshots/c1');
    await until('the source to be as it was', async () => (await readdir(temporary).catch(() => [])).length === 0);
    expect(await readdir(join(a.dir, 'scratch'))).toEqual([]);
  }

  async function expectNextWorks(): Promise<void> {
    await slow('0');
    await world.ok('copy', 'a:c1', 'b:c1', '--storage', 'p-dir');
    await world.ok('delete', 'b:c1');
  }

  test('a wrong secret, another certificate, no operation', async () => {
    const begun = await begin();
    const wrong = await ended(b, await pull({ ...begun, secrets: { control: 'x', fs: 'y' } }));
    expect(wrong.err).toContain('refuses the connection');
    const { body } = await b.request<{ environment: { certificate: string } }>('GET', '/1.0');
    const other = await ended(b, await pull({ ...begun, certificate: body.metadata.environment.certificate }));
    expect(other.err).toContain('Unable to connect to');
    expect(other.err).toContain('another certificate');
    await expect(pull({ ...begun, operation: begun.operation.replace('https:', 'http:') })).rejects.toThrow('HTTPS');
    await expect(pull({ ...begun, operation: 'https://127.0.0.1/1.0/instances' })).rejects.toThrow('operation');
    await expect(pull({ ...begun, secrets: { control: 'x' } })).rejects.toThrow('Missing fs secret');
    const source = await ended(a, idOf(begun));
    expect(source).toMatchObject({ status: 'Failure', err: 'Timed out waiting for websockets to connect' });
    await expectClean();
  });

  test('a name that is taken, before the source is asked', async () => {
    await world.ok('init', 'b:taken', '--empty');
    const begun = await begin();
    await expect(pull(begun, 'taken')).rejects.toThrow('already exists');
    await world.ok('delete', 'b:taken');
    await expectNextWorks();
  });

  test('a target without room', async () => {
    await world.ok('storage', 'create', 'b:small', 'btrfs', 'size=115MiB');
    await world.ok('storage', 'volume', 'create', 'b:small', 'filler');
    const filler = join(b.dir, 'storage-pools/small/custom/default_filler/filler');
    await command('dd', ['if=/dev/urandom', `of=${filler}`, 'bs=1M', 'count=90'], { anyExit: true });
    await world.ok('storage', 'volume', 'create', 'b:p-dir', 'other');
    expect(await world.fails('copy', 'a:c1', 'b:c1', '--storage', 'small')).not.toBe('');
    expect((await b.request('GET', '/1.0/instances/c1')).status).toBe(404);
    expect(await readdir(join(b.dir, 'storage-pools/small/containers'))).toEqual([]);
    await world.ok('storage', 'volume', 'delete', 'b:small', 'filler');
    await world.ok('storage', 'delete', 'b:small');
    await expectNextWorks();
  });

  test('an operation that is cancelled', async () => {
    await slow('1000');
    const begun = await begin();
    const target = await pull(begun);
    await underWay(b, target);
    expect((await b.request('DELETE', `/1.0/operations/${target.id}`)).status).toBe(200);
    expect((await ended(b, target)).status).toBe('Cancelled');
    expect((await ended(a, idOf(begun))).status).toBe('Failure');
    await expectClean();
    await expectNextWorks();
  });

  test('kill -9 of the target', async () => {
    await slow('1000');
    const begun = await begin();
    await underWay(b, await pull(begun));
    await b.daemon?.kill();
    expect((await ended(a, idOf(begun))).err).toContain('closed the connection');
    await b.daemon?.start();
    await expectClean();
    await expectNextWorks();
  });

  test('kill -9 of the source', async () => {
    await slow('1000');
    const target = await pull(await begin());
    await underWay(b, target);
    await a.daemon?.kill();
    expect((await ended(b, target)).err).toContain('closed the connection');
    await a.daemon?.start();
    await expectClean();
    await expectNextWorks();
  });
});
