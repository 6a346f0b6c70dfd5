import { allOf, named, probePrograms, probeRoot } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { LxcWorld } from './lxc-world.ts';

const probe = allOf(probeRoot(), probePrograms('lxc', 'script'));

describe.skipIf(!probe.ok)(named('lxc, config, profiles and projects', probe), () => {
  let world: LxcWorld;

  beforeAll(async () => {
    world = await LxcWorld.open();
    await world.ok('launch', 'tiny', 'c1');
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  const get = async (...args: string[]): Promise<string> => (await world.ok('config', 'get', ...args)).trimEnd();

  test('config get, set, unset, show and edit', async () => {
    await world.ok('config', 'set', 'c1', 'user.a=1', 'user.b=two words', 'limits.processes=200');
    await world.ok('config', 'set', 'c1', 'user.c', '3');
    expect(await get('c1', 'user.b')).toBe('two words');
    await world.ok('config', 'unset', 'c1', 'user.a');
    await world.ok('config', 'set', 'c1', 'user.c=');
    const shown = await world.ok('config', 'show', 'c1');
    expect(shown).toContain('user.b: two words');
    expect(shown).not.toMatch(/user\.[ac]/);
    expect(await world.ok('config', 'show', 'c1', '--expanded')).toContain(`network: ${world.bridge}`);
    await world.edit(['config'], (text) => text.replace('two words', 'three'), 'c1');
    expect(await get('c1', 'user.b')).toBe('three');
    await world.terminal(`EDITOR=${world.editor('three', 'four')} lxc config edit c1`);
    expect(await get('c1', 'user.b')).toBe('four');
    expect(await world.fails('config', 'set', 'c1', 'no.such=1')).toContain('Unknown configuration key: no.such');
    expect(await world.fails('config', 'set', 'c1', 'limits.memory=much')).toContain('much');
    await world.pipe('from stdin', 'config', 'set', 'c1', 'user.d', '-');
    expect(await get('c1', 'user.d')).toBe('from stdin');
  });

  test('config device', async () => {
    const device = (...args: string[]): Promise<string> => world.ok('config', 'device', ...args);
    await device('add', 'c1', 'd', 'disk', `source=${world.folder}`, 'path=/mnt/d', 'readonly=true');
    expect(await device('list', 'c1')).toBe('d\n');
    expect(await device('show', 'c1')).toContain('path: /mnt/d');
    expect(await device('get', 'c1', 'd', 'path')).toBe('/mnt/d\n');
    await device('set', 'c1', 'd', 'path=/mnt/e');
    expect(await world.ok('exec', 'c1', 'ls', '/mnt/e')).toContain('config.yml');
    await device('unset', 'c1', 'd', 'readonly');
    expect(await device('show', 'c1')).not.toContain('readonly');
    expect(await world.fails('config', 'device', 'add', 'c1', 'd', 'disk')).toContain('already exists');
    expect(await world.fails('config', 'device', 'add', 'c1', 'x', 'nonsense')).toContain('Invalid device type');
    expect(await world.fails('config', 'device', 'set', 'c1', 'eth0', 'mtu=1400')).toContain('from profile(s)');
    await device('override', 'c1', 'eth0', 'name=eth7');
    expect(await world.ok('exec', 'c1', 'ls', '/sys/class/net')).toContain('eth7');
    await device('remove', 'c1', 'd', 'eth0');
    expect((await device('list', 'c1')).trim()).toBe('');
    expect(await world.fails('config', 'device', 'remove', 'c1', 'd')).toBe("Error: Device doesn't exist");
  });

  test('config metadata and template', async () => {
    const config = (...args: string[]): Promise<string> => world.ok('config', ...args);
    expect(await config('metadata', 'show', 'c1')).toContain('template: hostname.tpl');
    await world.edit(['config', 'metadata'], (text) => text.replace('Tiny test image', 'Mine'), 'c1');
    expect(await config('metadata', 'show', 'c1')).toContain('description: Mine');
    await config('template', 'create', 'c1', 'x.tpl');
    await world.pipe('hello', 'config', 'template', 'edit', 'c1', 'x.tpl');
    expect(await config('template', 'show', 'c1', 'x.tpl')).toContain('hello');
    expect(await config('template', 'list', 'c1')).toMatch(/hostname\.tpl[^]*x\.tpl/);
    await config('template', 'delete', 'c1', 'x.tpl');
    expect(await world.fails('config', 'template', 'show', 'c1', 'x.tpl')).toMatch(/not found/i);
  });

  test('profile', async () => {
    const profile = (...args: string[]): Promise<string> => world.ok('profile', ...args);
    await profile('create', 'a');
    expect(await world.fails('profile', 'create', 'a')).toContain('already exists');
    await profile('set', 'a', 'user.x=1', 'limits.processes=100');
    await profile('set', 'a', 'user.y', '2');
    expect(await profile('get', 'a', 'user.y')).toBe('2\n');
    await profile('unset', 'a', 'user.y');
    expect(await profile('show', 'a')).not.toContain('user.y');
    await world.edit(['profile'], (text) => text.replace(/user.x: .*/, 'user.x: edited'), 'a');
    expect(await profile('get', 'a', 'user.x')).toBe('edited\n');
    await profile('device', 'add', 'a', 'd', 'disk', `source=${world.folder}`, 'path=/mnt/p', 'readonly=true');
    await profile('device', 'set', 'a', 'd', 'path', '/mnt/q');
    await profile('device', 'unset', 'a', 'd', 'readonly');
    expect(await profile('device', 'list', 'a')).toBe('d\n');
    expect(await profile('device', 'get', 'a', 'd', 'path')).toBe('/mnt/q\n');
    expect(await profile('device', 'show', 'a')).toBe(`d:\n  path: /mnt/q\n  source: ${world.folder}\n  type: disk\n`);
    await profile('copy', 'a', 'b');
    await profile('rename', 'b', 'c');
    expect(await profile('show', 'c')).toContain('user.x: edited');
    await profile('add', 'c1', 'a');
    expect(await world.ok('exec', 'c1', 'ls', '/mnt/q')).toContain('config.yml');
    expect(await profile('list', '-f', 'csv')).toBe('a,,1\nc,,0\ndefault,,1\n');
    expect(await world.fails('profile', 'delete', 'a')).toContain('Profile is currently in use');
    await profile('remove', 'c1', 'a');
    await profile('assign', 'c1', 'default,c');
    expect(await world.ok('list', 'c1', '-c', 'P', '-f', 'csv')).toBe('"default\nc"\n');
    await profile('assign', 'c1', 'default');
    expect(await world.fails('profile', 'add', 'c1', 'nope')).toBe('Error: Profile not found');
    await profile('device', 'remove', 'a', 'd');
    await profile('delete', 'a');
    await profile('delete', 'c');
    expect(await world.fails('profile', 'delete', 'default')).toContain('cannot be deleted');
  });

  test('project', async () => {
    const project = (...args: string[]): Promise<string> => world.ok('project', ...args);
    await project('create', 'pr', '-c', 'features.images=false', '-c', 'features.profiles=false');
    await project('switch', 'pr');
    expect(await project('list', '-f', 'csv')).toContain('pr (current),NO,NO,YES,NO,,0\n');
    await world.ok('launch', 'tiny', 'c1');
    expect(await world.ok('list', '-c', 'ns', '-f', 'csv')).toBe('c1,RUNNING\n');
    expect(await world.ok('list', '--all-projects', '-c', 'en', '-f', 'csv')).toBe('default,c1\npr,c1\n');
    expect(await world.ok('exec', 'c1', 'hostname')).toBe('c1\n');
    expect(await project('info', 'pr')).toMatch(/INSTANCES +\| UNLIMITED \| 1 /);
    expect(await world.fails('project', 'delete', 'pr')).toContain('Only empty projects can be removed');
    await world.ok('delete', '--force', 'c1');
    await project('set', 'pr', 'user.x=1');
    expect(await project('get', 'pr', 'user.x')).toBe('1\n');
    await project('unset', 'pr', 'user.x');
    await world.edit(['project'], (text) => text.replace('description: ""', 'description: mine'), 'pr');
    expect(await project('show', 'pr')).toMatch(/description: mine\nname: pr\nused_by: \[\]/);
    await project('switch', 'default');
    expect(await world.fails('project', 'switch', 'nope')).toBe('Error: Project not found');
    await project('rename', 'pr', 'pr2');
    await project('delete', 'pr2');
    expect(await project('list', '-f', 'csv')).toMatch(/^default \(current\),.*\n$/);
  });
});
