import { Client } from '@keelson/client';
import { allOf, command, named, probePrograms, probeRoot } from '@keelson/testkit';
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { tidyAfterFailure } from '../client/tidy.ts';
import { CliWorld, type Person } from './world.ts';

const probe = allOf(probeRoot(), probePrograms('lxc-start', 'mksquashfs'));

describe.skipIf(!probe.ok)(named('keelson and instances', probe), () => {
  let world: CliWorld;
  let person: Person;
  beforeAll(async () => {
    world = await CliWorld.open();
    person = world.person;
    await person.ok('launch', 'tiny', 'c1', '-c', 'user.owner=ann', '-c', 'limits.memory=200MiB');
  });
  afterEach(async (context) => {
    await using client = new Client({ endpoint: `unix:${world.daemon.socket}` });
    await tidyAfterFailure(context, client, ['c1']);
  });
  afterAll(async () => world?.[Symbol.asyncDispose]());

  test('list: every form, columns, filters', async () => {
    expect(await person.ok('list', '-f', 'csv', '-c', 'nst,user.owner,b')).toBe('c1,RUNNING,CONTAINER,ann,p\n');
    expect(await person.ok('list')).toContain('| c1   | RUNNING |');
    expect(await person.ok('list', '-f', 'yaml', 'status=running', 'user.owner=ann')).toMatch(
      /^- architecture: .*\n[^]*\n {2}name: c1\n/,
    );
    expect(JSON.parse(await person.ok('list', '-f', 'json', 'status=stopped'))).toEqual([]);
    const wrong = await person.run(['list', '-c', 'Z']);
    expect(wrong).toMatchObject({ code: 2, stdout: '' });
    expect(wrong.stderr).toContain('There is no column "Z"');
  });

  test('info', async () => {
    const info = JSON.parse(await person.ok('info', 'c1', '-f', 'json')) as {
      status: string;
      pid: number;
      snapshots: unknown[];
    };
    expect(info).toMatchObject({ name: 'c1', status: 'Running', profiles: ['default'], snapshots: [] });
    expect(info.pid).toBeGreaterThan(1);
  });

  test('exec: streams, exit code, user, folder, environment', async () => {
    const script = 'echo out; echo err >&2; id -u; pwd; echo $A; exit 7';
    const ran = await person.run([
      'exec',
      'c1',
      '--user',
      '1000',
      '--cwd',
      '/tmp',
      '--env',
      'A=b c',
      '--',
      'sh',
      '-c',
      script,
    ]);
    expect(ran).toEqual({ code: 7, stdout: 'out\n1000\n/tmp\nb c\n', stderr: 'err\n' });
  });

  test('exec: what cannot be run', async () => {
    const missing = await person.run(['exec', 'c1', 'nosuch']);
    expect(missing).toEqual({
      code: 127,
      stdout: '',
      stderr: 'Error: There is no command "nosuch" in instance "c1"\n',
    });
    expect((await person.run(['exec', 'c1', '/etc/passwd'])).code).toBe(126);
    expect((await person.run(['exec', 'c1'])).code).toBe(2);
  });

  test('exec: large input and output come through whole', async () => {
    const bytes = randomBytes(8 * 1024 * 1024);
    const file = join(person.home, 'big');
    writeFileSync(file, bytes);
    const sum = createHash('sha256').update(bytes).digest('hex');
    const { code, stdout } = await person.run(
      ['exec', 'c1', '--', 'sh', '-c', 'tee /tmp/big | sha256sum; cat /tmp/big >&2'],
      {
        input: readFileSync(file),
      },
    );
    expect({ code, stdout }).toEqual({ code: 0, stdout: `${sum}  -\n` });
    await person.ok('file', 'push', file, 'c1/root/');
    await person.ok('file', 'pull', 'c1/root/big', `${file}.back`);
    expect(readFileSync(`${file}.back`).equals(bytes)).toBe(true);
  });

  test('exec: a command runs to its end though nobody reads what it complains', async () => {
    const script = 'seq 1 200000 >&2; echo over; exit 6';
    const args = [process.execPath, person.program, 'exec', 'c1', '--', 'sh', '-c', script];
    // Standard error is a pipe whose reader leaves after the first line.
    const shell = '{ { "$@" 2>&1 >&3 3>&-; echo "code $?" >&3; } | head -n 1 >/dev/null; } 3>&1';
    const { stdout } = await command('bash', ['-c', shell, 'sh', ...args], { env: person.env });
    expect(stdout).toBe('over\ncode 6\n');
  });

  test('files: modes, lists, deletes, what is not there', async () => {
    await person.run(['file', 'push', '-', 'c1/root/note', '--mode', '600', '--uid', '1000'], { input: 'hello\n' });
    expect(await person.ok('exec', 'c1', '--', 'stat', '-c', '%a %u', '/root/note')).toBe('600 1000\n');
    expect(await person.ok('file', 'pull', 'c1/root/note', '-')).toBe('hello\n');
    expect((await person.ok('file', 'list', 'c1/root')).split('\n')).toContain('note');
    await person.ok('file', 'delete', 'c1/root/note');
    const gone = await person.run(['file', 'pull', 'c1/root/note', '-']);
    expect(gone).toMatchObject({ code: 1, stderr: 'Error: There is no /root/note in instance "c1"\n' });
    const absent = await person.run(['file', 'push', '/nowhere/at/all', 'c1/root/']);
    expect(absent).toMatchObject({ code: 2, stderr: 'Error: Cannot read /nowhere/at/all: there is no such file\n' });
  });

  test('states: pause, resume, stop, start, restart', async () => {
    const state = async (): Promise<string> => (await person.ok('list', 'c1', '-f', 'csv', '-c', 's')).trim();
    await person.ok('pause', 'c1');
    expect(await state()).toBe('FROZEN');
    await person.ok('resume', 'c1');
    await person.ok('stop', '--timeout', '30', 'c1');
    expect(await state()).toBe('STOPPED');
    await person.ok('start', 'c1');
    await person.ok('restart', '-f', 'c1');
    expect(await state()).toBe('RUNNING');
    const wrong = await person.run(['start', 'c1', 'nosuch']);
    expect(wrong.code).toBe(1);
    expect(wrong.stderr).toContain('Instance not found: nosuch');
  });

  test('init, rename, copy, move, delete', async () => {
    await person.ok('init', 'tiny', 'm1', '-e');
    await person.ok('init', '--empty', 'm2', '-s', 'p', '--no-profiles');
    expect(await person.ok('list', 'm', '-f', 'csv', '-c', 'nstP')).toBe(
      'm1,STOPPED,CONTAINER (EPHEMERAL),default\nm2,STOPPED,CONTAINER,\n',
    );
    await person.ok('rename', 'm1', 'm3');
    await person.ok('move', 'm3', 'm4');
    await person.ok('copy', 'm4', 'm5', '-s', 'p');
    expect(await person.ok('list', 'm', '-f', 'csv', '-c', 'n')).toBe('m2\nm4\nm5\n');
    await person.ok('delete', 'm2', 'm4', 'm5');
    const running = await person.run(['delete', 'c1']);
    expect(running).toMatchObject({
      code: 2,
      stderr: 'Error: Instance "c1" is running; stop it first, or use --force\n',
    });
  });

  test('snapshots: take, list, restore, copy, publish, delete', async () => {
    await person.ok('exec', 'c1', '--', 'sh', '-c', 'echo one >/root/state');
    await person.ok('snapshot', 'create', 'c1', 's1');
    await person.ok('exec', 'c1', '--', 'sh', '-c', 'echo two >/root/state');
    expect(await person.ok('snapshot', 'list', 'c1', '-f', 'csv')).toMatch(/^s1,20\d\d-/);
    await person.ok('copy', 'c1/s1', 'old');
    expect(await person.ok('snapshot', 'list', 'old', '-f', 'csv')).toBe('');
    await person.ok('start', 'old');
    expect(await person.ok('exec', 'old', 'cat', '/root/state')).toBe('one\n');
    await person.ok('snapshot', 'restore', 'c1', 's1');
    expect(await person.ok('exec', 'c1', 'cat', '/root/state')).toBe('one\n');
    const fingerprint = (await person.ok('publish', 'c1/s1', '--alias', 'mine')).trim();
    expect(await person.ok('image', 'alias', 'list', '-f', 'csv')).toContain(`mine,${fingerprint.slice(0, 12)}`);
    await person.ok('snapshot', 'rename', 'c1', 's1', 's2');
    await person.ok('snapshot', 'delete', 'c1', 's2');
    await person.ok('delete', '-f', 'old');
    await person.ok('image', 'delete', 'mine');
  });

  test('images: import, show, edit, alias, export, delete', async () => {
    const [file] = [join(person.home, 'image.tar')];
    await person.ok('image', 'alias', 'create', 'small', 'tiny');
    expect(JSON.parse(await person.ok('image', 'show', 'small', '-f', 'json'))).toMatchObject({
      properties: { os: 'Tiny' },
    });
    const edit = await person.run(['image', 'edit', 'small'], { input: 'public: true\nproperties: {os: Big}\n' });
    expect(edit.stderr).toBe('');
    expect(JSON.parse(await person.ok('image', 'show', 'tiny', '-f', 'json'))).toMatchObject({
      public: true,
      properties: { os: 'Big' },
    });
    expect((await person.ok('image', 'export', 'tiny', file)).trim()).toBe(file);
    expect(readFileSync(file).length).toBeGreaterThan(100_000);
    await person.ok('image', 'alias', 'delete', 'small');
    const wrong = await person.run(['image', 'show', 'small']);
    expect(wrong.stderr).toMatch(/^Error: Image not found: small\nSee "keelson image list"/);
  });

  test('console --show-log', async () => {
    expect(await person.ok('console', 'c1', '--show-log')).toContain('tiny: ready');
  });
});
