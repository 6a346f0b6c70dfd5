import { join } from 'node:path';
import { allOf, named, probePrograms, probeRoot } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { LxcWorld } from './lxc-world.ts';

const probe = allOf(probeRoot(), probePrograms('lxc'));
const btrfs = allOf(probe, probePrograms('mkfs.btrfs'));

describe.skipIf(!probe.ok)(named('lxc and storage', probe), () => {
  let world: LxcWorld;

  beforeAll(async () => {
    world = await LxcWorld.open();
    await world.ok('launch', 'tiny', 'c1');
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  const storage = (...args: string[]): Promise<string> => world.ok('storage', ...args);

  test('pools', async () => {
    await storage('create', 'q', 'dir');
    expect(await world.fails('storage', 'create', 'q', 'dir')).toContain('The storage pool already exists');
    expect(await world.fails('storage', 'create', 'r', 'nonsense')).toContain('driver');
    expect(await world.fails('storage', 'create', 'r', 'dir', 'source=/no/such')).toContain("'/no/such' doesn't exist");
    expect(await storage('list', '-f', 'csv')).toMatch(/^p,dir,\S+,,3,CREATED\nq,dir,\S+,,0,CREATED\n$/);
    expect(await storage('show', 'q')).toMatch(/name: q\ndriver: dir\nused_by: \[\]\nstatus: Created/);
    await storage('set', 'q', 'rsync.bwlimit=1MiB', 'user.x=1');
    expect(await storage('get', 'q', 'rsync.bwlimit')).toBe('1MiB\n');
    await storage('unset', 'q', 'user.x');
    expect(await storage('show', 'q')).not.toContain('user.x');
    expect(await world.fails('storage', 'set', 'q', 'foo=1')).toContain('"foo"');
    await world.edit(['storage'], (text) => text.replace('description: ""', 'description: mine'), 'q');
    expect(await storage('show', 'q')).toContain('description: mine');
    expect(await storage('info', 'q')).toMatch(/space used: .+\n +total space: /);
    expect(await storage('info', 'p', '--bytes')).toMatch(/instances:\n +- c1\n[^]*profiles:\n +- default/);
    await storage('delete', 'q');
    expect(await world.fails('storage', 'delete', 'q')).toBe('Error: Storage pool not found');
    expect(await world.fails('storage', 'delete', 'p')).toContain('in use');
  });

  test.skipIf(!btrfs.ok)(named('a btrfs pool with an instance', btrfs), async () => {
    await storage('create', 'b', 'btrfs', 'size=256MiB');
    expect(await storage('get', 'b', 'size')).toBe('256MiB\n');
    await world.ok('launch', 'tiny', 'on-btrfs', '--storage', 'b');
    await world.ok('snapshot', 'on-btrfs', 's');
    await world.ok('restore', 'on-btrfs', 's');
    expect(await world.ok('exec', 'on-btrfs', 'hostname')).toBe('on-btrfs\n');
    await world.ok('delete', '--force', 'on-btrfs');
    await world.ok('image', 'delete', 'tiny');
    await storage('delete', 'b');
  });

  test('volumes', async () => {
    const volume = (...args: string[]): Promise<string> => world.ok('storage', 'volume', ...args);
    await volume('create', 'p', 'v1', 'user.x=1');
    expect(await world.fails('storage', 'volume', 'create', 'p', 'v1')).toContain('Volume by that name already exists');
    expect(await volume('list', 'p', '-f', 'csv')).toMatch(/container,c1,,filesystem,1\n[^]*custom,v1,,filesystem,0\n/);
    expect(await volume('list', 'p', 'type=custom', '-f', 'csv')).toBe('custom,v1,,filesystem,0\n');
    await world.ok('project', 'create', 'vols');
    await volume('create', 'p', 'v9', '--project', 'vols');
    expect(await volume('list', 'p', 'type=custom', '--all-projects', '-c', 'en', '-f', 'csv')).toBe(
      'default,v1\nvols,v9\n',
    );
    await volume('delete', 'p', 'v9', '--project', 'vols');
    await world.ok('project', 'delete', 'vols');
    await volume('set', 'p', 'v1', 'user.y=2');
    expect(await volume('get', 'p', 'v1', 'user.y')).toBe('2\n');
    await volume('unset', 'p', 'v1', 'user.y');
    await world.edit(['storage', 'volume'], (text) => text.replace('description: ""', 'description: mine'), 'p', 'v1');
    expect(await volume('show', 'p', 'v1')).toMatch(/user.x: "1"\ndescription: mine\nname: v1\ntype: custom/);
    expect(await volume('info', 'p', 'v1')).toContain('Name: v1');
    await volume('attach', 'p', 'v1', 'c1', 'data', '/mnt/v');
    await world.ok('exec', 'c1', '--', 'sh', '-c', 'echo kept >/mnt/v/file');
    expect(await volume('list', 'p', 'type=custom', '-f', 'csv')).toBe('custom,v1,mine,filesystem,1\n');
    expect(await world.fails('storage', 'volume', 'delete', 'p', 'v1')).toContain('in use');
    await volume('detach', 'p', 'v1', 'c1', 'data');
    await volume('attach-profile', 'p', 'v1', 'default', 'data', '/mnt/v');
    expect(await world.ok('exec', 'c1', 'cat', '/mnt/v/file')).toBe('kept\n');
    await volume('detach-profile', 'p', 'v1', 'default', 'data');
    await volume('snapshot', 'p', 'v1', 's0');
    await volume('restore', 'p', 'v1', 's0');
    expect(await volume('show', 'p', 'v1/s0')).toContain('name: s0');
    await volume('copy', 'p/v1', 'p/v2');
    await volume('rename', 'p', 'v2', 'v3');
    await volume('move', 'p/v3', 'p/v4');
    await volume('export', 'p', 'v1', join(world.folder, 'v1.tar.gz'));
    await volume('import', 'p', join(world.folder, 'v1.tar.gz'), 'v5');
    expect(await volume('list', 'p', 'type=custom', '-f', 'csv')).toMatch(/v1,.*\n.*v1\/s0,[^]*v4,[^]*v5,/);
    await volume('delete', 'p', 'v1/s0');
    for (const name of ['v1', 'v4', 'v5']) await volume('delete', 'p', name);
    expect(await world.fails('storage', 'volume', 'delete', 'p', 'v1')).toContain('not found');
  });
});
