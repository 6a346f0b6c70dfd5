import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import type { StorageVolume, StorageVolumeSnapshot } from '@keelson/api';
import { command, startDaemon, type TestDaemon } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const P = '/1.0/storage-pools/p/volumes';
const C = `${P}/custom`;

describe('custom volumes', () => {
  let daemon: TestDaemon;

  beforeAll(async () => {
    daemon = await startDaemon();
    await daemon.run('POST', '/1.0/storage-pools', { name: 'p', driver: 'dir' });
    await daemon.run('POST', '/1.0/storage-pools', { name: 'b', driver: 'btrfs', config: { size: '256MiB' } });
  });
  afterAll(() => daemon?.[Symbol.asyncDispose]());

  const folder = (name: string, pool = 'p') =>
    join(daemon.stateDir, 'storage-pools', pool, 'custom', `default_${name}`);
  const get = async (name: string, pool = 'p') =>
    (await daemon.request<StorageVolume>('GET', `/1.0/storage-pools/${pool}/volumes/custom/${name}`)).body.metadata;
  const failure = async (method: string, path: string, body?: unknown) => {
    const answer = await daemon.request(method, path, body);
    return [answer.body.error_code, answer.body.error];
  };
  const create = (name: string, body: object = {}) => daemon.run('POST', C, { name, ...body });
  const lxc = (...args: string[]) => command('lxc', args, { env: { LXD_DIR: daemon.stateDir }, anyExit: true });
  const put = (bytes: Uint8Array, headers: Record<string, string>) =>
    new Promise<{ status: number; body: { error: string; operation: string } }>((resolve, reject) => {
      const options = {
        socketPath: daemon.socket,
        path: C,
        method: 'POST',
        headers: { 'content-type': 'application/octet-stream', ...headers },
      };
      const request = httpRequest(options, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, body: JSON.parse(Buffer.concat(chunks).toString()) }),
        );
      });
      request.on('error', reject);
      request.end(bytes);
    });

  it('are created, listed, shown, changed and deleted', async () => {
    const made = await daemon.request('POST', C, { name: 'v1', config: { 'user.a': '1' }, description: 'first' });
    expect(made).toMatchObject({ status: 200, body: { type: 'sync', metadata: {} } });
    expect(await get('v1')).toMatchObject({
      config: { 'user.a': '1' },
      description: 'first',
      name: 'v1',
      type: 'custom',
      used_by: [],
      location: 'none',
      content_type: 'filesystem',
      project: 'default',
    });
    expect((await daemon.request(`GET`, P)).body.metadata).toEqual([`${C}/v1`]);
    expect((await daemon.request('GET', `${P}/container`)).body.metadata).toEqual([]);
    await daemon.run('PATCH', `${C}/v1`, { config: { 'user.b': '2' } });
    expect(await get('v1')).toMatchObject({ description: 'first', config: { 'user.a': '1', 'user.b': '2' } });
    await daemon.run('PUT', `${C}/v1`, { config: { 'snapshots.schedule': '@daily' } });
    expect(await get('v1')).toMatchObject({ description: '', config: { 'snapshots.schedule': '@daily' } });
    expect(await failure('POST', C, { name: 'v1' })).toEqual([409, 'Volume by that name already exists']);
    await daemon.run('DELETE', `${C}/v1`);
    expect(await failure('GET', `${C}/v1`)).toEqual([404, 'Storage pool volume not found']);
    expect(existsSync(folder('v1'))).toBe(false);
  });

  it.each([
    ['POST', C, { name: '' }, 400, 'No name provided'],
    ['POST', C, { name: 'a/b' }, 400, 'Storage volume names may not contain slashes'],
    ['POST', C, { name: '..' }, 400, 'Invalid storage volume name ".."'],
    ['POST', C, { name: 'x', content_type: 'foo' }, 400, 'Invalid volume content type name'],
    ['POST', C, { name: 'x', config: { foo: 'b' } }, 400, 'Invalid option for volume "default_x" option "foo"'],
    [
      'POST',
      C,
      { name: 'x', config: { size: 'b' } },
      400,
      'Invalid value for volume "default_x" option "size": Invalid value: b',
    ],
    [
      'POST',
      `${P}/container`,
      { name: 'x' },
      400,
      'Currently not allowed to create storage volumes of type "container"',
    ],
    ['POST', P, { name: 'x' }, 400, 'You must provide a storage volume type of the storage volume'],
    ['POST', '/1.0/storage-pools/nope/volumes/custom', { name: 'x' }, 404, 'Storage pool not found'],
    ['GET', `${P}/foo`, undefined, 400, 'Invalid storage volume type name'],
    ['GET', `${C}/nope/state`, undefined, 404, 'Storage pool volume not found'],
    ['DELETE', `${C}/nope`, undefined, 404, 'Storage pool volume not found'],
    ['POST', `${C}/nope`, { name: 'x' }, 404, 'Storage pool volume not found'],
    ['POST', `${C}/nope/snapshots`, { name: 'x' }, 404, 'Storage pool volume not found'],
    ['POST', C, { name: 'x', source: { type: 'foo', name: 'y' } }, 400, 'Unknown source type "foo"'],
  ])('refuse %s %s %j', async (method, path, body, status, error) => {
    expect(await failure(method, path, body)).toEqual([status, error]);
    expect(readdirSync(join(daemon.stateDir, 'storage-pools/p/custom'))).toEqual([]);
  });

  it('take the pool’s defaults', async () => {
    await daemon.run('PATCH', '/1.0/storage-pools/p', {
      config: { 'volume.size': '1GB', 'volume.security.shifted': 'true', 'volume.snapshots.expiry': '1d' },
    });
    await create('d1');
    await create('d2', { content_type: 'block', config: { size: '10MiB' } });
    expect((await get('d1')).config).toEqual({ size: '1GB', 'security.shifted': 'true', 'snapshots.expiry': '1d' });
    expect((await get('d2')).config).toEqual({ size: '10MiB', 'snapshots.expiry': '1d' });
    await daemon.run('PATCH', `${C}/d2`, { config: { size: '20MiB' } });
    expect(await failure('PATCH', `${C}/d2`, { config: { size: '1MiB' } })).toEqual([
      400,
      'Block volumes cannot be shrunk',
    ]);
    await daemon.run('PATCH', '/1.0/storage-pools/p', {
      config: { 'volume.size': '', 'volume.security.shifted': '', 'volume.snapshots.expiry': '' },
    });
    for (const name of ['d1', 'd2']) await daemon.run('DELETE', `${C}/${name}`);
  });

  it('have snapshots', async () => {
    await create('s');
    writeFileSync(join(folder('s'), 'file'), 'one');
    await daemon.run('POST', `${C}/s/snapshots`, {});
    await daemon.run('POST', `${C}/s/snapshots`, { name: 'named', expires_at: '2040-01-01T00:00:00Z' });
    expect(await failure('POST', `${C}/s/snapshots`, { name: 'named' })).toEqual([
      409,
      'Snapshot "named" already in use',
    ]);
    expect((await failure('POST', `${C}/s/snapshots`, { name: 'a/b' }))[0]).toBe(400);
    expect((await failure('POST', `${C}/s/snapshots`, { name: '..' }))[0]).toBe(400);
    expect((await daemon.request('GET', `${C}/s/snapshots`)).body.metadata).toEqual([
      `${C}/s/snapshots/snap0`,
      `${C}/s/snapshots/named`,
    ]);
    await daemon.run('PATCH', `${C}/s/snapshots/named`, { description: 'text' });
    const { body } = await daemon.request<StorageVolumeSnapshot>('GET', `${C}/s/snapshots/named`);
    expect(body.metadata).toMatchObject({
      name: 'named',
      description: 'text',
      expires_at: '2040-01-01T00:00:00Z',
      content_type: 'filesystem',
    });
    writeFileSync(join(folder('s'), 'file'), 'two');
    await daemon.run('POST', `${C}/s/snapshots/named`, { name: 'renamed' });
    await daemon.run('PUT', `${C}/s`, { restore: 'renamed' });
    expect(readFileSync(join(folder('s'), 'file'), 'utf8')).toBe('one');
    expect(await failure('PUT', `${C}/s`, { restore: 'nope' })).toEqual([404, 'Snapshot not found']);
    await daemon.run('DELETE', `${C}/s/snapshots/renamed`);
    expect(await failure('DELETE', `${C}/s/snapshots/renamed`)).toEqual([404, 'Storage pool volume not found']);
    const list = await daemon.request<StorageVolume[]>('GET', `${P}?recursion=1&filter=type%20eq%20custom`);
    expect(list.body.metadata.map(({ name }) => name)).toEqual(['s', 's/snap0']);
    await daemon.run('DELETE', `${C}/s`);
    expect(readdirSync(join(daemon.stateDir, 'storage-pools/p/custom-snapshots'))).toEqual([]);
  });

  it('are copied, refreshed, renamed and moved, also to another pool', async () => {
    await create('o', { config: { 'user.k': 'v' } });
    mkdirSync(join(folder('o'), 'dir'));
    writeFileSync(join(folder('o'), 'dir/file'), 'one');
    chownSync(join(folder('o'), 'dir/file'), 1000, 1001);
    chmodSync(join(folder('o'), 'dir/file'), 0o4750);
    await daemon.run('POST', `${C}/o/snapshots`, { name: 's0' });
    writeFileSync(join(folder('o'), 'dir/file'), 'two');
    const source = { type: 'copy', pool: 'p', name: 'o' };
    for (const pool of ['p', 'b']) {
      await daemon.run('POST', `/1.0/storage-pools/${pool}/volumes/custom`, { name: `o-${pool}`, source });
      expect(await get(`o-${pool}`, pool)).toMatchObject({ config: { 'user.k': 'v' } });
      expect(readFileSync(join(folder(`o-${pool}`, pool), 'dir/file'), 'utf8')).toBe('two');
      await daemon.run('PUT', `/1.0/storage-pools/${pool}/volumes/custom/o-${pool}`, { restore: 's0' });
      const stat = (
        await command('stat', ['-c', '%u %g %a', join(folder(`o-${pool}`, pool), 'dir/file')])
      ).stdout.trim();
      expect(stat).toBe('1000 1001 4750');
      expect(readFileSync(join(folder(`o-${pool}`, pool), 'dir/file'), 'utf8')).toBe('one');
    }
    await daemon.run('POST', `${C}/o/snapshots`, { name: 's1' });
    await daemon.run('POST', '/1.0/storage-pools/b/volumes/custom', {
      name: 'o-b',
      source: { ...source, refresh: true },
    });
    expect(readFileSync(join(folder('o-b', 'b'), 'dir/file'), 'utf8')).toBe('two');
    expect(
      (await daemon.request('GET', '/1.0/storage-pools/b/volumes/custom/o-b/snapshots')).body.metadata,
    ).toHaveLength(2);
    expect(await failure('POST', C, { name: 'o-p', source })).toEqual([409, 'Volume by that name already exists']);
    await expect(daemon.run('POST', C, { name: 'x', source: { ...source, name: 'nope' } })).rejects.toThrow(
      'does not exist on pool "p"',
    );

    const renamed = await daemon.request('POST', `${C}/o-p`, { name: 'o-r' });
    expect(renamed).toMatchObject({ status: 201, headers: { location: `${C}/o-r` } });
    expect(await failure('POST', `${C}/o-r`, { name: 'o' })).toEqual([409, 'Volume by that name already exists']);
    await daemon.run('POST', `${C}/o-r`, { name: 'o-m', pool: 'b' });
    expect(readFileSync(join(folder('o-m', 'b'), 'dir/file'), 'utf8')).toBe('one');
    expect(existsSync(folder('o-r'))).toBe(false);
    expect(await failure('GET', `${C}/o-r`)).toEqual([404, 'Storage pool volume not found']);
    await daemon.run('DELETE', `${C}/o`);
    for (const name of ['o-b', 'o-m']) await daemon.run('DELETE', `/1.0/storage-pools/b/volumes/custom/${name}`);
  });

  it('belong to projects and move between them', async () => {
    await daemon.run('POST', '/1.0/projects', { name: 'other', config: { 'features.storage.volumes': 'true' } });
    await create('pm');
    writeFileSync(join(folder('pm'), 'file'), 'x');
    await daemon.run('POST', `${C}/pm`, { name: 'pm', project: 'other' });
    expect(await failure('GET', `${C}/pm`)).toEqual([404, 'Storage pool volume not found']);
    const list = await daemon.request('GET', `${C}?project=other`);
    expect(list.body.metadata).toEqual([`${C}/pm?project=other`]);
    expect(readdirSync(join(daemon.stateDir, 'storage-pools/p/custom/other_pm'))).toEqual(['file']);
    await daemon.run('DELETE', `${C}/pm?project=other`);
    await daemon.run('DELETE', '/1.0/projects/other');
  });

  it('are not deleted while they are attached, and renamed in what attaches them', async () => {
    await create('att');
    const devices = { data: { type: 'disk', pool: 'p', source: 'att', path: '/data' } };
    await daemon.run('POST', '/1.0/profiles', { name: 'with-att', devices });
    expect((await get('att')).used_by).toEqual(['/1.0/profiles/with-att']);
    expect(await failure('DELETE', `${C}/att`)).toEqual([400, 'The storage volume is still in use']);
    await daemon.run('POST', `${C}/att`, { name: 'att2' });
    const { body } = await daemon.request<{ devices: object }>('GET', '/1.0/profiles/with-att');
    expect(body.metadata.devices).toEqual({ data: { ...devices.data, source: 'att2' } });
    await daemon.run('DELETE', '/1.0/profiles/with-att');
    await daemon.run('DELETE', `${C}/att2`);
  });

  it('are backed up, exported and imported again', async () => {
    await create('bk', { config: { 'user.k': 'v' } });
    writeFileSync(join(folder('bk'), 'file'), 'one');
    await daemon.run('POST', `${C}/bk/snapshots`, { name: 's0' });
    writeFileSync(join(folder('bk'), 'file'), 'two');
    writeFileSync(join(folder('bk'), 'zeros'), Buffer.alloc(5000));
    chownSync(folder('bk'), 1000, 1001);
    chmodSync(folder('bk'), 0o2750);
    for (const compression_algorithm of ['gzip', 'zstd', 'xz', 'none']) {
      await daemon.run('POST', `${C}/bk/backups`, { name: compression_algorithm, compression_algorithm });
      const target = join(daemon.stateDir, `export.${compression_algorithm}`);
      await command('curl', [
        '-sf',
        '--unix-socket',
        daemon.socket,
        '-o',
        target,
        `http://x${C}/bk/backups/${compression_algorithm}/export`,
      ]);
      const { stdout } = await command('tar', ['tf', target]);
      expect(stdout.split('\n').filter((line) => line.endsWith('file'))).toEqual([
        'backup/volume-snapshots/s0/file',
        'backup/volume/file',
      ]);
      const { status, body } = await put(readFileSync(target), { 'x-lxd-name': `im-${compression_algorithm}` });
      expect({ status, error: body.error }).toEqual({ status: 202, error: '' });
      await daemon.request('GET', `${body.operation}/wait`);
      expect(readFileSync(join(folder(`im-${compression_algorithm}`), 'file'), 'utf8')).toBe('two');
      const root = await command('stat', ['-c', '%u %g %a', folder(`im-${compression_algorithm}`)]);
      expect(root.stdout).toBe('1000 1001 2750\n');
      await daemon.run('PUT', `${C}/im-${compression_algorithm}`, { restore: 's0' });
      expect(readFileSync(join(folder(`im-${compression_algorithm}`), 'file'), 'utf8')).toBe('one');
      expect(existsSync(join(folder(`im-${compression_algorithm}`), 'zeros'))).toBe(false);
      await daemon.run('DELETE', `${C}/im-${compression_algorithm}`);
      rmSync(target);
    }
    expect((await daemon.request<string[]>('GET', `${C}/bk/backups`)).body.metadata).toHaveLength(4);
    expect(await failure('POST', `${C}/bk/backups`, { compression_algorithm: 'sh -c id' })).toEqual([
      400,
      'Invalid compression algorithm "sh -c id"',
    ]);
    await daemon.run('POST', `${C}/bk/backups/none`, { name: 'other' });
    await daemon.run('DELETE', `${C}/bk/backups/other`);
    expect(await failure('GET', `${C}/bk/backups/other`)).toEqual([404, 'Storage volume backup not found']);
    await daemon.run('DELETE', `${C}/bk`);
    expect(readdirSync(join(daemon.stateDir, 'scratch'))).toEqual([]);
  });

  it('do not let a hostile backup leave its volume', async () => {
    const work = join(daemon.stateDir, 'hostile');
    mkdirSync(join(work, 'backup'), { recursive: true });
    const index =
      'name: evil\ntype: custom\nsnapshots: []\nconfig:\n  volume:\n    name: evil\n    config: {}\n    content_type: filesystem\n';
    writeFileSync(join(work, 'backup/index.yaml'), index);
    const archive = async (...args: string[]) => {
      const file = join(work, 'evil.tar');
      await command('tar', ['-C', work, '-cPf', file, ...args]);
      return readFileSync(file);
    };
    symlinkSync('/', join(work, 'backup/volume'));
    expect(await put(await archive('backup/index.yaml', 'backup/volume'), {})).toMatchObject({ status: 400 });
    rmSync(join(work, 'backup/volume'));
    mkdirSync(join(work, 'backup/volume'));
    symlinkSync('/', join(work, 'backup/volume/out'));
    mkdirSync(join(work, 'x/out'), { recursive: true });
    writeFileSync(join(work, 'x/out/planted-by-test'), 'x');
    const behind = await archive('backup', '--transform=s,^x/,backup/volume/,', 'x/out/planted-by-test');
    expect(await put(behind, {})).toMatchObject({
      status: 400,
      body: { error: expect.stringContaining('lies behind a link') },
    });
    writeFileSync(join(work, 'f'), 'x');
    const dots = await archive('backup/index.yaml', '--transform=s,^f,backup/volume/../../../planted-by-test,', 'f');
    expect(await put(dots, {})).toMatchObject({
      status: 400,
      body: { error: expect.stringContaining('is outside the backup') },
    });
    expect(await put(Buffer.from('foo'), {})).toMatchObject({
      status: 400,
      body: { error: 'Unsupported compression' },
    });
    expect(await put(Buffer.alloc(0), {})).toMatchObject({ status: 400 });
    const cut = await archive('backup');
    expect(await put(cut.subarray(0, 700), {})).toMatchObject({ status: 400 });
    expect(existsSync('/planted-by-test')).toBe(false);
    expect(readdirSync(join(daemon.stateDir, 'storage-pools/p/custom'))).toEqual([]);
    expect(readdirSync(join(daemon.stateDir, 'scratch'))).toEqual([]);
    rmSync(work, { recursive: true });
  });

  it('take ISO images', async () => {
    const { body } = await put(Buffer.alloc(4096, 7), { 'x-lxd-name': 'iso', 'x-lxd-type': 'iso' });
    await daemon.request('GET', `${body.operation}/wait`);
    expect(await get('iso')).toMatchObject({ content_type: 'iso' });
    expect(readFileSync(join(folder('iso'), 'root.iso'))).toEqual(Buffer.alloc(4096, 7));
    await daemon.run('DELETE', `${C}/iso`);
  });

  it('tell their use', async () => {
    await create('u');
    expect((await daemon.request('GET', `${C}/u/state`)).body.metadata).toEqual({ usage: null });
    await daemon.run('POST', '/1.0/storage-pools/b/volumes/custom', { name: 'q', config: { size: '20MiB' } });
    writeFileSync(join(folder('q', 'b'), 'data'), Buffer.alloc(3_000_000, 1));
    await command('sync', ['-f', folder('q', 'b')]);
    const { metadata } = (
      await daemon.request<{ usage: { used: number; total: number } }>(
        'GET',
        '/1.0/storage-pools/b/volumes/custom/q/state',
      )
    ).body;
    expect(metadata.usage.total).toBe(20 * 1024 * 1024);
    expect(metadata.usage.used).toBeGreaterThan(2_900_000);
    await daemon.run('DELETE', `${C}/u`);
    await daemon.run('DELETE', '/1.0/storage-pools/b/volumes/custom/q');
  });

  it('say when the pool is full, and leave the old data', async () => {
    await daemon.run('POST', '/1.0/storage-pools/b/volumes/custom', { name: 'big' });
    await create('src');
    writeFileSync(join(folder('src'), 'a'), (await command('head', ['-c', '1', '/dev/zero'])).stdout);
    await command('dd', ['if=/dev/urandom', `of=${join(folder('src'), 'b')}`, 'bs=1M', 'count=300', 'status=none']);
    const full = daemon.run('POST', '/1.0/storage-pools/b/volumes/custom', {
      name: 'too-big',
      source: { type: 'copy', pool: 'p', name: 'src' },
    });
    await expect(full).rejects.toThrow(/No space left/);
    const list = await daemon.request<string[]>('GET', '/1.0/storage-pools/b/volumes/custom');
    expect(list.body.metadata).toEqual(['/1.0/storage-pools/b/volumes/custom/big']);
    expect(readdirSync(join(daemon.stateDir, 'storage-pools/b/custom'))).toEqual(['default_big']);
    await daemon.run('DELETE', `${C}/src`);
    await daemon.run('DELETE', '/1.0/storage-pools/b/volumes/custom/big');
  });

  it('work with the lxc client', async () => {
    const ok = async (...args: string[]) => {
      const done = await lxc(...args);
      expect(done, `lxc ${args.join(' ')}: ${done.stderr}`).toMatchObject({ code: 0 });
      return done.stdout;
    };
    await ok('storage', 'volume', 'create', 'p', 'cli', 'user.note=x');
    expect(await ok('storage', 'volume', 'list', 'p', '--format=csv')).toContain('custom,cli');
    await ok('storage', 'volume', 'set', 'p', 'cli', 'user.note', 'y');
    expect((await ok('storage', 'volume', 'get', 'p', 'cli', 'user.note')).trim()).toBe('y');
    await ok('storage', 'volume', 'snapshot', 'p', 'cli', 'first');
    expect(await ok('storage', 'volume', 'info', 'p', 'cli')).toContain('first');
    await ok('storage', 'volume', 'restore', 'p', 'cli', 'first');
    await ok('storage', 'volume', 'copy', 'p/cli', 'b/cli2');
    await ok('storage', 'volume', 'move', 'b/cli2', 'p/cli3');
    await ok('storage', 'volume', 'rename', 'p', 'cli3', 'cli4');
    const file = join(daemon.stateDir, 'cli.tar.gz');
    await ok('storage', 'volume', 'export', 'p', 'cli4', file);
    await ok('storage', 'volume', 'import', 'p', file, 'cli5');
    expect(await ok('storage', 'volume', 'show', 'p', 'cli5')).toContain('user.note: "y"');
    await ok('storage', 'volume', 'delete', 'p', 'cli/first');
    for (const name of ['cli', 'cli4', 'cli5']) await ok('storage', 'volume', 'delete', 'p', name);
  });
});
