import { allOf, named, probePrograms, probeRoot } from '@keelson/testkit';
import { statSync, writeFileSync } from 'node:fs';
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
    await volume('export', 'p', 'data', file, '--compression', 'zstd');
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

  test('lists by columns and filters, information, expiry and names of snapshots', async () => {
    await volume('create', 'p', 'one', 'user.owner=ann', 'size=10MiB');
    await volume('create', 'p', 'two', 'user.owner=bob');
    await volume('create', 'p', 'raw', 'size=1MiB', '--type', 'block');
    expect(await volume('list', 'p', 'type=custom', '-f', 'csv', '-c', 'nc,user.owner')).toBe(
      'one,filesystem,ann\nraw,block,\ntwo,filesystem,bob\n',
    );
    expect(await volume('list', 'p', 'user.owner=bob', 'two', '-f', 'csv', '-c', 'ntueL')).toBe(
      'two,custom,0,default,none\n',
    );
    expect((await person.run(['storage', 'volume', 'list', 'p', '-c', 'X'])).code).toBe(2);
    await volume('snapshot', 'create', 'p', 'one', 'first', '--expires', '2090-01-01T00:00:00Z');
    await volume('snapshot', 'rename', 'p', 'one', 'first', 'second');
    await volume('snapshot', 'set', 'p', 'one', 'second', '--description', 'kept', '--expires', 'never');
    expect(JSON.parse(await volume('snapshot', 'show', 'p', 'one', 'second', '-f', 'json'))).toMatchObject({
      description: 'kept',
      expires_at: '0001-01-01T00:00:00Z',
    });
    await volume('snapshot', 'create', 'p', 'one', 'second', '--reuse');
    const info = JSON.parse(await volume('info', 'p', 'one', '-f', 'json'));
    expect(info).toMatchObject({ name: 'one', type: 'custom', snapshots: [{ name: 'second' }], backups: [] });
    expect(info.snapshots[0]).not.toHaveProperty('description');
    expect(await volume('list', 'p', 'type=custom', 'one', '-f', 'csv', '-c', 'tn')).toBe(
      'custom,one\ncustom (snapshot),one/second\n',
    );
    await volume('copy', 'p/one/second', 'p/alone');
    expect(JSON.parse(await volume('info', 'p', 'alone', '-f', 'json'))).toMatchObject({ snapshots: [] });
    for (const name of ['one', 'two', 'raw', 'alone']) await volume('delete', 'p', name);
  });

  test('copies and moves between pools and projects, refreshed', async () => {
    await person.ok('storage', 'create', 'q', 'dir');
    await person.ok('project', 'create', 'other', 'features.images=false', 'features.profiles=false');
    await volume('create', 'p', 'data');
    await volume('copy', 'p/data', 'q/copy');
    await volume('snapshot', 'create', 'p', 'data', 's1');
    await volume('copy', 'p/data', 'q/copy', '--refresh');
    expect(await volume('snapshot', 'list', 'q', 'copy', '-f', 'csv')).toMatch(/^s1,/);
    await volume('move', 'q/copy', 'p/moved');
    await volume('copy', 'p/moved', 'p/theirs', '--target-project', 'other', '--volume-only');
    await volume('move', 'p/moved', 'p/mine', '--target-project', 'other');
    expect(
      await person.ok('--project', 'other', 'storage', 'volume', 'list', 'p', 'type=custom', '-f', 'csv', '-c', 'n'),
    ).toBe('mine\nmine/s1\ntheirs\n');
    for (const name of ['mine', 'theirs'])
      await person.ok('--project', 'other', 'storage', 'volume', 'delete', 'p', name);
    expect((await person.run(['storage', 'volume', 'copy', 'p', 'q/x'])).code).toBe(2);
    expect((await person.run(['storage', 'volume', 'copy', 'p/nope', 'q/x'])).code).toBe(1);
    expect((await person.run(['storage', 'volume', 'copy', 'p/data', 'q/x', '--mode', 'x'])).code).toBe(2);
    await volume('delete', 'p', 'data');
    await person.ok('project', 'delete', 'other');
    await person.ok('storage', 'delete', 'q');
  });

  test('profiles, read-only disks, devices by name, discs', async () => {
    await volume('create', 'p', 'data');
    await person.ok('profile', 'create', 'with-data');
    await volume('attach-profile', 'p', 'data', 'with-data', '/mnt/data', '--device', 'd1');
    expect(await person.ok('profile', 'device', 'list', 'with-data', '-f', 'csv')).toBe('d1,disk\n');
    expect((await person.run(['storage', 'volume', 'detach-profile', 'p', 'data', 'with-data', 'd2'])).code).toBe(2);
    await volume('detach-profile', 'p', 'data', 'with-data');
    await person.ok('profile', 'delete', 'with-data');
    await volume('attach', 'p', 'data', 'v1', '/mnt/ro', '--device', 'ro', '--read-only');
    expect(await inGuest('touch /mnt/ro/x 2>/dev/null && echo written || echo refused')).toBe('refused\n');
    await volume('attach', 'p', 'data', 'v1', '/mnt/rw', '--device', 'rw');
    expect(await inGuest('touch /mnt/rw/x && ls /mnt/ro')).toBe('x\n');
    await volume('detach', 'p', 'data', 'v1', 'ro');
    expect(await person.ok('config', 'device', 'list', 'v1', '-f', 'csv')).toBe('rw,disk\n');
    await volume('detach', 'p', 'data', 'v1');
    await volume('delete', 'p', 'data');
    const disc = join(person.home, 'disc.iso');
    writeFileSync(disc, 'a disc');
    expect((await person.run(['storage', 'volume', 'import', 'p', disc])).code).toBe(2);
    await volume('import', 'p', disc, 'disc');
    expect(await volume('list', 'p', 'disc', '-f', 'csv', '-c', 'nc')).toBe('disc,iso\n');
    await volume('delete', 'p', 'disc');
  });

  test('pools', async () => {
    await person.ok('storage', 'create', 'r', 'dir', 'user.a=1');
    expect(await person.ok('storage', 'list', '-f', 'csv')).toMatch(/^r,dir,.*,CREATED$/m);
    expect(await person.ok('storage', 'get', 'r', 'user.a')).toBe('1\n');
    await person.ok('storage', 'set', 'r', 'user.b=2', 'volume.size=10MiB');
    await person.ok('storage', 'unset', 'r', 'user.a');
    expect(JSON.parse(await person.ok('storage', 'show', 'r', '-f', 'json'))).toMatchObject({
      config: { 'user.b': '2', 'volume.size': '10MiB' },
    });
    const info = JSON.parse(await person.ok('storage', 'info', 'r', '--bytes', '-f', 'json'));
    expect(info).toMatchObject({ name: 'r', driver: 'dir', status: 'Created' });
    expect(info.space.total).toBeGreaterThan(info.space.used);
    const edit = await person.run(['storage', 'edit', 'r'], { input: JSON.stringify({ config: { 'zfs.x': '1' } }) });
    expect(edit.code).toBe(1);
    await person.ok('storage', 'delete', 'r');
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
