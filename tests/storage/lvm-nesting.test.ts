import { named } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { InstanceWorld } from '../instances/world.ts';
import { lvmHere, removeGroup } from './lvm-host.ts';

describe.skipIf(!lvmHere.ok)(named('guests on lvm', lvmHere), { timeout: 600_000 }, () => {
  let world: InstanceWorld;
  const group = `keelson-${process.pid}-guests`;
  const KINDS = ['ext4', 'xfs', 'btrfs'];

  beforeAll(async () => {
    world = await InstanceWorld.open({ network: false });
    const config = { size: '3GiB', 'lvm.vg_name': group, 'volume.size': '400MiB' };
    await world.daemon.run('POST', '/1.0/storage-pools', { name: 'l', driver: 'lvm', config });
  });
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
    await removeGroup(group);
  });

  const inside = (name: string, script: string): Promise<string> => world.ok('exec', name, '--', 'sh', '-c', script);

  it.each(KINDS)('run, keep what they write, and mount overlays on their root when they nest: %s', async (type) => {
    const name = `n-${type}`;
    await world.daemon.run('PATCH', '/1.0/storage-pools/l', { config: { 'volume.block.filesystem': type } });
    await world.ok('launch', 'tiny', name, '-s', 'l', '-c', 'security.nesting=true');
    expect(await inside(name, `grep " / ${type} " /proc/mounts | wc -l`)).toBe('1\n');
    expect(await inside(name, 'cat /proc/self/uid_map')).not.toMatch(/^ *0 +0 /);
    await inside(
      name,
      'mkdir /o /o/low /o/up /o/work /o/all; echo low > /o/low/f; echo gone > /o/low/g; chown 1000 /o/low/f',
    );
    const overlay = 'mount -t overlay overlay -o lowerdir=/o/low,upperdir=/o/up,workdir=/o/work';
    await inside(name, `${overlay},userxattr /o/all && echo new > /o/all/f && rm /o/all/g && mkdir /o/all/d`);
    expect(await inside(name, 'cd /o; cat all/f low/f up/f; ls all; stat -c "%F" up/g')).toBe(
      'new\nlow\nnew\nd\nf\ncharacter special file\n',
    );
    await world.ok('snapshot', name, 's0');
    await inside(name, 'echo later > /o/all/f');
    await world.ok('stop', '--force', name);
    await world.ok('restore', name, 's0');
    await world.ok('start', name);
    expect(await inside(name, `${overlay},userxattr /o/all && cat /o/all/f && ls /o/all`)).toBe('new\nd\nf\n');
    await world.ok('delete', '--force', name);
  });
});
