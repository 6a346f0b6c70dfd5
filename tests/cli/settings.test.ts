import { allOf, command, named, probePrograms, probeRoot, subnets, type TestSubnet } from '@keelson/testkit';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CliWorld, type Person } from './world.ts';

const probe = allOf(probeRoot(), probePrograms('lxc-start', 'mksquashfs', 'dnsmasq', 'nft'));

describe.skipIf(!probe.ok)(named('keelson and settings', probe), () => {
  let world: CliWorld;
  let person: Person;
  let subnet: TestSubnet;
  beforeAll(async () => {
    subnet = subnets.take();
    world = await CliWorld.open();
    person = world.person;
    await person.ok('init', 'tiny', 'c1');
  });
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
    await subnet[Symbol.asyncDispose]();
  });

  test('set, get, unset, show of an instance', async () => {
    await person.ok('config', 'set', 'c1', 'user.a=x=y', 'limits.cpu=1');
    await person.ok('config', 'set', 'c1', 'user.b', 'with spaces');
    expect(await person.ok('config', 'get', 'c1', 'user.a')).toBe('x=y\n');
    expect(await person.ok('config', 'get', 'c1', 'user.b')).toBe('with spaces\n');
    await person.ok('config', 'unset', 'c1', 'user.b');
    expect(JSON.parse(await person.ok('config', 'show', 'c1', '-f', 'json'))).toMatchObject({
      config: { 'user.a': 'x=y', 'limits.cpu': '1' },
    });
    const wrong = await person.run(['config', 'set', 'c1', 'nosuch=1']);
    expect(wrong).toMatchObject({ code: 1, stdout: '' });
    expect(wrong.stderr).toContain('nosuch');
  });

  test('edit: from standard input, and on a terminal in $EDITOR; unchanged text changes nothing', async () => {
    const text = await person.ok('config', 'show', 'c1');
    const changed = text.replace('user.a: x=y', 'user.a: edited');
    expect((await person.run(['config', 'edit', 'c1'], { input: changed })).stderr).toBe('');
    expect(await person.ok('config', 'get', 'c1', 'user.a')).toBe('edited\n');
    const editor = join(person.home, 'editor');
    writeFileSync(editor, '#!/bin/sh\nsed -i s/edited/twice/ "$1"\n', { mode: 0o755 });
    using terminal = person.onTerminal(['config', 'edit', 'c1'], { env: { VISUAL: editor } });
    expect(await terminal.exited).toBe(0);
    expect(await person.ok('config', 'get', 'c1', 'user.a')).toBe('twice\n');
    const broken = await person.run(['config', 'edit', 'c1'], { input: 'just words' });
    expect(broken).toMatchObject({ code: 2, stderr: 'Error: The text is no YAML record\n' });
  });

  test('devices', async () => {
    await person.ok('config', 'device', 'add', 'c1', 'data', 'disk', `source=${person.home}`, 'path=/data');
    await person.ok('config', 'device', 'set', 'c1', 'data', 'readonly=true');
    expect(JSON.parse(await person.ok('config', 'device', 'show', 'c1', '-f', 'json'))).toEqual({
      data: { type: 'disk', source: person.home, path: '/data', readonly: 'true' },
    });
    expect(await person.ok('config', 'device', 'list', 'c1', '-f', 'csv')).toBe('data,disk\n');
    await person.ok('config', 'device', 'remove', 'c1', 'data');
    expect((await person.run(['config', 'device', 'remove', 'c1', 'data'])).stderr).toBe(
      'Error: There is no device "data"\n',
    );
  });

  test('profiles: create, copy, assign, add, remove, edit, rename, delete', async () => {
    await person.ok('profile', 'create', 'small', 'limits.memory=100MiB');
    await person.ok('profile', 'copy', 'small', 'tiny');
    await person.ok('profile', 'rename', 'tiny', 'other');
    await person.ok('profile', 'assign', 'c1', 'default,small');
    await person.ok('profile', 'add', 'c1', 'other');
    expect(await person.ok('list', 'profile=other', '-c', 'nP,limits.memory', '-f', 'compact')).toContain(
      'default small other  100MiB',
    );
    await person.ok('profile', 'remove', 'c1', 'small');
    await person.ok('profile', 'delete', 'small');
    const used = await person.run(['profile', 'delete', 'other']);
    expect(used.stderr).toContain('in use');
    const show = JSON.parse(await person.ok('profile', 'show', 'other', '-f', 'json')) as object;
    const edit = await person.run(['profile', 'edit', 'other'], {
      input: JSON.stringify({ ...show, description: 'edited' }),
    });
    expect(edit).toEqual({ code: 0, stdout: '', stderr: '' });
    expect(await person.ok('profile', 'list', '-f', 'csv')).toBe('default,Default Keelson profile,1\nother,edited,1\n');
    await person.ok('profile', 'remove', 'c1', 'other');
    await person.ok('profile', 'delete', 'other');
  });

  test('networks: create, attach, leases, set, detach, delete', async () => {
    const { bridge, address, prefix } = subnet;
    await person.ok('network', 'create', bridge, `ipv4.address=${address}`, 'ipv6.address=none');
    await person.ok('network', 'attach', bridge, 'c1', 'eth0', 'eth0');
    await person.ok('config', 'device', 'set', 'c1', 'eth0', `ipv4.address=${prefix}.77`);
    expect(await person.ok('network', 'leases', bridge, '-f', 'csv')).toContain(`${prefix}.77,STATIC`);
    expect(await person.ok('network', 'list', '-f', 'csv')).toContain(`${bridge},bridge,YES,${address},none,1,CREATED`);
    await person.ok('network', 'set', bridge, 'user.note=mine');
    expect(await person.ok('network', 'get', bridge, 'user.note')).toBe('mine\n');
    expect(JSON.parse(await person.ok('network', 'info', bridge, '-f', 'json'))).toMatchObject({
      state: 'up',
      type: 'broadcast',
    });
    await person.ok('network', 'detach', bridge, 'c1');
    expect((await person.run(['network', 'detach', bridge, 'c1'])).code).toBe(2);
    await person.ok('network', 'delete', bridge);
  });

  test('storage pools', async () => {
    await person.ok('storage', 'create', 'second', 'dir', 'user.a=b');
    expect(await person.ok('storage', 'get', 'second', 'user.a')).toBe('b\n');
    expect(JSON.parse(await person.ok('storage', 'info', 'second', '-f', 'json'))).toMatchObject({
      name: 'second',
      driver: 'dir',
    });
    await person.ok('storage', 'delete', 'second');
    const used = await person.run(['storage', 'delete', 'p']);
    expect(used.code).toBe(1);
    expect(used.stderr).toMatch(/^Error: .*in use/);
  });

  test('projects: create, switch, --project', async () => {
    await person.ok('project', 'create', 'lab', 'features.images=false', 'features.profiles=false');
    await person.ok('--project', 'lab', 'init', 'tiny', 'inlab');
    expect(await person.ok('list', '-f', 'csv', '-c', 'n')).toBe('c1\n');
    expect(await person.ok('list', '--all-projects', '-f', 'csv', '-c', 'n')).toBe('default,c1\nlab,inlab\n');
    await person.ok('project', 'switch', 'lab');
    expect(await person.ok('list', '-f', 'csv', '-c', 'n')).toBe('inlab\n');
    expect(await person.ok('--project', 'default', 'list', '-f', 'csv', '-c', 'n')).toBe('c1\n');
    await person.ok('delete', 'inlab');
    await person.ok('project', 'switch', 'default');
    await person.ok('project', 'delete', 'lab');
    expect((await person.run(['project', 'switch', 'lab'])).stderr).toContain('Project not found: lab');
  });

  test('the server: admin config, query, operation list, doctor', async () => {
    await person.ok('admin', 'config', 'set', 'images.auto_update_interval=12');
    expect(await person.ok('admin', 'config', 'get', 'images.auto_update_interval')).toBe('12\n');
    await person.ok('admin', 'config', 'unset', 'images.auto_update_interval');
    expect(await person.ok('admin', 'config', 'show')).not.toContain('auto_update_interval');
    expect(JSON.parse(await person.ok('query', '/1.0/instances'))).toEqual(['/1.0/instances/c1']);
    const { metadata: record } = (await world.daemon.request<object>('GET', '/1.0/instances/c1')).body;
    const body = JSON.stringify({ ...record, description: 'queried' });
    const waited = await person.ok('query', '-X', 'PUT', '-d', body, '--wait', '/1.0/instances/c1');
    expect(JSON.parse(waited)).toMatchObject({ status: 'Success', description: 'Updating instance' });
    const { id } = JSON.parse(waited) as { id: string };
    expect(await person.ok('operation', 'list', '-f', 'csv')).toContain(id);
    expect(JSON.parse(await person.ok('operation', 'show', id, '-f', 'json'))).toMatchObject({ class: 'task' });
    expect((await person.run(['query', '/1.0/zork'])).code).toBe(1);
    expect(await person.ok('admin', 'doctor')).toContain('server: keelson');
  });

  test('completion: bash takes the script and completes names', async () => {
    const script = await person.ok('completion', 'bash');
    const ask = `keelson() { echo c1,x; echo d2; }; COMP_WORDS=(keelson exec c); COMP_CWORD=2; _keelson; echo "\${COMPREPLY[@]}"
      COMP_WORDS=(keelson storage volume at); COMP_CWORD=3; _keelson; echo "\${COMPREPLY[@]}"
      COMP_WORDS=(keelson stop c1 --for); COMP_CWORD=3; _keelson; echo "\${COMPREPLY[@]}"`;
    const { stdout, stderr } = await command('bash', ['-c', `${script}\n${ask}`]);
    expect({ stdout, stderr }).toEqual({ stdout: 'c1\nattach attach-profile\n--format --force\n', stderr: '' });
  });
});
