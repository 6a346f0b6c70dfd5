import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { allOf, named, probePrograms, probeRoot } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Manifest, makeNasty, manifestOf, withoutHardLinks } from './manifest.ts';
import { MigrationWorld, type Side } from './world.ts';

const probe = allOf(probeRoot(), probePrograms('lxd', 'lxc', 'rsync', 'getfattr', 'getfacl', 'setcap'));

describe.skipIf(!probe.ok)(named('between LXD and Keelson', probe), () => {
  let world: MigrationWorld;
  let lxd: Side;
  let keelson: Side;
  const root = (pool: string, name: string): string => join(lxd.dir, `storage-pools/${pool}/containers/${name}/rootfs`);

  beforeAll(async () => {
    world = new MigrationWorld();
    lxd = await world.lxd('lxd', ['dir', 'btrfs']);
    keelson = await world.keelson('k', ['dir', 'btrfs']);
    await world.image(lxd);
  });
  afterAll(async () => world?.[Symbol.asyncDispose]());

  test('file by file: everything but hard links, for which LXD does not ask', async () => {
    await world.ok('init', 'lxd:tiny', 'lxd:c1', '-c', 'user.note=kept', '-c', 'user.when=first');
    const wanted = withoutHardLinks(await manifestOf(await makeNasty(root('p-dir', 'c1'))));
    await world.ok('snapshot', 'lxd:c1', 's0');
    await world.ok('config', 'set', 'lxd:c1', 'user.when=second');
    await world.ok('copy', 'lxd:c1', 'k:');
    expect(withoutHardLinks(await world.look(keelson, 'c1'))).toEqual(wanted);
    expect((await world.instance(keelson, 'c1')).config).toMatchObject({ 'user.note': 'kept', 'user.when': 'second' });
    const { body } = await keelson.request<string[]>('GET', '/1.0/instances/c1/metadata/templates');
    expect(body.metadata).toEqual(['hostname.tpl']);
    await world.ok('restore', 'k:c1', 's0');
    expect((await world.instance(keelson, 'c1')).config['user.when']).toBe('first');
    expect(withoutHardLinks(await world.look(keelson, 'c1'))).toEqual(wanted);
    await world.ok('move', 'k:c1', 'lxd:c2', '--mode', 'push');
    expect((await keelson.request('GET', '/1.0/instances/c1')).status).toBe(404);
    expect(withoutHardLinks(await world.look(lxd, 'c2'))).toEqual(wanted);
    await world.ok('restore', 'lxd:c2', 's0');
    expect(withoutHardLinks(await world.look(lxd, 'c2'))).toEqual(wanted);
  });

  test('between btrfs pools everything, hard links too', async () => {
    await world.ok('init', 'lxd:tiny', 'lxd:b1', '--storage', 'p-btrfs');
    const wanted = await manifestOf(await makeNasty(root('p-btrfs', 'b1')));
    await world.ok('snapshot', 'lxd:b1', 's0');
    await world.ok('copy', 'lxd:b1', 'k:b1', '--storage', 'p-btrfs');
    expect(await world.look(keelson, 'b1')).toEqual(wanted);
    const { body } = await keelson.request<string[]>('GET', '/1.0/instances/b1/metadata/templates');
    expect(body.metadata).toEqual(['hostname.tpl']);
    await world.ok('copy', 'k:b1', 'lxd:b2', '--storage', 'p-btrfs', '--mode', 'relay');
    expect(await world.look(lxd, 'b2')).toEqual(wanted);
    await world.ok('restore', 'lxd:b2', 's0');
    expect(await world.look(lxd, 'b2')).toEqual(wanted);
  });

  test.each(['p-dir', 'p-btrfs'])('a refresh in both directions on %s', async (pool) => {
    const name = `refreshed-${pool}`;
    const count = (side: Side): Promise<string> =>
      world.ok('list', `${side.name}:${name}`, '-c', 'S', '--format', 'csv');
    await world.ok('init', 'lxd:tiny', `lxd:${name}`, '--storage', pool);
    await world.ok('snapshot', `lxd:${name}`, 'both');
    await world.ok('copy', `lxd:${name}`, `k:${name}`, '--storage', pool);
    await world.ok('start', `lxd:${name}`);
    await world.ok('exec', `lxd:${name}`, '--', 'sh', '-c', 'mkdir /nasty; echo new > /nasty/file');
    await world.ok('snapshot', `lxd:${name}`, 's0');
    await world.ok('copy', `lxd:${name}`, `k:${name}`, '--refresh', '--stateless');
    await world.ok('stop', '--force', `lxd:${name}`);
    const first = await world.look(lxd, name);
    expect(await world.look(keelson, name)).toEqual(first);
    expect(await count(keelson)).toBe('2\n');
    await world.ok('start', `k:${name}`);
    await world.ok('exec', `k:${name}`, '--', 'sh', '-c', 'echo newer > /nasty/file');
    await world.ok('stop', '--force', `k:${name}`);
    await world.ok('snapshot', `k:${name}`, 's1');
    await world.ok('copy', `k:${name}`, `lxd:${name}`, '--refresh');
    expect(await count(lxd)).toBe('3\n');
    const second = await world.look(lxd, name);
    expect(second).not.toEqual(first);
    expect(await world.look(keelson, name)).toEqual(second);
  });

  test.each(['p-dir', 'p-btrfs'])('custom volumes on %s', async (pool) => {
    await world.ok('storage', 'volume', 'create', `lxd:${pool}`, 'v1', 'user.note=kept');
    const folder = (side: Side, name: string): string => join(side.dir, `storage-pools/${pool}/custom/default_${name}`);
    const exact = await manifestOf(await makeNasty(folder(lxd, 'v1')));
    const kept = (lines: Manifest): Manifest => (pool === 'p-btrfs' ? lines : withoutHardLinks(lines));
    await world.ok('storage', 'volume', 'snapshot', `lxd:${pool}`, 'v1', 's0');
    await world.ok('storage', 'volume', 'copy', `lxd:${pool}/v1`, `k:${pool}/v1`);
    expect(kept(await manifestOf(join(folder(keelson, 'v1'), 'nasty')))).toEqual(kept(exact));
    await world.ok('storage', 'volume', 'move', `k:${pool}/v1`, `lxd:${pool}/v2`);
    expect(kept(await manifestOf(join(folder(lxd, 'v2'), 'nasty')))).toEqual(kept(exact));
    const { body } = await lxd.request<{ config: object }>('GET', `/1.0/storage-pools/${pool}/volumes/custom/v2`);
    expect(body.metadata.config).toMatchObject({ 'user.note': 'kept' });
    expect((await lxd.request('GET', `/1.0/storage-pools/${pool}/volumes/custom/v2/snapshots/s0`)).status).toBe(200);
  });
});

