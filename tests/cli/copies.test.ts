import { allOf, named, probePrograms, probeRoot } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TwoServers } from './two-servers.ts';
import type { Person } from './world.ts';

const probe = allOf(probeRoot(), probePrograms('lxc-start', 'mksquashfs', 'rsync'));
const MODES = ['pull', 'push', 'relay'] as const;

interface Shown {
  readonly config: Readonly<Record<string, string>>;
  readonly devices: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly profiles: readonly string[];
  readonly ephemeral: boolean;
}

describe.skipIf(!probe.ok)(named('keelson: copies and moves of instances', probe), () => {
  let servers: TwoServers;
  let person: Person;
  const shown = async (name: string, ...options: string[]): Promise<Shown> =>
    JSON.parse(await person.ok(...options, 'config', 'show', name, '-f', 'json')) as Shown;
  const snapshots = async (name: string): Promise<string[]> =>
    (await person.ok('snapshot', 'list', name, '-f', 'csv'))
      .split('\n')
      .map((line) => line.split(',')[0] ?? '')
      .filter((one) => one !== '');
  beforeAll(async () => {
    servers = await TwoServers.open();
    ({ person } = servers);
  });
  afterAll(async () => servers?.[Symbol.asyncDispose]());

  test.each(MODES)('copy by %s, with what differs', async (mode) => {
    const differs = ['-c', 'user.mark=x', '-d', 'root,limits.max=9MB', '-d', 'none,type=none', '-s', 'q', '-e'];
    expect(await person.ok('copy', 'c1', 'b:', '--mode', mode, ...differs)).toBe('c1\n');
    const { config, devices, ephemeral, profiles } = await shown('b:c1');
    expect({ ...config, devices, ephemeral, profiles }).toMatchObject({
      'user.note': 'second',
      'user.mark': 'x',
      devices: { root: { type: 'disk', path: '/', pool: 'q', 'limits.max': '9MB' }, none: { type: 'none' } },
      ephemeral: true,
      profiles: ['default'],
    });
    expect(await person.ok('file', 'pull', 'b:c1/root/file', '-')).toBe('one\n');
    expect(await snapshots('b:c1')).toEqual(['s0']);
    await person.ok('delete', 'b:c1');
  });

  test('a snapshot alone, without snapshots, without profiles, into a project', async () => {
    await person.ok('copy', 'c1/s0', 'b:old', '-s', 'p', '--no-profiles');
    expect(await shown('b:old')).toMatchObject({ config: { 'user.note': 'first' }, profiles: [] });
    expect(await snapshots('b:old')).toEqual([]);
    await person.ok('copy', 'c1', 'b:bare', '--instance-only');
    expect(await snapshots('b:bare')).toEqual([]);
    for (const server of ['', 'b:']) {
      await person.ok('project', 'create', `${server}lab`, 'features.images=false', 'features.profiles=false');
      await person.ok('copy', 'c1', server, '--target-project', 'lab');
      expect((await shown(`${server}c1`, '--project', 'lab')).config['user.note']).toBe('second');
      await person.ok('--project', 'lab', 'delete', `${server}c1`);
      await person.ok('project', 'delete', `${server}lab`);
    }
    await person.ok('delete', 'b:old', 'b:bare');
    for (const wrong of [
      ['c1/s0', 'b:x', '--refresh'],
      ['c1/s0/t', 'b:x'],
      ['c1', 'b:x', '--mode', 'fly'],
    ])
      expect((await person.run(['copy', ...wrong])).code).toBe(2);
  }, 240_000);

  test.each(['b:twin', 'twin'])('--refresh brings files, snapshots and settings of %s up to date', async (twin) => {
    await person.ok('copy', 'c1', twin, '-s', 'q', '--refresh');
    const before = await shown(twin);
    await person.run(['file', 'push', '-', 'c1/root/file'], { input: `two ${twin}\n` });
    await person.ok('snapshot', 'create', 'c1', 's1');
    await person.ok('config', 'set', 'c1', `user.note=for ${twin}`);
    await person.ok('copy', 'c1', twin, '--refresh');
    expect(await person.ok('file', 'pull', `${twin}/root/file`, '-')).toBe(`two ${twin}\n`);
    expect(await snapshots(twin)).toEqual(['s0', 's1']);
    const after = await shown(twin);
    expect([after.config['user.note'], after.devices['root']?.['pool']]).toEqual([`for ${twin}`, 'q']);
    expect(after.config['volatile.uuid']).toBe(before.config['volatile.uuid']);
    await person.ok('snapshot', 'delete', 'c1', 's1');
    await person.ok('delete', twin);
  });

  test('moves: to a server with its identity, within one with what differs, snapshots by name', async () => {
    await person.ok('init', 'tiny', 'm1');
    const { 'volatile.uuid': uuid } = (await shown('m1')).config;
    await person.ok('start', 'm1');
    const running = await person.run(['move', 'm1', 'b:']);
    expect(running).toMatchObject({ code: 1, stderr: expect.stringContaining('stop it before it moves') });
    await person.ok('stop', '-f', 'm1');
    await person.ok('move', 'm1', 'b:m2', '-c', 'user.moved=yes', '--stateless');
    expect((await shown('b:m2')).config).toMatchObject({ 'volatile.uuid': uuid, 'user.moved': 'yes' });
    expect((await person.run(['config', 'show', 'm1'])).code).toBe(1);
    await person.ok('move', 'b:m2', 'm3', '-s', 'q');
    expect((await shown('m3')).devices['root']?.['pool']).toBe('q');
    await person.ok('move', 'm3', '-s', 'p', '-c', 'user.moved=twice');
    expect(await shown('m3')).toMatchObject({ config: { 'user.moved': 'twice' }, devices: { root: { pool: 'p' } } });
    expect(await person.ok('snapshot', 'create', 'm3')).toBe('snap0\n');
    await person.ok('move', 'm3/snap0', 'm3/first');
    expect(await snapshots('m3')).toEqual(['first']);
    expect((await person.run(['move', 'm3/first', 'b:m3/first'])).code).toBe(2);
    await person.ok('delete', 'm3');
  }, 240_000);
});
