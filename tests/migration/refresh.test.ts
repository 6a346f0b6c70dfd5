import { randomBytes } from 'node:crypto';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { allOf, command, named, probePrograms, probeRoot } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { subvolumeInfo } from '../../packages/daemon/src/host/tools/btrfs-send.ts';
import { makeNasty, manifestOf } from './manifest.ts';
import { MigrationWorld, type Side } from './world.ts';

const probe = allOf(probeRoot(), probePrograms('lxc', 'rsync', 'btrfs', 'getfattr', 'getfacl', 'setcap'));

describe.skipIf(!probe.ok)(named('refreshes between btrfs pools', probe), () => {
  let world: MigrationWorld;
  let a: Side;
  let b: Side;
  const pool = (side: Side): string => join(side.dir, 'storage-pools/p-btrfs');
  const rootOf = (side: Side, name: string): string => join(pool(side), `containers/${name}/rootfs`);
  const snapshotOf = (side: Side, name: string): string => join(pool(side), `containers-snapshots/${name}`);
  const volumeOf = (side: Side, name: string): string => join(pool(side), `custom/default_${name}`);
  const volumeSnapshotOf = (side: Side, name: string): string => join(pool(side), `custom-snapshots/default_${name}`);
  /** It came as a stream, not file by file. */
  const wasReceived = async (path: string): Promise<boolean> => (await subvolumeInfo(path)).receivedUuid !== undefined;
  const snapshots = async (side: Side, url: string): Promise<string[]> =>
    (await side.request<string[]>('GET', `${url}/snapshots`)).body.metadata.map((one) => one.split('/').at(-1) ?? '');

  beforeAll(async () => {
    world = new MigrationWorld();
    a = await world.keelson('a', ['btrfs']);
    b = await world.keelson('b', ['btrfs']);
    await world.image(a);
  });
  afterAll(async () => world?.[Symbol.asyncDispose]());

  test('of an instance take what differs from a snapshot that both have', async () => {
    await world.ok('init', 'a:tiny', 'a:c1');
    await makeNasty(rootOf(a, 'c1'));
    await world.ok('snapshot', 'a:c1', 's0');
    await world.ok('copy', 'a:c1', 'b:c1');
    await writeFile(join(rootOf(a, 'c1'), 'nasty/plain'), 'changed');
    await world.ok('snapshot', 'a:c1', 's1');
    await command('rm', [join(rootOf(a, 'c1'), 'nasty/pipe')]);
    const wanted = await manifestOf(join(rootOf(a, 'c1'), 'nasty'));
    await world.ok('copy', 'a:c1', 'b:c1', '--refresh');
    expect(await manifestOf(join(rootOf(b, 'c1'), 'nasty'))).toEqual(wanted);
    expect(await snapshots(b, '/1.0/instances/c1')).toEqual(['s0', 's1']);
    expect(await wasReceived(`${snapshotOf(b, 'c1')}/s1`)).toBe(true);
    const volumes = '/1.0/storage-pools/p-btrfs/volumes/container/c1';
    expect(await snapshots(b, volumes)).toEqual(['s0', 's1']);
    await world.ok('copy', 'b:c1', 'b:started');
    await world.ok('start', 'b:started');
    expect(await world.ok('exec', 'b:started', '--', 'cat', '/nasty/plain')).toBe('changed');
    await world.ok('delete', '--force', 'b:started');
  });

  test('go back, and on to a third, as well', async () => {
    await writeFile(join(rootOf(b, 'c1'), 'nasty/plain'), 'there');
    await world.ok('snapshot', 'b:c1', 's2');
    await world.ok('copy', 'b:c1', 'a:c1', '--refresh');
    const wanted = await manifestOf(join(rootOf(b, 'c1'), 'nasty'));
    expect(await manifestOf(join(rootOf(a, 'c1'), 'nasty'))).toEqual(wanted);
    expect(await wasReceived(`${snapshotOf(a, 'c1')}/s2`)).toBe(true);
    await world.ok('restore', 'a:c1', 's0');
    expect(await manifestOf(join(rootOf(a, 'c1'), 'nasty'))).toEqual(
      await manifestOf(join(snapshotOf(b, 'c1'), 's0/rootfs/nasty')),
    );
    await world.ok('snapshot', 'a:c1', 's3');
    await world.ok('copy', 'a:c1', 'b:c1', '--refresh');
    expect(await snapshots(b, '/1.0/instances/c1')).toEqual(['s0', 's1', 's2', 's3']);
    expect(await wasReceived(`${snapshotOf(b, 'c1')}/s3`)).toBe(true);
  });

  test('go file by file when no snapshot is the same any more', async () => {
    await world.ok('init', 'a:tiny', 'a:c2');
    await world.ok('snapshot', 'a:c2', 's0');
    await world.ok('copy', 'a:c2', 'b:c2');
    // Somebody changed it behind the server: what is sent must not build on it.
    const behind = join(snapshotOf(b, 'c2'), 's0');
    await command('btrfs', ['property', 'set', '-f', behind, 'ro', 'false']);
    await writeFile(join(behind, 'rootfs/behind'), 'x');
    await command('btrfs', ['property', 'set', '-f', behind, 'ro', 'true']);
    await writeFile(join(rootOf(a, 'c2'), 'more'), 'more');
    await world.ok('snapshot', 'a:c2', 's1');
    await world.ok('copy', 'a:c2', 'b:c2', '--refresh');
    expect(await manifestOf(rootOf(b, 'c2'))).toEqual(await manifestOf(rootOf(a, 'c2')));
    expect(await wasReceived(`${snapshotOf(b, 'c2')}/s1`)).toBe(false);
  });

  test('of a custom volume, both ways, with subvolumes inside', async () => {
    const url = '/1.0/storage-pools/p-btrfs/volumes/custom/v1';
    const copy = (from: string, to: string) =>
      world.ok('storage', 'volume', 'copy', `${from}:p-btrfs/v1`, `${to}:p-btrfs/v1`, '--refresh');
    await world.ok('storage', 'volume', 'create', 'a:p-btrfs', 'v1');
    await makeNasty(volumeOf(a, 'v1'));
    await command('btrfs', ['subvolume', 'create', join(volumeOf(a, 'v1'), 'inner')]);
    await writeFile(join(volumeOf(a, 'v1'), 'inner/file'), randomBytes(100_000));
    await world.ok('storage', 'volume', 'snapshot', 'a:p-btrfs', 'v1', 's0');
    await world.ok('storage', 'volume', 'copy', 'a:p-btrfs/v1', 'b:p-btrfs/v1');
    await writeFile(join(volumeOf(a, 'v1'), 'nasty/plain'), 'changed');
    await writeFile(join(volumeOf(a, 'v1'), 'inner/file'), 'changed');
    await world.ok('storage', 'volume', 'snapshot', 'a:p-btrfs', 'v1', 's1');
    await copy('a', 'b');
    for (const folder of ['nasty', 'inner'])
      expect(await manifestOf(join(volumeOf(b, 'v1'), folder))).toEqual(
        await manifestOf(join(volumeOf(a, 'v1'), folder)),
      );
    expect(await snapshots(b, url)).toEqual(['s0', 's1']);
    expect(await wasReceived(`${volumeSnapshotOf(b, 'v1')}/s1`)).toBe(true);
    await writeFile(join(volumeOf(b, 'v1'), 'there'), 'x');
    await world.ok('storage', 'volume', 'snapshot', 'b:p-btrfs', 'v1', 's2');
    await world.ok('storage', 'volume', 'delete', 'b:p-btrfs', 'v1/s0');
    await copy('b', 'a');
    expect(await readdir(volumeOf(a, 'v1'))).toEqual(['inner', 'nasty', 'there']);
    for (const folder of ['nasty', 'inner'])
      expect(await manifestOf(join(volumeOf(a, 'v1'), folder))).toEqual(
        await manifestOf(join(volumeOf(b, 'v1'), folder)),
      );
    expect(await snapshots(a, url)).toEqual(['s1', 's2']);
    expect(await wasReceived(`${volumeSnapshotOf(a, 'v1')}/s2`)).toBe(true);
  });
});
