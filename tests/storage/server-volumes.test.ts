import { existsSync, lstatSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { StorageVolume } from '@keelson/api';
import { tinyImage, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { InstanceWorld } from '../instances/world.ts';

const volumes = (pool: string): string => `/1.0/storage-pools/${pool}/volumes/custom`;
const BACKUPS = '/1.0/instances/c1/backups';

describe('backups and images on volumes', { timeout: 180_000 }, () => {
  let world: InstanceWorld;

  beforeAll(async () => {
    world = await InstanceWorld.open();
    await world.daemon.run('POST', '/1.0/storage-pools', { name: 'b', driver: 'btrfs', config: { size: '512MiB' } });
    for (const name of ['v', 'w', 'full', 'snap']) await world.daemon.run('POST', volumes('p'), { name });
    for (const name of ['v', 'w']) await world.daemon.run('POST', volumes('b'), { name });
    await world.daemon.run('POST', volumes('b'), { name: 'block', content_type: 'block', config: { size: '8MiB' } });
    await world.daemon.run('POST', `${volumes('p')}/snap/snapshots`, { name: 's' });
    writeFileSync(at('storage-pools/p/custom/default_full/file'), 'x');
    await world.ok('init', 'tiny', 'c1', '-s', 'p');
  }, 120_000);
  afterAll(() => world?.[Symbol.asyncDispose]());

  const at = (path: string): string => join(world.daemon.stateDir, path);
  const set = async (config: Record<string, string>) => {
    const { status, body } = await world.daemon.request('PATCH', '/1.0', { config });
    return { status, error: body.error };
  };
  const on = (pool: string, volume: string) => at(`storage-pools/${pool}/custom/default_${volume}`);
  const linkOf = (what: string): string | undefined =>
    lstatSync(at(what)).isSymbolicLink() ? readlinkSync(at(what)) : undefined;
  const refusal = async (method: string, path: string, body?: unknown): Promise<string> =>
    world.daemon.run(method, path, body).then(
      () => '',
      (error: unknown) => String(error),
    );
  const ok = { status: 200, error: '' };

  it('refuses what cannot be one, in the words of LXD', async () => {
    const key = 'storage.backups_volume';
    const cases: [value: string, status: number, words: string][] = [
      ['foo', 400, 'Invalid syntax for volume, must be <pool>/<volume>'],
      ['a/b/c', 400, 'Invalid syntax for volume, must be <pool>/<volume>'],
      ['nope/v', 404, 'Unable to load storage pool "nope": Storage pool not found'],
      ['p/nope', 404, 'Failed loading storage volume "p/nope" in "default" project: Storage volume not found'],
      ['b/block', 400, 'Storage volume "b/block" in "default" project is not filesystem content type'],
      ['p/snap', 400, 'Storage volumes for use by the server itself cannot have snapshots'],
      ['p/full', 400, 'Storage volume "p/full" isn\'t empty'],
    ];
    for (const [value, status, words] of cases)
      expect(await set({ [key]: value }), value).toEqual({
        status,
        error: `Failed validation of "${key}": ${words}`,
      });
    expect(await set({ [key]: 'p/v', 'storage.images_volume': 'p/v' })).toMatchObject({ status: 400 });
    await world.ok('storage', 'volume', 'attach', 'p', 'w', 'c1', '/w');
    expect((await set({ [key]: 'p/w' })).error).toContain('is attached to an instance or a profile');
    await world.ok('storage', 'volume', 'detach', 'p', 'w', 'c1');
    expect(linkOf('backups')).toBeUndefined();
  });

  it('moves what is there along, and new things go there', async () => {
    await world.daemon.run('POST', BACKUPS, { name: 'before', compression_algorithm: 'none' });
    const images = readdirSync(at('images')).sort();
    expect(await set({ 'storage.backups_volume': 'b/v', 'storage.images_volume': 'p/v' })).toEqual(ok);
    expect(linkOf('backups')).toBe(on('b', 'v'));
    expect(linkOf('images')).toBe(on('p', 'v'));
    expect(lstatSync(on('b', 'v')).mode & 0o777).toBe(0o700);
    expect(readdirSync(on('p', 'v')).sort()).toEqual(images);
    await world.daemon.run('POST', BACKUPS, { name: 'after' });
    expect(readdirSync(join(on('b', 'v'), 'instances/c1')).sort()).toEqual(['after', 'before']);
    await world.ok('export', 'c1', at('c1.tar'));
    await world.ok('import', at('c1.tar'), 'c2', '-s', 'b');
    await until('the upload to go', async () => readdirSync(join(on('b', 'v'), '.incoming')).length === 0);
    const { metadata, rootfs } = await tinyImage();
    await world.ok('image', 'delete', 'tiny');
    expect(readdirSync(on('p', 'v'))).toEqual([]);
    await world.ok('image', 'import', metadata, rootfs, '--alias', 'tiny');
    expect(readdirSync(on('p', 'v')).sort()).toEqual(images);
    await world.ok('init', 'tiny', 'c3', '-s', 'b');
    await world.ok('delete', 'c2', 'c3');
  });

  it('keeps the volume from all that would take it away or into the hands of a guest', async () => {
    const url = `${volumes('b')}/v`;
    const { body } = await world.daemon.request<StorageVolume>('GET', url);
    expect(body.metadata.used_by).toEqual(['/1.0']);
    expect(await refusal('DELETE', url)).toContain('The storage volume is still in use');
    for (const wanted of [{ name: 'other' }, { name: 'v', pool: 'p' }])
      expect(await refusal('POST', url, wanted)).toContain('Volume is used by the server itself and cannot be renamed');
    expect(await refusal('POST', `${url}/snapshots`, { name: 's' })).toContain(
      'Volumes used by the server itself cannot have snapshots',
    );
    const { code, stderr } = await world.lxc('storage', 'volume', 'attach', 'b', 'v', 'c1', '/v');
    expect(code).not.toBe(0);
    expect(stderr).toContain('Volumes used by the server itself cannot be attached');
    expect(await refusal('DELETE', '/1.0/storage-pools/b')).toContain('in use');
  });

  it('goes on to another volume and, unset, back to the state folder; a restart changes nothing', async () => {
    expect(await set({ 'storage.backups_volume': 'p/w' })).toEqual(ok);
    expect(readdirSync(on('b', 'v'))).toEqual([]);
    await world.daemon.restart();
    expect(linkOf('backups')).toBe(on('p', 'w'));
    expect(readdirSync(join(on('p', 'w'), 'instances/c1')).sort()).toEqual(['after', 'before']);
    await world.daemon.run('POST', `${BACKUPS}/after`, { name: 'later' });
    await world.ok('rename', 'c1', 'c4');
    expect(readdirSync(join(on('p', 'w'), 'instances/c4')).sort()).toEqual(['before', 'later']);
    await world.ok('rename', 'c4', 'c1');
    expect(await set({ 'storage.backups_volume': '', 'storage.images_volume': '' })).toEqual(ok);
    for (const what of ['backups', 'images']) {
      expect(linkOf(what)).toBeUndefined();
      expect(existsSync(at(`${what}.new`))).toBe(false);
    }
    expect(readdirSync(at('backups/instances/c1')).sort()).toEqual(['before', 'later']);
    expect(readdirSync(on('p', 'w'))).toEqual([]);
    await world.daemon.run('DELETE', `${volumes('p')}/w`);
  });

  it.each([1, 15, 40, 90])('a switch that is killed after %i ms is done or not, and nothing is lost', async (after) => {
    const before = (await world.daemon.request<{ config: Record<string, string> }>('GET', '/1.0')).body.metadata.config;
    const old = before['storage.backups_volume'] ?? '';
    const wanted = old === '' ? 'b/w' : '';
    const change = set({ 'storage.backups_volume': wanted }).catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, after));
    await world.daemon.kill();
    await change;
    await world.daemon.start();
    const { config } = (await world.daemon.request<{ config: Record<string, string> }>('GET', '/1.0')).body.metadata;
    const now = config['storage.backups_volume'] ?? '';
    expect([old, wanted]).toContain(now);
    expect(linkOf('backups')).toBe(now === '' ? undefined : on('b', 'w'));
    expect(readdirSync(at('backups/instances/c1')).sort()).toEqual(['before', 'later']);
    if (now === '') expect(readdirSync(on('b', 'w'))).toEqual([]);
    expect(existsSync(at('backups.new'))).toBe(false);
  });
});
