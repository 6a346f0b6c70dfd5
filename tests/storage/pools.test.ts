import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { StoragePool } from '@keelson/api';
import { command, startDaemon, type TestDaemon } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

describe('storage pools', () => {
  let daemon: TestDaemon;
  let outside: string;

  beforeAll(async () => {
    outside = mkdtempSync(join(tmpdir(), 'pool-sources-'));
    daemon = await startDaemon();
  });
  afterAll(async () => {
    await daemon?.[Symbol.asyncDispose]();
    rmSync(outside, { recursive: true, force: true });
  });

  const source = (name: string): string => {
    const path = join(outside, name);
    mkdirSync(path);
    return path;
  };
  const lxc = (...args: string[]) => command('lxc', args, { env: { LXD_DIR: daemon.stateDir }, anyExit: true });
  const get = async (name: string) =>
    (await daemon.request<StoragePool>('GET', `/1.0/storage-pools/${name}`)).body.metadata;

  it('are created, shown, changed and deleted', async () => {
    const made = await daemon.request('POST', '/1.0/storage-pools', {
      name: 'p1',
      driver: 'dir',
      description: 'first',
    });
    expect(made).toMatchObject({ status: 201, headers: { location: '/1.0/storage-pools/p1' } });
    expect(await get('p1')).toEqual({
      config: { source: join(daemon.stateDir, 'storage-pools/p1') },
      description: 'first',
      driver: 'dir',
      locations: ['none'],
      managed: true,
      name: 'p1',
      status: 'Created',
      used_by: null,
    });
    const list = await daemon.request<string[]>('GET', '/1.0/storage-pools');
    expect(list.body.metadata).toEqual(['/1.0/storage-pools/p1']);
    await daemon.run('PATCH', '/1.0/storage-pools/p1', { config: { 'user.a': '1', 'volume.size': '10MB' } });
    expect(await get('p1')).toMatchObject({ description: 'first', config: { 'user.a': '1', 'volume.size': '10MB' } });
    const { config } = await get('p1');
    await daemon.run('PUT', '/1.0/storage-pools/p1', {
      description: 'new',
      config: { source: config['source'], 'user.b': '2' },
    });
    expect(await get('p1')).toMatchObject({ description: 'new', config: { 'user.b': '2' } });
    expect((await get('p1')).config).not.toHaveProperty('user.a');
    const { body } = await daemon.request<{ space: { used: number; total: number } }>(
      'GET',
      '/1.0/storage-pools/p1/resources',
    );
    expect(body.metadata.space.total).toBeGreaterThan(body.metadata.space.used);
    await daemon.run('DELETE', '/1.0/storage-pools/p1');
    expect((await daemon.request('GET', '/1.0/storage-pools/p1')).body).toMatchObject({
      error_code: 404,
      error: 'Storage pool not found',
    });
    expect(readdirSync(join(daemon.stateDir, 'storage-pools'))).toEqual([]);
  });

  it.each([
    [{ name: '', driver: 'dir' }, 400, 'No name provided'],
    [{ name: 'a/b', driver: 'dir' }, 400, 'Storage pool names may not contain slashes'],
    [{ name: 'a b', driver: 'dir' }, 400, 'Storage name cannot contain white space'],
    [{ name: '..', driver: 'dir' }, 400, 'Invalid storage pool name ".."'],
    [{ name: 'x', driver: '' }, 400, 'No driver provided'],
    [{ name: 'x', driver: 'nope' }, 400, 'Unknown driver'],
    [{ name: 'x', driver: 'dir', config: { size: '1GB' } }, 400, 'Invalid option "size"'],
    [
      { name: 'x', driver: 'dir', config: { 'volume.size': 'x' } },
      400,
      'Invalid value for option "volume.size": Invalid value: x',
    ],
    [{ name: 'x', driver: 'dir', config: { source: '/no/such' } }, 400, "Source path '/no/such' doesn't exist"],
    [{ name: 'x', driver: 'dir', config: { source: '/' } }, 400, "Source path '/' cannot hold a storage pool"],
    [{ name: 'x', driver: 'dir', config: { source: '/etc' } }, 400, "Source path '/etc' cannot hold a storage pool"],
  ])('refuse %j', async (body, status, error) => {
    expect((await daemon.request('POST', '/1.0/storage-pools', body)).body).toMatchObject({
      error_code: status,
      error,
    });
    expect(readdirSync(join(daemon.stateDir, 'storage-pools'))).toEqual([]);
  });

  it('do not move and do not take a taken name', async () => {
    const path = source('taken');
    await daemon.run('POST', '/1.0/storage-pools', { name: 'here', driver: 'dir', config: { source: path } });
    const again = await daemon.request('POST', '/1.0/storage-pools', { name: 'here', driver: 'dir' });
    expect(again.body).toMatchObject({
      error_code: 409,
      error: 'The storage pool already exists: The record already exists',
    });
    const moved = await daemon.request('PUT', '/1.0/storage-pools/here', { config: { source: '/elsewhere' } });
    expect(moved.body).toMatchObject({
      error_code: 400,
      error: 'Pool source cannot be changed when not in pending state',
    });
    const unknown = await daemon.request('PATCH', '/1.0/storage-pools/here', { config: { 'volume.zfs.foo': 'x' } });
    expect(unknown.body).toMatchObject({ error_code: 400, error: 'Invalid option "volume.zfs.foo"' });
    await daemon.run('DELETE', '/1.0/storage-pools/here');
    expect(readdirSync(path)).toEqual([]);
  });

  it('do not take a folder that holds something', async () => {
    const path = source('full');
    writeFileSync(join(path, 'precious'), 'data');
    const refused = await daemon.request('POST', '/1.0/storage-pools', {
      name: 'x',
      driver: 'dir',
      config: { source: path },
    });
    expect(refused.body).toMatchObject({ error_code: 400, error: `Source path '${path}' isn't empty` });
    expect(readdirSync(path)).toEqual(['precious']);
  });

  it('are unavailable while their source is gone, and back with it', async () => {
    const path = source('usb');
    await daemon.run('POST', '/1.0/storage-pools', { name: 'usb', driver: 'dir', config: { source: path } });
    await daemon.stop();
    await command('umount', ['-l', join(daemon.stateDir, 'storage-pools/usb')]);
    renameSync(path, `${path}-away`);
    await daemon.start();
    expect(await get('usb')).toMatchObject({ status: 'Unavailable' });
    const { body } = await daemon.request('GET', '/1.0/storage-pools/usb/resources');
    expect(body).toMatchObject({
      error_code: 503,
      error: `Storage pool "usb" is unavailable: Source path '${path}' doesn't exist`,
    });
    renameSync(`${path}-away`, path);
    expect((await daemon.request('GET', '/1.0/storage-pools/usb/resources')).status).toBe(200);
    expect(await get('usb')).toMatchObject({ status: 'Created' });
    await daemon.run('DELETE', '/1.0/storage-pools/usb');
  });

  it('are refused deletion while a profile uses them', async () => {
    await daemon.run('POST', '/1.0/storage-pools', { name: 'used', driver: 'dir' });
    const devices = { root: { type: 'disk', path: '/', pool: 'used' } };
    await daemon.run('POST', '/1.0/profiles', { name: 'on-used', devices });
    expect(await get('used')).toMatchObject({ used_by: ['/1.0/profiles/on-used'] });
    const refused = await daemon.request('DELETE', '/1.0/storage-pools/used');
    const error = 'The storage pool is currently in use: /1.0/profiles/on-used';
    expect(refused.body).toMatchObject({ error_code: 400, error });
    for (let i = 0; i < 6; i++) {
      await daemon.run('POST', '/1.0/storage-pools/used/volumes/custom', { name: `v${i}`, config: {} });
    }
    const many = await daemon.request('DELETE', '/1.0/storage-pools/used');
    expect(many.body.error).toMatch(
      /^The storage pool is currently in use: (?:\/1\.0\/\S+, ){4}\/1\.0\/\S+ and 2 more$/u,
    );
    for (let i = 0; i < 6; i++) await daemon.run('DELETE', `/1.0/storage-pools/used/volumes/custom/v${i}`);
    await daemon.run('DELETE', '/1.0/profiles/on-used');
    await daemon.run('DELETE', '/1.0/storage-pools/used');
  });

  it('work with the lxc client', async () => {
    expect(await lxc('storage', 'create', 'cli', 'dir', 'user.note=x')).toMatchObject({ code: 0 });
    expect((await lxc('storage', 'list', '--format=csv')).stdout).toContain('cli,dir,');
    expect((await lxc('storage', 'get', 'cli', 'user.note')).stdout.trim()).toBe('x');
    expect(await lxc('storage', 'set', 'cli', 'user.note', 'y')).toMatchObject({ code: 0 });
    expect((await lxc('storage', 'show', 'cli')).stdout).toContain('user.note: "y"');
    expect(await lxc('storage', 'unset', 'cli', 'user.note')).toMatchObject({ code: 0 });
    expect((await lxc('storage', 'info', 'cli')).stdout).toContain('space used');
    expect(await lxc('storage', 'delete', 'cli')).toMatchObject({ code: 0 });
  });
});
