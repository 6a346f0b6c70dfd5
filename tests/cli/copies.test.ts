import { allOf, named, probePrograms, probeRoot } from '@keelson/testkit';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CliWorld, type Person } from './world.ts';

const probe = allOf(probeRoot(), probePrograms('lxc-start', 'mksquashfs', 'rsync'));
const MODES = ['pull', 'push', 'relay'] as const;

const VOLUMES = (pool: string): string => `/1.0/storage-pools/${pool}/volumes`;

interface Shown {
  readonly config: Readonly<Record<string, string>>;
  readonly devices: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly profiles: readonly string[];
  readonly ephemeral: boolean;
}

describe.skipIf(!probe.ok)(named('keelson: copies and moves between servers', probe), () => {
  let here: CliWorld;
  let there: CliWorld;
  let person: Person;
  const shown = async (name: string, ...options: string[]): Promise<Shown> =>
    JSON.parse(await person.ok(...options, 'config', 'show', name, '-f', 'json')) as Shown;
  const snapshots = async (name: string): Promise<string[]> =>
    (await person.ok('snapshot', 'list', name, '-f', 'csv'))
      .split('\n')
      .map((line) => line.split(',')[0] ?? '')
      .filter((one) => one !== '');
  const volume = (...args: string[]): Promise<string> => person.ok('storage', 'volume', ...args);
  const urls = async ({ daemon }: CliWorld, pool: string): Promise<string[]> =>
    (await daemon.request<string[]>('GET', `${VOLUMES(pool)}/custom`)).body.metadata;

  beforeAll(async () => {
    [here, there] = await Promise.all([CliWorld.open(), CliWorld.open()]);
    ({ person } = here);
    for (const world of [here, there]) {
      const settings = ['core.https_address=127.0.0.1:0', 'core.trust_password=sesame'];
      await world.person.ok('admin', 'config', 'set', ...settings);
      await world.person.ok('storage', 'create', 'q', 'dir');
    }
    const { body } = await there.daemon.request<{ environment: { addresses: string[] } }>('GET', '/1.0');
    const address = body.metadata.environment.addresses[0] ?? '';
    await person.ok('remote', 'add', 'b', address, '--accept-certificate', '--password', 'sesame');
    await person.ok('init', 'tiny', 'c1', '-c', 'user.note=first');
    await person.run(['file', 'push', '-', 'c1/root/file'], { input: 'one\n' });
    await person.ok('snapshot', 'create', 'c1', 's0');
    await person.ok('config', 'set', 'c1', 'user.note=second');
  });
  afterAll(async () => {
    await here?.[Symbol.asyncDispose]();
    await there?.[Symbol.asyncDispose]();
  });

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
  });

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
  });

  test.each(MODES)('a volume by %s: copied, moved into a project', async (mode) => {
    await here.daemon.run('POST', `${VOLUMES('p')}/custom`, { name: 'data' });
    await volume('copy', 'p/data', 'b:q/data', '--mode', mode);
    await there.daemon.run('POST', '/1.0/projects', { name: 'lab', config: {} });
    await volume('move', 'p/data', 'b:q/data', '--target-project', 'lab', '--mode', mode);
    expect(await urls(here, 'p')).toEqual([]);
    expect(await volume('list', 'b:q', 'type=custom', '--all-projects', '-f', 'csv', '-c', 'en')).toBe(
      'default,data\nlab,data\n',
    );
    for (const scope of ['', '?project=lab']) await there.daemon.run('DELETE', `${VOLUMES('q')}/custom/data${scope}`);
    await there.daemon.run('DELETE', '/1.0/projects/lab');
  });

  test('volumes: refresh, a snapshot alone, without snapshots', async () => {
    await here.daemon.run('POST', `${VOLUMES('p')}/custom`, { name: 'data', config: { 'user.a': 'b' } });
    const snapshot = `${VOLUMES('p')}/custom/data/snapshots`;
    await here.daemon.run('POST', snapshot, { name: 's0' });
    await volume('copy', 'p/data', 'b:q/data');
    await here.daemon.run('POST', snapshot, { name: 's1' });
    await volume('copy', 'p/data', 'b:q/data', '--refresh');
    await volume('copy', 'p/data/s1', 'b:q/alone');
    await volume('copy', 'p/data', 'b:q/bare', '--volume-only');
    const names = ['alone', 'bare', 'data', 'data/snapshots/s0', 'data/snapshots/s1'];
    expect(await urls(there, 'q')).toEqual(names.map((name) => `${VOLUMES('q')}/custom/${name}`));
    expect((await urls(here, 'p')).length).toBe(3);
    expect(await volume('get', 'b:q', 'alone', 'user.a')).toBe('b\n');
    await here.daemon.run('DELETE', `${VOLUMES('p')}/custom/data`);
    for (const name of ['alone', 'bare', 'data']) await there.daemon.run('DELETE', `${VOLUMES('q')}/custom/${name}`);
  });

  test('how far it is stands on the terminal: copies, backups, images', async () => {
    const big = join(person.home, 'big');
    const file = join(person.home, 'backup.tar');
    writeFileSync(big, randomBytes(48 * 1024 * 1024));
    await person.ok('file', 'push', big, 'c1/root/big');
    const shows = async (pattern: RegExp, ...args: string[]): Promise<void> => {
      using terminal = person.onTerminal(args);
      expect(await terminal.exited).toBe(0);
      expect(terminal.shown).toMatch(pattern);
    };
    for (const mode of MODES) {
      await shows(/Copying c1: .*\d+(\.\d+)?[kM]B/, 'copy', 'c1', 'b:c2', '--instance-only', '--mode', mode);
      await person.ok('delete', 'b:c2');
    }
    await shows(/Backing up c1[^]*Writing .*: .*100%/, 'export', 'c1', file, '--compression', 'none');
    await shows(/Sending .*: .*100%/, 'import', file, 'c3');
    await shows(/Publishing c3: .*\d/, 'publish', 'c3', '--alias', 'big', 'os=Big', '--compression', 'none');
    await person.ok('delete', 'c3');
    await shows(/Copying image big: .*\d/, 'image', 'copy', 'big', 'b:', '--copy-aliases');
    expect(JSON.parse(await person.ok('image', 'show', 'b:big', '-f', 'json'))).toMatchObject({
      properties: { os: 'Big' },
      public: false,
    });
    await person.ok('image', 'delete', 'b:big');
    await person.ok('image', 'copy', 'big', 'b:', '--mode', 'relay', '--alias', 'again');
    await person.ok('image', 'delete', 'b:again');
    await person.ok('image', 'delete', 'big');
  });

  test('import to another server, publish there, a running instance published by force', async () => {
    const file = join(person.home, 'far.tar.gz');
    await person.ok('export', 'c1', file, '--instance-only');
    expect(await person.ok('import', 'b:', file, 'far', '-s', 'q')).toBe('far\n');
    await person.ok('start', 'b:far');
    const fingerprint = (await person.ok('publish', '--force', 'b:far', 'local:', '--alias', 'far', 'os=Far')).trim();
    expect(await person.ok('list', 'b:far', '-f', 'csv', '-c', 's')).toBe('RUNNING\n');
    expect(await person.ok('image', 'alias', 'list', '-f', 'csv')).toContain(`far,${fingerprint.slice(0, 12)}`);
    expect(await person.ok('image', 'list', 'b:', '-f', 'csv')).not.toContain(fingerprint.slice(0, 12));
    await person.ok('image', 'delete', 'far');
    await person.ok('delete', '-f', 'b:far');
  });
});
