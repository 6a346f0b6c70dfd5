import { allOf, named, probePrograms, probeRoot } from '@keelson/testkit';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CliWorld, type Person } from './world.ts';

const probe = allOf(probeRoot(), probePrograms('lxc-start', 'mksquashfs'));

describe.skipIf(!probe.ok)(named('keelson and volumes', probe), () => {
  let world: CliWorld;
  let person: Person;
  const volume = (...args: string[]): Promise<string> => person.ok('storage', 'volume', ...args);
  const inGuest = (script: string): Promise<string> => person.ok('exec', 'v1', '--', 'sh', '-c', script);
  beforeAll(async () => {
    world = await CliWorld.open();
    person = world.person;
    await person.ok('launch', 'tiny', 'v1');
  });
  afterAll(async () => world?.[Symbol.asyncDispose]());

  test('create, settings, attach, detach, rename, copy, delete', async () => {
    await volume('create', 'p', 'data', 'user.a=b');
    await volume('set', 'p', 'data', 'user.c=d');
    expect(await volume('get', 'p', 'data', 'user.a')).toBe('b\n');
    await volume('unset', 'p', 'data', 'user.a');
    const edit = await person.run(['storage', 'volume', 'edit', 'p', 'data'], {
      input: JSON.stringify({ config: { 'user.c': 'e' }, description: 'mine' }),
    });
    expect(edit).toEqual({ code: 0, stdout: '', stderr: '' });
    expect(JSON.parse(await volume('show', 'p', 'data', '-f', 'json'))).toMatchObject({
      description: 'mine',
      config: { 'user.c': 'e' },
    });
    expect((await person.run(['storage', 'volume', 'attach', 'p', 'data', 'v1'])).code).toBe(2);
    await volume('attach', 'p', 'data', 'v1', '/mnt/data');
    await inGuest('echo kept >/mnt/data/file');
    expect((await person.run(['storage', 'volume', 'delete', 'p', 'data'])).code).toBe(1);
    await volume('detach', 'p', 'data', 'v1');
    await volume('rename', 'p', 'data', 'moved');
    await volume('copy', 'p/moved', 'p/copied');
    await volume('attach', 'p', 'copied', 'v1', '/mnt/copy', '--device', 'extra');
    expect(await inGuest('cat /mnt/copy/file')).toBe('kept\n');
    expect(await person.ok('config', 'device', 'list', 'v1', '-f', 'csv')).toBe('extra,disk\n');
    await volume('detach', 'p', 'copied', 'v1');
    const custom = (await volume('list', 'p', '-f', 'csv')).split('\n').filter((line) => line.startsWith('custom,'));
    expect(custom.sort()).toEqual(['custom,copied,mine,filesystem,0', 'custom,moved,mine,filesystem,0']);
    await volume('delete', 'p', 'copied');
    await volume('delete', 'p', 'moved');
  });

  test('snapshots and backups of a volume', async () => {
    const file = join(person.home, 'volume.tar.gz');
    await volume('create', 'p', 'data');
    await volume('attach', 'p', 'data', 'v1', '/mnt/data');
    await inGuest('echo one >/mnt/data/file');
    await volume('detach', 'p', 'data', 'v1');
    await volume('snapshot', 'create', 'p', 'data', 's1');
    expect(await volume('snapshot', 'list', 'p', 'data', '-f', 'csv')).toMatch(/^s1,/);
    await volume('export', 'p', 'data', file);
    expect(statSync(file).size).toBeGreaterThan(100);
    await volume('import', 'p', file, 'back');
    await volume('attach', 'p', 'back', 'v1', '/mnt/back');
    expect(await inGuest('cat /mnt/back/file')).toBe('one\n');
    await volume('detach', 'p', 'back', 'v1');
    await volume('snapshot', 'restore', 'p', 'data', 's1');
    await volume('snapshot', 'delete', 'p', 'data', 's1');
    await volume('delete', 'p', 'data');
    await volume('delete', 'p', 'back');
  });

  test('export and import of an instance', async () => {
    const file = join(person.home, 'instance.tar.gz');
    await inGuest('echo whole >/root/file');
    await person.ok('export', 'v1', file);
    expect(await person.ok('import', file, 'v2')).toBe('v2\n');
    await person.ok('start', 'v2');
    expect(await person.ok('exec', 'v2', 'cat', '/root/file')).toBe('whole\n');
    await person.ok('delete', '-f', 'v2');
    const broken = await person.run(['import', '-', 'v3'], { input: 'no backup at all' });
    expect(broken).toMatchObject({ code: 1, stdout: '' });
    expect(await person.ok('list', '-f', 'csv', '-c', 'n')).toBe('v1\n');
  });
});
