import { join } from 'node:path';
import { allOf, named, probePrograms, probeRoot } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Manifest, makeNasty, manifestOf } from './manifest.ts';
import { MigrationWorld, type Side } from './world.ts';

const probe = allOf(probeRoot(), probePrograms('lxc', 'rsync', 'btrfs', 'getfattr', 'getfacl', 'setcap'));

describe.skipIf(!probe.ok)(named('instances and volumes between Keelsons', probe), () => {
  let world: MigrationWorld;
  let a: Side;
  let b: Side;
  let wanted: Manifest;
  const btrfs = (side: Side, name: string): string => join(side.dir, `storage-pools/p-btrfs/containers/${name}/rootfs`);

  beforeAll(async () => {
    world = new MigrationWorld();
    a = await world.keelson('a', ['dir', 'btrfs']);
    b = await world.keelson('b', ['dir', 'btrfs']);
    await world.image(a);
    await world.ok('init', 'a:tiny', 'a:c1', '--storage', 'p-btrfs', '-c', 'user.note=kept', '-c', 'user.when=first');
    wanted = await manifestOf(await makeNasty(btrfs(a, 'c1')));
    await world.ok('snapshot', 'a:c1', 's0');
    await world.ok('config', 'set', 'a:c1', 'user.when=second');
  });
  afterAll(async () => world?.[Symbol.asyncDispose]());

  test.each([
    ['pull', 'p-btrfs'],
    ['push', 'p-dir'],
    ['relay', 'p-btrfs'],
  ])('%s to %s keeps every file and snapshot', async (mode, pool) => {
    const name = `to-${mode}`;
    await world.ok('copy', 'a:c1', `b:${name}`, '--mode', mode, '--storage', pool);
    expect(await world.look(b, name)).toEqual(wanted);
    const { config } = await world.instance(b, name);
    expect(config).toMatchObject({ 'user.note': 'kept', 'user.when': 'second' });
    await world.ok('restore', `b:${name}`, 's0');
    expect((await world.instance(b, name)).config['user.when']).toBe('first');
    expect(await world.look(b, name)).toEqual(wanted);
    await world.ok('delete', `b:${name}`);
  });

  test('a dir root comes back from another server as it was, and a snapshot travels alone', async () => {
    await world.ok('copy', 'a:c1', 'b:d1', '--storage', 'p-dir', '--instance-only');
    expect(await world.ok('list', 'b:d1', '-c', 'S', '--format', 'csv')).toBe('0\n');
    await world.ok('move', 'b:d1', 'a:d2', '--storage', 'p-dir');
    expect((await b.request('GET', '/1.0/instances/d1')).status).toBe(404);
    expect(await world.look(a, 'd2')).toEqual(wanted);
    await world.ok('copy', 'a:c1/s0', 'b:alone', '--storage', 'p-dir');
    expect((await world.instance(b, 'alone')).config['user.when']).toBe('first');
    expect(await world.look(b, 'alone')).toEqual(wanted);
    await world.ok('delete', 'a:d2');
    await world.ok('delete', 'b:alone');
  });

  test('a refresh brings what changed, and the snapshots that came and went', async () => {
    await world.ok('copy', 'a:c1', 'b:r1', '--storage', 'p-dir');
    await world.ok('start', 'a:c1');
    await world.ok('exec', 'a:c1', '--', 'sh', '-c', 'echo more > /nasty/plain; rm /nasty/pipe');
    await world.ok('snapshot', 'a:c1', 's1');
    await world.ok('exec', 'a:c1', '--', 'sh', '-c', 'echo last > /nasty/newer');
    await world.ok('copy', 'a:c1', 'b:r1', '--refresh', '--storage', 'p-dir');
    const now = await world.manifestIn(a, 'c1');
    await world.ok('stop', '--force', 'a:c1');
    expect(await world.look(b, 'r1')).toEqual(now);
    const { body } = await b.request<string[]>('GET', '/1.0/instances/r1/snapshots');
    expect(body.metadata.map((url) => url.split('/').at(-1))).toEqual(['s0', 's1']);
    await world.ok('delete', 'a:c1/s0');
    await world.ok('copy', 'a:c1', 'b:r1', '--refresh', '--storage', 'p-dir');
    const after = await b.request<string[]>('GET', '/1.0/instances/r1/snapshots');
    expect(after.body.metadata.map((url) => url.split('/').at(-1))).toEqual(['s1']);
    await world.ok('start', 'b:r1');
    expect(await world.ok('exec', 'b:r1', '--', 'cat', '/nasty/plain', '/nasty/newer')).toBe('more\nlast\n');
    await world.ok('delete', '--force', 'b:r1');
  });

  test.each([
    ['p-btrfs', 'p-btrfs', 'pull'],
    ['p-btrfs', 'p-dir', 'push'],
    ['p-dir', 'p-btrfs', 'relay'],
  ])('custom volumes from %s to %s (%s)', async (from, to, mode) => {
    const name = `v-${mode}`;
    const path = (side: Side, pool: string): string => join(side.dir, `storage-pools/${pool}/custom/default_${name}`);
    await world.ok('storage', 'volume', 'create', `a:${from}`, name, 'user.note=kept');
    const before = await manifestOf(await makeNasty(path(a, from)));
    await world.ok('storage', 'volume', 'snapshot', `a:${from}`, name, 's0');
    await world.ok('storage', 'volume', 'copy', `a:${from}/${name}`, `b:${to}/${name}`, '--mode', mode);
    expect(await manifestOf(join(path(b, to), 'nasty'))).toEqual(before);
    const { body } = await b.request<{ config: object }>('GET', `/1.0/storage-pools/${to}/volumes/custom/${name}`);
    expect(body.metadata.config).toMatchObject({ 'user.note': 'kept' });
    const { status } = await b.request('GET', `/1.0/storage-pools/${to}/volumes/custom/${name}/snapshots/s0`);
    expect(status).toBe(200);
    await world.ok('storage', 'volume', 'restore', `b:${to}`, name, 's0');
    expect(await manifestOf(join(path(b, to), 'nasty'))).toEqual(before);
    await world.ok('storage', 'volume', 'copy', `a:${from}/${name}`, `b:${to}/${name}`, '--refresh');
    await world.ok('storage', 'volume', 'move', `b:${to}/${name}`, `a:${from}/${name}-back`);
    expect(await manifestOf(join(`${path(a, from)}-back`, 'nasty'))).toEqual(before);
  });
});
