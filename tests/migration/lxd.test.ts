import { join } from 'node:path';
import { allOf, named, probePrograms, probeRoot } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeNasty, manifestOf, withoutHardLinks } from './manifest.ts';
import { MigrationWorld, type Side } from './world.ts';

const probe = allOf(probeRoot(), probePrograms('lxd', 'lxc', 'rsync', 'getfattr', 'getfacl', 'setcap'));

describe.skipIf(!probe.ok)(named('instances between LXD and Keelson', probe), () => {
  let world: MigrationWorld;
  let lxd: Side;
  let keelson: Side;

  beforeAll(async () => {
    world = new MigrationWorld();
    lxd = await world.lxd('lxd');
    keelson = await world.keelson('k');
    await world.image(lxd);
  });
  afterAll(async () => world?.[Symbol.asyncDispose]());

  test('lxc copy from LXD and back keeps every file', async () => {
    await world.ok('init', 'lxd:tiny', 'lxd:c1', '-c', 'user.note=kept');
    // LXD's rsync does not ask for hard links: between it and anybody they become files of their own.
    const root = join(lxd.dir, 'storage-pools/p-dir/containers/c1/rootfs');
    const wanted = withoutHardLinks(await manifestOf(await makeNasty(root)));
    await world.ok('copy', 'lxd:c1', 'k:');
    expect(withoutHardLinks(await world.look(keelson, 'c1'))).toEqual(wanted);
    expect((await world.instance(keelson, 'c1')).config['user.note']).toBe('kept');
    await world.ok('copy', 'k:c1', 'lxd:c2');
    expect(withoutHardLinks(await world.look(lxd, 'c2'))).toEqual(wanted);
  });
});