describe.skipIf(!probe.ok)(named('with an LXD that writes host ids to its disk', probe), () => {
  let world: MigrationWorld;
  beforeAll(() => {
    world = new MigrationWorld();
  });
  afterAll(async () => world?.[Symbol.asyncDispose]());

  test('owners, ACLs and capabilities mean the same on both sides', async () => {
    const lxd = await world.lxd('lxd', ['dir', 'btrfs'], { shift: true });
    const keelson = await world.keelson('k', ['dir', 'btrfs']);
    await world.image(lxd);
    for (const [name, pool] of [
      ['s1', 'p-dir'],
      ['s2', 'p-btrfs'],
    ] as const) {
      await world.ok('init', 'lxd:tiny', `lxd:${name}`, '--storage', pool);
      await world.look(lxd, name, '/etc'); // its first start shifts it
      const root = join(lxd.dir, `storage-pools/${pool}/containers/${name}/rootfs`);
      const base = (await stat(root)).uid;
      expect(base).toBeGreaterThan(0);
      await makeNasty(root, base);
      const wanted = withoutHardLinks(await world.look(lxd, name));
      await world.ok('copy', `lxd:${name}`, `k:${name}`, '--storage', pool);
      expect(withoutHardLinks(await world.look(keelson, name))).toEqual(wanted);
      await world.ok('copy', `k:${name}`, `lxd:${name}-back`, '--storage', pool);
      expect(withoutHardLinks(await world.look(lxd, `${name}-back`))).toEqual(wanted);
    }
    await world.ok('copy', 'lxd:s1', 'k:privileged', '-c', 'security.privileged=true');
    expect(withoutHardLinks(await world.look(keelson, 'privileged'))).toEqual(
      withoutHardLinks(await world.look(keelson, 's1')),
    );
  }, 240_000);
});
