import { allOf, named, probePrograms, probeRoot } from '@keelson/testkit';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TwoServers } from './two-servers.ts';
import type { CliWorld, Person } from './world.ts';

const probe = allOf(probeRoot(), probePrograms('lxc-start', 'mksquashfs', 'rsync'));
const MODES = ['pull', 'push', 'relay'] as const;
const VOLUMES = (pool: string): string => `/1.0/storage-pools/${pool}/volumes`;

describe.skipIf(!probe.ok)(named('keelson: volumes, backups and images between servers', probe), () => {
  let servers: TwoServers;
  let person: Person;
  let here: CliWorld;
  let there: CliWorld;
  const volume = (...args: string[]): Promise<string> => person.ok('storage', 'volume', ...args);
  const urls = async ({ daemon }: CliWorld, pool: string): Promise<string[]> =>
    (await daemon.request<string[]>('GET', `${VOLUMES(pool)}/custom`)).body.metadata;

  beforeAll(async () => {
    servers = await TwoServers.open();
    ({ person, here, there } = servers);
  });
  afterAll(async () => servers?.[Symbol.asyncDispose]());

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
  }, 240_000);

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
  }, 240_000);
});
