import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Instance, InstanceSnapshot, InstanceState } from '@keelson/api';
import { command, type CommandResult, startLxd, type TestPeer, tinyImage } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { InstanceWorld } from '../instances/world.ts';
import { fillTree, manifestOf } from './manifest.ts';

const STATES = ['s1', 's2', ''];

// LXD reads such a tarball once for every part. Of a compressed one it starts the next program on the open file while the one
// before may still read from it, and then waits without end for what that one took.
const NATIVE = ['--optimized-storage', '--compression=none'];

describe('backups travel between LXD and Keelson', { timeout: 180_000 }, () => {
  let world: InstanceWorld;
  let lxd: TestPeer;
  let folder: string;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'keelson-backups-'));
    world = await InstanceWorld.open();
    lxd = await startLxd();
    await world.daemon.run('POST', '/1.0/storage-pools', { name: 'b', driver: 'btrfs', config: { size: '512MiB' } });
    const { unified } = await tinyImage();
    await peer('storage', 'create', 'p', 'dir');
    await peer('storage', 'create', 'b', 'btrfs', 'size=512MiB');
    await peer('profile', 'device', 'add', 'default', 'root', 'disk', 'path=/', 'pool=p');
    await peer('image', 'import', unified, '--alias', 'tiny');
  });
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
    await lxd?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  const file = (name: string): string => join(folder, name);
  const run = (dir: string, args: readonly string[]): Promise<CommandResult> =>
    command('lxc', args, { env: { LXD_DIR: dir }, anyExit: true, timeoutMs: 120_000 });
  const peer = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await run(lxd.dir, args);
    if (code !== 0) throw new Error(`lxd: lxc ${args.join(' ')}: ${stderr}`);
    return stdout;
  };

  /** LXD's own root of a stopped instance or one of its snapshots. */
  const peerRoot = (pool: string, name: string, snapshot: string): string =>
    join(
      lxd.dir,
      'storage-pools',
      pool,
      ...(snapshot === '' ? ['containers', name] : ['containers-snapshots', name, snapshot]),
      'rootfs',
    );

  /** Manifest of /data of one of our instances or snapshots, while a copy of it runs. */
  const ours = async (pool: string, name: string, snapshot: string): Promise<string[]> => {
    const view = `view-${name}-${snapshot === '' ? 'now' : snapshot}`;
    await world.ok(
      'copy',
      snapshot === '' ? name : `${name}/${snapshot}`,
      view,
      ...(snapshot === '' ? ['--instance-only'] : []),
    );
    await world.ok('start', view);
    const root = join(world.daemon.stateDir, 'storage-pools', pool, 'containers', view, 'rootfs');
    const found = await manifestOf(join(root, 'data'), statSync(root).uid);
    await world.ok('delete', '--force', view);
    return found;
  };

  const facts = (found: Instance | InstanceSnapshot) => ({
    config: Object.fromEntries(Object.entries(found.config).filter(([key]) => !key.startsWith('volatile.'))),
    devices: Object.fromEntries(Object.entries(found.devices).filter(([name]) => name !== 'root')),
    profiles: found.profiles,
    created: Date.parse(found.created_at),
    expires: 'expires_at' in found ? found.expires_at : undefined,
    architecture: found.architecture,
    ephemeral: found.ephemeral,
  });
  const factsOf = async (server: Pick<TestPeer, 'request'>, name: string) => {
    const { body } = await server.request<Instance>('GET', `/1.0/instances/${name}`);
    const snapshots = await server.request<InstanceSnapshot[]>('GET', `/1.0/instances/${name}/snapshots?recursion=1`);
    return { own: facts(body.metadata), snapshots: snapshots.body.metadata.map((one) => [one.name, facts(one)]) };
  };

  /** LXD's import forgets when snapshots expire, also of its own backups. */
  const withoutExpiry = ({ own, snapshots }: Awaited<ReturnType<typeof factsOf>>) => ({
    own,
    snapshots: snapshots.map(([name, one]) => [name, { ...(one as object), expires: '0001-01-01T00:00:00Z' }]),
  });

  it.each([
    ['p', 'b'],
    ['b', 'p'],
  ])('an instance with snapshots, from a %s pool to a %s pool and back', async (from, to) => {
    const name = `c-${from}-${to}`;
    await peer('init', 'tiny', name, '-s', from, '-c', 'user.state=1', '-c', 'security.privileged=false');
    const expected: Record<string, string[]> = {};
    for (const [at, snapshot] of STATES.entries()) {
      const data = join(peerRoot(from, name, ''), 'data');
      mkdirSync(data, { recursive: true });
      await fillTree(data, at + 1, { wholeSeconds: true });
      await peer('config', 'set', name, `user.state=${at + 1}`);
      expected[snapshot] = await manifestOf(data);
      if (snapshot !== '') await peer('snapshot', name, snapshot);
      if (snapshot === 's2')
        await peer(
          'query',
          '-X',
          'PUT',
          '-d',
          '{"expires_at":"2030-01-02T03:04:05Z"}',
          `/1.0/instances/${name}/snapshots/s2`,
        );
    }
    await peer('export', name, file('there'));
    const told = await factsOf(lxd, name);
    expect(told.snapshots.map(([, one]) => (one as ReturnType<typeof facts>).config['user.state'])).toEqual(['1', '2']);

    await world.ok('import', file('there'), name, '-s', to);
    expect(await factsOf(world.daemon, name)).toEqual(told);
    for (const state of STATES) expect(await ours(to, name, state), `state ${state}`).toEqual(expected[state]);

    // Without compression the file is written in another way.
    await world.ok('export', name, file('back'), ...(to === 'b' ? ['--compression', 'none'] : []));
    await peer('delete', name);
    await peer('import', file('back'), name, '-s', from);
    expect(await factsOf(lxd, name)).toEqual(withoutExpiry(told));
    for (const state of STATES) {
      const found = await manifestOf(join(peerRoot(from, name, state), 'data'));
      expect(found, `state ${state} back`).toEqual(expected[state]);
    }
    await peer('start', name);
    const { body } = await lxd.request<InstanceState>('GET', `/1.0/instances/${name}/state`);
    expect(body.metadata.status).toBe('Running');
    await peer('delete', '--force', name);
    await world.ok('delete', '--force', name);
  });

  /** A stream of btrfs tells a new owner alone, and the kernel drops the bit when it sets one: LXD's own copies lose it. */
  const withoutSetuid = (manifest: readonly string[]): string[] =>
    manifest.filter((line) => !line.startsWith('dir/setuid'));

  it('an instance in the format of btrfs', async () => {
    const name = 'native';
    await peer('init', 'tiny', name, '-s', 'b', '-c', 'user.state=1');
    const data = (): string => join(peerRoot('b', name, ''), 'data');
    mkdirSync(data());
    await fillTree(data(), 1);
    const expected = { s1: await manifestOf(data()), '': [] as string[] };
    await peer('snapshot', name, 's1');
    await fillTree(data(), 2);
    expected[''] = withoutSetuid(await manifestOf(data()));
    // LXD gives the files host ids when it starts the container on btrfs; the snapshot keeps guest ids.
    await peer('start', name);
    await peer('stop', '--force', name);
    await peer('export', name, file('native-there'), '--optimized-storage');
    const told = await factsOf(lxd, name);
    expect((await world.lxc('import', file('native-there'), name, '-s', 'p')).stderr).toContain(
      'Optimized backup storage driver "btrfs" differs from the target storage pool driver "dir"',
    );
    expect(readdirSync(join(world.daemon.stateDir, 'storage-pools/p/containers'))).toEqual([]);

    await world.ok('import', file('native-there'), name, '-s', 'b');
    expect(await factsOf(world.daemon, name)).toEqual(told);
    expect(await ours('b', name, 's1')).toEqual(expected.s1);
    expect(withoutSetuid(await ours('b', name, ''))).toEqual(expected['']);
    const { body } = await world.daemon.request<{ templates: object }>('GET', `/1.0/instances/${name}/metadata`);
    expect(body.metadata.templates).toHaveProperty('/etc/hostname');

    // One that was made here, and LXD's import of it.
    await world.ok('init', 'tiny', 'ours', '-s', 'b', '-c', 'user.state=1');
    await world.ok('start', 'ours');
    await world.ok('exec', 'ours', '--', 'sh', '-c', 'mkdir /data; echo one > /data/file; chown 1000 /data/file');
    await world.ok('snapshot', 'ours', 's1');
    await world.ok('exec', 'ours', '--', 'sh', '-c', 'echo two > /data/file; ln /data/file /data/same');
    const made = [await ours('b', 'ours', 's1'), await ours('b', 'ours', '')];
    await world.ok('export', 'ours', file('native-ours'), ...NATIVE);
    await peer('import', file('native-ours'), 'ours', '-s', 'b');
    expect(await factsOf(lxd, 'ours')).toEqual(await factsOf(world.daemon, 'ours'));
    expect(await manifestOf(join(peerRoot('b', 'ours', 's1'), 'data'))).toEqual(made[0]);
    expect(await manifestOf(join(peerRoot('b', 'ours', ''), 'data'))).toEqual(made[1]);
    await peer('start', 'ours');
    expect(await peer('exec', 'ours', '--', 'cat', '/data/file')).toBe('two\n');
    await peer('delete', '--force', 'ours', name);
    // A dir pool has no format of its own: the backup holds files, as LXD's does.
    await world.ok('copy', 'ours', 'plain', '-s', 'p');
    await world.ok('export', 'plain', file('plain'), '--optimized-storage');
    expect((await command('tar', ['-tzf', file('plain')])).stdout).toContain('backup/container/rootfs/');
    await world.ok('delete', '--force', name, 'plain', 'ours');
  });

  it.each([
    ['p', 'b', []],
    ['b', 'p', []],
    ['b', 'b', NATIVE],
  ])('a custom volume with snapshots, from a %s pool to a %s pool and back %s', async (from, to, how) => {
    const name = `v-${from}-${to}`;
    const at = (dir: string, pool: string, snapshot: string): string => {
      const parts = snapshot === '' ? ['custom', `default_${name}`] : ['custom-snapshots', `default_${name}`, snapshot];
      return join(dir, 'storage-pools', pool, ...parts);
    };
    const told = async (server: Pick<TestPeer, 'request'>, pool: string) => {
      const url = `/1.0/storage-pools/${pool}/volumes/custom/${name}`;
      const { body } = await server.request<{ config: object; description: string }>('GET', url);
      const snapshots = await server.request<{ name: string; expires_at: string }[]>(
        'GET',
        `${url}/snapshots?recursion=1`,
      );
      const { config, description } = body.metadata;
      return {
        config,
        description,
        snapshots: snapshots.body.metadata.map((one) => [one.name, Date.parse(one.expires_at)]),
      };
    };
    await peer('storage', 'volume', 'create', from, name, 'snapshots.pattern=x%d', 'user.a=b');
    const expected: Record<string, string[]> = {};
    for (const [index, state] of STATES.entries()) {
      await fillTree(at(lxd.dir, from, ''), index + 1, { wholeSeconds: how.length === 0 });
      expected[state] = await manifestOf(at(lxd.dir, from, ''));
      if (state !== '') await peer('storage', 'volume', 'snapshot', from, name, state);
    }
    const config = await told(lxd, from);
    await peer('storage', 'volume', 'export', from, name, file(`${name}-there`), ...how);
    await world.ok('storage', 'volume', 'import', to, file(`${name}-there`), name);
    expect(await told(world.daemon, to)).toEqual(config);
    for (const state of STATES)
      expect(await manifestOf(at(world.daemon.stateDir, to, state)), state).toEqual(expected[state]);
    await world.ok('storage', 'volume', 'export', to, name, file(`${name}-back`), ...how);
    await peer('storage', 'volume', 'import', from, file(`${name}-back`), `${name}-back`);
    const back = (path: string): string => path.replace(`default_${name}`, `default_${name}-back`);
    for (const state of STATES)
      expect(await manifestOf(back(at(lxd.dir, from, state))), `${state} back`).toEqual(expected[state]);
    await peer('storage', 'volume', 'delete', from, name);
    await peer('storage', 'volume', 'delete', from, `${name}-back`);
    await world.ok('storage', 'volume', 'delete', to, name);
  });
});
