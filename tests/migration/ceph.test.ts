import { join } from 'node:path';
import { allOf, type CephCluster, command, named, probePrograms, probeRoot, startCeph, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { probeRbd } from '../storage/rbd.ts';
import { type Manifest, makeNasty, manifestOf } from './manifest.ts';
import { MigrationWorld, type Side } from './world.ts';

const probe = allOf(probeRoot(), probePrograms('lxc', 'rsync', 'getfattr', 'getfacl', 'setcap'), await probeRbd());

describe.skipIf(!probe.ok)(
  named('instances and volumes between two Ceph clusters', probe),
  { timeout: 600_000 },
  () => {
    const clusters: CephCluster[] = [];
    let world: MigrationWorld;
    let a: Side;
    let b: Side;

    beforeAll(async () => {
      world = new MigrationWorld();
      for (const cluster of await Promise.all([startCeph(), startCeph()])) clusters.push(cluster);
      const [here, there] = clusters;
      if (here === undefined || there === undefined) throw new Error('no clusters');
      a = await world.keelson('a', ['ceph'], { env: { KEELSON_CEPH_DIR: here.folder } });
      b = await world.keelson('b', ['ceph'], { env: { KEELSON_CEPH_DIR: there.folder } });
      await world.image(a);
    }, 240_000);
    afterAll(async () => {
      await world?.[Symbol.asyncDispose]();
      for (const cluster of clusters) await cluster[Symbol.asyncDispose]();
    }, 120_000);

    const sh = (instance: string, script: string) => world.ok('exec', instance, '--', 'sh', '-c', script);
    /** Whether the file system that is mounted there is the very one, and not one with the same files. */
    const identity = async (side: Side, path: string): Promise<string> => {
      const { stdout } = await command('findmnt', ['-no', 'UUID', join(side.dir, 'storage-pools/p-ceph', path)]);
      return stdout.trim();
    };
    const md5 = async (at: number, state: string): Promise<string> => {
      const script = 'rbd --conf "$0" export --no-progress "$1" - | md5sum';
      return (await command('sh', ['-c', script, clusters[at]?.conf ?? '', state])).stdout;
    };
    let wanted: Manifest;

    test('a running instance travels as its image does, snapshots and all', async () => {
      await world.ok('launch', 'a:tiny', 'a:c1', '-c', 'user.when=first');
      await makeNasty(join(a.dir, 'storage-pools/p-ceph/containers/c1/rootfs'));
      await sh('a:c1', 'echo one > /state');
      await world.ok('snapshot', 'a:c1', 's0');
      await world.ok('config', 'set', 'a:c1', 'user.when=second');
      await sh('a:c1', 'echo two > /state');
      await world.ok('snapshot', 'a:c1', 's1');
      await sh('a:c1', 'echo three > /state');
      wanted = await world.manifestIn(a, 'c1');
      await world.ok('copy', 'a:c1', 'b:c1', '--stateless');
      await world.ok('start', 'b:c1');
      expect(await world.manifestIn(b, 'c1')).toEqual(wanted);
      expect(await sh('b:c1', 'cat /state')).toBe('three\n');
      expect(await identity(b, 'containers/c1')).toBe(await identity(a, 'containers/c1'));
      expect(await world.ok('config', 'metadata', 'show', 'b:c1')).toBe(
        await world.ok('config', 'metadata', 'show', 'a:c1'),
      );
      await world.ok('stop', '--force', 'b:c1');
      for (const [snapshot, state, when] of [
        ['s1', 'two\n', 'second'],
        ['s0', 'one\n', 'first'],
      ] as const) {
        await world.ok('restore', 'b:c1', snapshot);
        expect((await world.instance(b, 'c1')).config['user.when']).toBe(when);
        await world.ok('start', 'b:c1');
        expect(await sh('b:c1', 'cat /state')).toBe(state);
        expect(await world.manifestIn(b, 'c1')).toEqual(wanted);
        await world.ok('stop', '--force', 'b:c1');
      }
      const left = JSON.parse((await clusters[0]?.rbd('snap', 'ls', '--format', 'json', 'p-ceph/container_c1')) ?? '');
      expect(left.map(({ name }: { name: string }) => name)).toEqual(['snapshot_s0', 'snapshot_s1']);
    });

    test('a refresh brings what changed since', async () => {
      await sh('a:c1', 'rm /nasty/pipe; echo four > /state');
      await world.ok('snapshot', 'a:c1', 's2');
      await world.ok('copy', 'a:c1', 'b:c1', '--refresh');
      expect(await world.look(b, 'c1')).toEqual(await world.manifestIn(a, 'c1'));
      const { body } = await b.request<string[]>('GET', '/1.0/instances/c1/snapshots');
      expect(body.metadata.map((url) => url.split('/').at(-1))).toEqual(['s0', 's1', 's2']);
      await world.ok('restore', 'b:c1', 's0');
      expect(await world.look(b, 'c1')).toEqual(wanted);
    });

    test('a snapshot travels alone, and an instance moves back', async () => {
      await world.ok('copy', 'a:c1/s0', 'b:alone');
      expect(await world.look(b, 'alone')).toEqual(wanted);
      await world.ok('move', 'b:alone', 'a:back', '--mode', 'push');
      expect(await world.look(a, 'back')).toEqual(wanted);
      await world.ok('delete', 'a:back');
      await world.ok('delete', '--force', 'a:c1', 'b:c1');
    });

    test('custom volumes keep everything, and are refreshed', async () => {
      const kinds = ['ext4', 'xfs'];
      const path = (side: Side, kind: string) => join(side.dir, `storage-pools/p-ceph/custom/default_${kind}`);
      const seen = (side: Side) => Promise.all(kinds.map((kind) => manifestOf(join(path(side, kind), 'nasty'))));
      await world.ok('init', 'a:tiny', 'a:user');
      for (const kind of kinds) {
        const size = kind === 'xfs' ? ['size=320MiB'] : [];
        await world.ok('storage', 'volume', 'create', 'a:p-ceph', kind, `block.filesystem=${kind}`, ...size);
        await world.ok('storage', 'volume', 'attach', 'a:p-ceph', kind, 'user', kind, `/${kind}`);
      }
      await world.ok('start', 'a:user');
      for (const kind of kinds) await makeNasty(path(a, kind));
      const before = await seen(a);
      for (const kind of kinds) await world.ok('storage', 'volume', 'snapshot', 'a:p-ceph', kind, 's0');
      await sh('a:user', 'echo more | tee /ext4/nasty/plain > /xfs/nasty/plain');
      for (const kind of kinds) await world.ok('storage', 'volume', 'copy', `a:p-ceph/${kind}`, `b:p-ceph/${kind}`);
      await world.ok('copy', 'a:user', 'b:user', '--stateless');
      await world.ok('start', 'b:user');
      expect(await seen(b)).toEqual(await seen(a));
      // The kernel tells an xfs apart by it; an ext4 is the very one.
      expect(await identity(b, 'custom/default_ext4')).toBe(await identity(a, 'custom/default_ext4'));
      expect(await identity(b, 'custom/default_xfs')).not.toBe(await identity(a, 'custom/default_xfs'));
      await world.ok('stop', '--force', 'b:user');
      await sh('a:user', 'echo last | tee /ext4/nasty/plain > /xfs/nasty/plain');
      for (const kind of kinds)
        await world.ok('storage', 'volume', 'copy', `a:p-ceph/${kind}`, `b:p-ceph/${kind}`, '--refresh');
      await world.ok('start', 'b:user');
      expect(await seen(b)).toEqual(await seen(a));
      await world.ok('stop', '--force', 'b:user');
      for (const kind of kinds) await world.ok('storage', 'volume', 'restore', 'b:p-ceph', kind, 's0');
      await world.ok('start', 'b:user');
      expect(await seen(b)).toEqual(before);
      await world.ok('delete', '--force', 'a:user', 'b:user');
    });

    test('block volumes travel with their snapshots', async () => {
      const [here] = clusters;
      const image = 'p-ceph/custom_default_disk.block';
      await world.ok('storage', 'volume', 'create', 'a:p-ceph', 'disk', '--type', 'block', 'size=32MiB');
      const write = (bytes: number) =>
        here?.rbd('bench', '--io-type', 'write', '--io-size', '64K', '--io-total', String(bytes), image);
      await write(1024 ** 2);
      await world.ok('storage', 'volume', 'snapshot', 'a:p-ceph', 'disk', 's0');
      await write(4 * 1024 ** 2);
      await world.ok('storage', 'volume', 'copy', 'a:p-ceph/disk', 'b:p-ceph/disk');
      for (const state of [image, `${image}@snapshot_s0`]) expect(await md5(1, state)).toBe(await md5(0, state));
    });

    test('a side that is killed on the way leaves nothing there', async () => {
      const rbd = async (at: number, ...args: string[]) =>
        JSON.parse((await clusters[at]?.rbd(...args, '--format', 'json')) ?? '');
      await world.ok('storage', 'volume', 'create', 'a:p-ceph', 'large', '--type', 'block', 'size=256MiB');
      const io = ['--io-type', 'write', '--io-size', '4M', '--io-total', '256M'];
      await clusters[0]?.rbd('bench', ...io, 'p-ceph/custom_default_large.block');
      await world.ok('storage', 'volume', 'snapshot', 'a:p-ceph', 'large', 's0');
      for (const [side, name] of [
        [b, 'target'],
        [a, 'source'],
      ] as const) {
        const copy = world.run('storage', 'volume', 'copy', 'a:p-ceph/large', `b:p-ceph/${name}`);
        await until(
          'the transfer',
          async () => (await rbd(1, 'ls', 'p-ceph')).some((one: string) => one.startsWith('new_')),
          {
            timeoutMs: 60_000,
            intervalMs: 20,
          },
        );
        await side.daemon?.kill();
        expect((await copy).code).not.toBe(0);
        await side.daemon?.start();
        const left = async () => [
          ...(await rbd(1, 'ls', 'p-ceph')).filter((one: string) => one.startsWith('new_') || one.includes(name)),
          ...(await rbd(0, 'snap', 'ls', 'p-ceph/custom_default_large.block')).map((one: { name: string }) => one.name),
        ];
        await expect.poll(left, { timeout: 120_000, interval: 500 }).toEqual(['snapshot_s0']);
        expect((await b.request('GET', `/1.0/storage-pools/p-ceph/volumes/custom/${name}`)).status).toBe(404);
      }
      await world.ok('storage', 'volume', 'copy', 'a:p-ceph/large', 'b:p-ceph/target');
      const [image, arrived] = ['p-ceph/custom_default_large.block', 'p-ceph/custom_default_target.block'];
      for (const state of ['', '@snapshot_s0'])
        expect(await md5(1, `${arrived}${state}`)).toBe(await md5(0, `${image}${state}`));
    });
  },
);
