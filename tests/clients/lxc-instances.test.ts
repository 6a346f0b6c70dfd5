import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { allOf, named, probePrograms, probeRoot, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { LxcWorld } from './lxc-world.ts';

const probe = allOf(probeRoot(), probePrograms('lxc', 'script'));

describe.skipIf(!probe.ok)(named('lxc and instances', probe), () => {
  let world: LxcWorld;

  beforeAll(async () => {
    world = await LxcWorld.open();
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  const status = async (name: string): Promise<string> =>
    (await world.ok('list', `^${name}$`, '-c', 's', '-f', 'csv')).trim();

  test('launch and init', async () => {
    expect(await world.ok('launch', 'tiny', 'c1', '-c', 'user.a=b', '-c', 'limits.memory=64MiB')).toContain(
      'Creating c1',
    );
    await world.ok('init', 'tiny', 'c2', '--no-profiles', '--storage', 'p', '--ephemeral');
    await world.pipe('config:\n  user.b: from-stdin\n', 'init', '--empty', 'c3', '-d', 'root,size=1GiB');
    expect(await world.ok('config', 'get', 'c3', 'user.b')).toBe('from-stdin\n');
    expect(await world.ok('config', 'device', 'get', 'c3', 'root', 'size')).toBe('1GiB\n');
    expect(await world.fails('launch', 'tiny', 'c1')).toContain('already exists');
    expect(await world.fails('launch', 'no-such-image', 'c9')).toMatch(/not found/i);
    expect(await world.fails('init', 'tiny', 'a_b')).toContain('Invalid instance name');
    expect(await world.fails('init', 'tiny', 'c9', '-c', 'no.such=1')).toContain('Unknown configuration key: no.such');
  });

  test('list with columns, filters and formats', async () => {
    await until('an address', async () => /10\./.test(await world.ok('list', 'c1', '-c', '4', '-f', 'csv')));
    expect(await world.ok('list', '-c', 'nstSPl', '-f', 'csv')).toMatch(
      /^c1,RUNNING,CONTAINER,0,default,.+\nc2,STOPPED,CONTAINER \(EPHEMERAL\),0,,.*\nc3,STOPPED,CONTAINER,0,default,.*\n$/,
    );
    expect(await world.ok('list', '-c', 'n,user.a:A:5,config:limits.memory', '-f', 'csv', 'user.a=b')).toBe(
      'c1,b,64MiB\n',
    );
    expect(await world.ok('list', 'status=stopped', '-c', 'n', '-f', 'csv')).toBe('c2\nc3\n');
    expect(await world.ok('list', 'type=container', 'user.a=b', '-c', 'n', '-f', 'csv')).toBe('c1\n');
    expect(await world.ok('list', '--fast')).toContain('CREATED AT');
    expect(await world.ok('list', '-c', 'nabcdDefFmMNpu')).toContain('c1');
    expect(await world.ok('list', '--all-projects', '-c', 'en', '-f', 'csv')).toContain('default,c1\n');
    const [c1] = JSON.parse(await world.ok('list', 'c1', '-f', 'json')) as { state: { pid: number } }[];
    expect(c1?.state.pid).toBeGreaterThan(1);
    expect(await world.ok('list', 'c1', '-f', 'yaml')).toContain('status: Running');
    expect(await world.ok('list', '-f', 'compact')).toContain('c3');
  });

  test('info', async () => {
    const info = await world.ok('info', 'c1');
    expect(info).toMatch(/Name: c1\nStatus: RUNNING\nType: container\nArchitecture: \S+\nPID: \d+\n/);
    expect(info).toMatch(/Memory \(current\): [\d.]+\wiB/);
    expect(info).toContain('Host interface: veth');
    expect(await world.ok('info', 'c1', '--resources')).toContain('Resources:');
    expect(await world.ok('info', 'c1', '--show-log')).toContain('Log:');
    expect(await world.ok('info', 'c2', '--show-log')).toContain('Log:');
    expect(await world.fails('info', 'nope')).toBe('Error: Instance not found');
  });

  test('exec without a terminal', async () => {
    const both = await world.run(['exec', 'c1', '--env', 'A=b', '--', 'sh', '-c', 'echo $A; echo err >&2; exit 7']);
    expect(both).toMatchObject({ code: 7, stdout: 'b\n', stderr: 'err\n' });
    expect(await world.pipe('in\n', 'exec', 'c1', '--', 'cat')).toBe('in\n');
    expect(await world.pipe('in\n', 'exec', 'c1', '-n', '--', 'cat')).toBe('');
    expect(await world.ok('exec', 'c1', '--user', '1000', '--group', '1000', '--cwd', '/tmp', 'pwd')).toBe('/tmp\n');
    expect(await world.run(['exec', 'c1', '--mode', 'non-interactive', '--', 'tty'])).toMatchObject({ code: 1 });
    expect(await world.run(['exec', 'c1', 'nonexistent'])).toMatchObject({ code: 127 });
    expect(await world.run(['exec', 'c1', '/etc/passwd'])).toMatchObject({ code: 126 });
    expect(await world.fails('exec', 'c2', 'true')).toContain('Instance is not running');
  });

  test('exec with a terminal', async () => {
    expect(await world.terminal('stty rows 33 cols 77; lxc exec c1 -- sh -c "stty size; tty"')).toMatch(
      /33 77\n\/dev\/(pts\/\d+|console)\n$/,
    );
    expect(await world.ok('exec', 'c1', '-t', '--', 'sh', '-c', 'test -t 0 && echo terminal')).toContain('terminal');
    expect(await world.terminal('lxc exec c1 -- sh -c "exit 5"; echo code=$?')).toContain('code=5\n');
  });

  test('console', async () => {
    expect(await world.ok('console', 'c1', '--show-log')).toContain('tiny: ready');
    expect(await world.fails('console', 'nope', '--show-log')).toBe('Error: Instance not found');
  });

  test('pause, start, restart and stop', async () => {
    await world.ok('pause', 'c1');
    expect(await status('c1')).toBe('FROZEN');
    await world.ok('start', 'c1');
    expect(await status('c1')).toBe('RUNNING');
    await world.ok('restart', 'c1', '--force');
    expect(await world.fails('start', 'c1')).toContain('The instance is already running');
    await world.ok('stop', 'c1', '--timeout', '60');
    expect(await status('c1')).toBe('STOPPED');
    expect(await world.fails('stop', 'c1')).toContain('The instance is already stopped');
    await world.ok('start', 'c1');
    await world.ok('stop', '--all', '--force');
    expect(await status('c1')).toBe('STOPPED');
  });

  test('files', async () => {
    const file = join(world.folder, 'file');
    writeFileSync(file, 'content\n');
    await world.ok('file', 'push', file, 'c1/root/a', '--mode', '0640', '--uid', '5', '--gid', '6');
    await world.pipe('piped\n', 'file', 'push', '-', 'c1/root/deep/er/b', '-p');
    expect(await world.ok('file', 'pull', 'c1/root/deep/er/b', '-')).toBe('piped\n');
    const tree = join(world.folder, 'tree');
    mkdirSync(join(tree, 'sub'), { recursive: true });
    writeFileSync(join(tree, 'sub', 'leaf'), 'leaf\n');
    await world.ok('file', 'push', '-r', '-p', tree, 'c1/srv/');
    await world.ok('file', 'pull', '-r', 'c1/srv/tree', join(world.folder, 'back'));
    expect(readFileSync(join(world.folder, 'back', 'tree', 'sub', 'leaf'), 'utf8')).toBe('leaf\n');
    await world.terminal(`EDITOR=${world.editor('content', 'edited')} lxc file edit c1/root/a`);
    expect(await world.ok('file', 'pull', 'c1/root/a', '-')).toBe('edited\n');
    await world.ok('start', 'c1');
    expect(await world.ok('exec', 'c1', '--', 'stat', '-c', '%u:%g:%a', '/root/a')).toBe('5:6:640\n');
    await world.ok('file', 'delete', 'c1/root/a');
    expect(await world.fails('file', 'delete', 'c1/root/a')).toMatch(/not found/i);
    expect(await world.fails('file', 'pull', 'c1/root/a', '-')).toMatch(/not found/i);
  });

  test('snapshot, restore and copy', async () => {
    await world.ok('exec', 'c1', '--', 'sh', '-c', 'echo one >/root/value');
    await world.ok('snapshot', 'c1');
    await world.ok('snapshot', 'c1', 's1', '--no-expiry');
    expect(await world.fails('snapshot', 'c1', 's1')).toContain('already exists');
    await world.ok('snapshot', 'c1', 's1', '--reuse');
    await world.ok('exec', 'c1', '--', 'sh', '-c', 'echo two >/root/value');
    expect(await world.ok('info', 'c1')).toMatch(/snap0 [^]*s1 /);
    await world.ok('restore', 'c1', 's1');
    expect(await world.ok('exec', 'c1', 'cat', '/root/value')).toBe('one\n');
    await world.ok('rename', 'c1/s1', 'c1/s2');
    await world.edit(['config'], (text) => text.replace('expires_at: 0001', 'expires_at: 2090'), 'c1/s2');
    expect(await world.ok('config', 'show', 'c1/s2')).toContain('expires_at: 2090-01-01T00:00:00Z');
    await world.ok('copy', 'c1/s2', 'c4');
    await world.ok('copy', 'c1', 'c5', '--instance-only', '-c', 'user.z=1', '--ephemeral');
    await world.ok('copy', 'c1', 'c6');
    expect(await world.ok('list', 'c[456]', '-c', 'nS', '-f', 'csv')).toBe('c4,0\nc5,0\nc6,2\n');
    expect(await world.ok('config', 'get', 'c5', 'user.z')).toBe('1\n');
    await world.ok('delete', 'c1/s2');
    expect(await world.fails('restore', 'c1', 's2')).toBe('Error: Snapshot c1/s2 does not exist');
  });

  test('rename, move and publish', async () => {
    expect(await world.fails('rename', 'c1', 'c7')).toContain('running');
    await world.ok('rename', 'c4', 'c7');
    await world.ok('move', 'c5', 'c8');
    const published = await world.ok('publish', 'c7', '--alias', 'mine', '--public', 'colour=blue');
    expect(published).toMatch(/Instance published with fingerprint: [0-9a-f]{64}/);
    await world.ok('publish', 'c6/snap0', '--alias', 'from-snapshot', '--compression', 'none');
    expect(await world.ok('image', 'get-property', 'mine', 'colour')).toBe('blue\n');
    await world.ok('launch', 'from-snapshot', 'c9');
    expect(await world.ok('exec', 'c9', 'hostname')).toBe('c9\n');
  });

  test('delete', async () => {
    expect(await world.fails('delete', 'c1')).toContain('The instance is currently running, stop it first or pass');
    await world.ok('delete', '--force', 'c1', 'c2', 'c3', 'c6', 'c7', 'c8', 'c9');
    expect(await world.ok('list', '-f', 'csv')).toBe('');
    expect(await world.fails('delete', 'c1')).toContain('Instance not found');
  });
});
