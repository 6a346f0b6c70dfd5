import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Instance, InstanceSnapshot, InstanceState } from '@keelson/api';
import { command, type CommandResult, startLxd, type TestPeer, tinyImage } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { InstanceWorld } from '../instances/world.ts';
import { fillTree, manifestOf } from './manifest.ts';

const STATES = ['s1', 's2', ''];

describe('backups travel between LXD and Keelson', () => {
  let world: InstanceWorld;
  let lxd: TestPeer;
  let folder: string;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'keelson-backups-'));
    [world, lxd] = await Promise.all([InstanceWorld.open(), startLxd()]);
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

    await world.ok('export', name, file('back'));
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
});
