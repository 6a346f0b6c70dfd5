import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { podmanImage } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { InstanceWorld } from '../instances/world.ts';
import { lvmHere, removeGroup } from './lvm-host.ts';
import { cgroupsIn, PODMAN_DRIVER, PODMAN_WORKS, USE_PODMAN } from './podman.ts';

// The first run on a machine builds the image from Debian's packages: half a minute.
describe('podman in a nesting container', { timeout: 120_000 }, () => {
  let world: InstanceWorld;
  const group = `keelson-${process.pid}-nesting`;
  const lvm = { size: '3GiB', 'lvm.vg_name': group, 'volume.size': '2GiB' };

  beforeAll(async () => {
    const { metadata, rootfs } = await podmanImage();
    world = await InstanceWorld.open({ network: false });
    await world.daemon.run('POST', '/1.0/storage-pools', { name: 'b', driver: 'btrfs', config: { size: '2GiB' } });
    if (lvmHere.ok) await world.daemon.run('POST', '/1.0/storage-pools', { name: 'l', driver: 'lvm', config: lvm });
    await world.ok('image', 'import', metadata, rootfs, '--alias', 'podman');
  }, 300_000);
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
    if (lvmHere.ok) await removeGroup(group);
  });

  const inside = (name: string, script: string): Promise<string> =>
    world.ok('exec', name, '--env', 'HOME=/root', '--', 'sh', '-c', script);
  const ready = (name: string) => cgroupsIn((script) => inside(name, script));

  it.each(['p', 'b', ...(lvmHere.ok ? ['l'] : [])])('stores its images as overlays, pool %s', async (pool) => {
    await world.ok('launch', 'podman', 'n1', '-s', pool, '-c', 'security.nesting=true');
    await ready('n1');
    expect(await inside('n1', USE_PODMAN)).toBe(PODMAN_WORKS);
    await world.ok('delete', '--force', 'n1');
  });

  it('works in a container that was made without nesting, from its next start on', async () => {
    await world.ok('launch', 'podman', 'later', '-s', 'p');
    await inside(
      'later',
      'echo one > /root/state; chown tester /root/state; rm /home/tester -r; ln /root/state /root/link',
    );
    await inside('later', 'echo two > /root/state');
    const root = join(world.daemon.stateDir, 'storage-pools/p/containers/later/volume.json');
    expect(JSON.parse(readFileSync(root, 'utf8'))).toMatchObject({ head: { kind: 'overlay' } });
    await world.ok('config', 'set', 'later', 'security.nesting=true');
    await world.ok('snapshot', 'later', 's0');
    await inside('later', 'echo three > /root/state');
    await world.ok('restart', '--force', 'later');
    await ready('later');
    expect(JSON.parse(readFileSync(root, 'utf8'))).toMatchObject({ head: { kind: 'plain' } });
    expect(await inside('later', 'stat -c "%u %h" /root/state /root/link; cat /root/state; ls /home')).toBe(
      '1000 2\n1000 2\nthree\n',
    );
    expect(await inside('later', USE_PODMAN)).toBe(PODMAN_WORKS);
    await world.ok('stop', '--force', 'later');
    await world.ok('restore', 'later', 's0');
    await world.ok('start', 'later');
    await ready('later');
    expect(await inside('later', `cat /root/state; ${PODMAN_DRIVER}`)).toBe('two\noverlay true\n');
    await world.ok('delete', '--force', 'later');
  });
});
