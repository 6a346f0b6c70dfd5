import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { allOf, command, named, probePrograms, probeRoot, startDaemon, type TestDaemon, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { LxcWorld } from './lxc-world.ts';

const probe = allOf(probeRoot(), probePrograms('lxc', 'script'));

describe.skipIf(!probe.ok)(named('lxc, images and the server', probe), () => {
  let world: LxcWorld;
  let other: TestDaemon;

  beforeAll(async () => {
    [world, other] = await Promise.all([LxcWorld.open(), startDaemon()]);
  });
  afterAll(async () => {
    await other?.[Symbol.asyncDispose]();
    await world?.[Symbol.asyncDispose]();
  });

  const image = (...args: string[]): Promise<string> => world.ok('image', ...args);

  test('image list, info, show, edit and properties', async () => {
    expect(await image('list', '-c', 'ldat', '-f', 'csv')).toBe('tiny,Tiny test image,x86_64,CONTAINER\n');
    expect(await image('list', 'os=Tiny', '-c', 'l', '-f', 'csv')).toBe('tiny\n');
    expect(await image('list', 'os=Other', '-c', 'l', '-f', 'csv')).toBe('');
    expect(await image('info', 'tiny')).toMatch(/Fingerprint: [0-9a-f]{64}\n[^]*Type: container\n/);
    await world.edit(['image'], (text) => text.replace('Tiny test image', 'Edited'), 'tiny');
    expect(await image('get-property', 'tiny', 'description')).toBe('Edited\n');
    await image('set-property', 'tiny', 'colour', 'red');
    await image('unset-property', 'tiny', 'colour');
    expect(await image('show', 'tiny')).not.toContain('colour');
    expect(await image('refresh', 'tiny')).toContain('up to date');
    expect(await world.fails('image', 'info', 'nope')).toBe('Error: Image not found');
  });

  test('image aliases and export', async () => {
    const fingerprint = /Fingerprint: (\S+)/.exec(await image('info', 'tiny'))?.[1] ?? '';
    await image('alias', 'create', 'second', fingerprint);
    expect(await world.fails('image', 'alias', 'create', 'second', fingerprint)).toContain('already exists');
    await image('alias', 'rename', 'second', 'third');
    expect(await image('alias', 'list', '-f', 'csv')).toMatch(/^third,\w{12},CONTAINER,\ntiny,/);
    await image('alias', 'delete', 'third');
    await image('export', 'tiny', join(world.folder, 'exported'));
    expect(readdirSync(world.folder).filter((name) => name.includes('exported'))).toHaveLength(2);
  });

  test('image copy to another server, and a launch there from here', async () => {
    await other.request('PATCH', '/1.0', {
      config: { 'core.https_address': '127.0.0.1:0', 'core.trust_password': 'sesame' },
    });
    const { body } = await other.request<{ environment: { addresses: string[] } }>('GET', '/1.0');
    const address = body.metadata.environment.addresses[0] ?? '';
    await world.ok('remote', 'add', 'other', address, '--accept-certificate', '--password', 'sesame');
    expect(await world.ok('remote', 'list', '-f', 'csv')).toContain(`other,https://${address},lxd,tls,NO,NO,NO\n`);
    await image('copy', 'tiny', 'other:', '--copy-aliases', '--mode', 'relay');
    expect(await image('list', 'other:', '-c', 'lF', '-f', 'csv')).toMatch(/^tiny,[0-9a-f]{64}\n$/);
    await world.ok('remote', 'switch', 'other');
    expect(await world.ok('remote', 'get-default')).toBe('other\n');
    expect(await image('list', '-c', 'l', '-f', 'csv')).toBe('tiny\n');
    await world.ok('remote', 'switch', 'local');
    await world.ok('remote', 'rename', 'other', 'there');
    await image('delete', 'there:tiny');
    await world.ok('remote', 'remove', 'there');
  });

  test('query and operation', async () => {
    await world.ok('init', 'tiny', 'c1');
    expect(JSON.parse(await world.ok('query', '/1.0/instances'))).toEqual(['/1.0/instances/c1']);
    const started = await world.ok(
      'query',
      '--wait',
      '-X',
      'PUT',
      '-d',
      '{"action":"start"}',
      '/1.0/instances/c1/state',
    );
    expect(JSON.parse(started)).toMatchObject({ status: 'Success', description: 'Starting instance' });
    expect(await world.ok('query', '--raw', '/1.0/instances/c1')).toContain('"status_code": 200');
    expect(await world.fails('query', '/1.0/nope')).toBe('Error: not found');
    expect(await world.fails('operation', 'show', 'nope')).toBe('Error: Operation not found');
    await world.daemon.request('POST', '/1.0/instances/c1/exec', { command: ['sleep', '600'] });
    const [id = '', ...more] = (await world.ok('operation', 'list', '-f', 'csv'))
      .split('\n')
      .filter((line) => line.includes('Executing command,RUNNING'))
      .map((line) => line.split(',')[0]);
    expect(more).toEqual([]);
    expect(await world.ok('operation', 'show', id)).toContain('status: Running');
    expect(await world.fails('operation', 'delete', id)).toMatch(/can.t be cancelled/);
  });

  test('instances over HTTPS', async () => {
    await world.ok('config', 'set', 'core.https_address=127.0.0.1:0', 'core.trust_password=sesame');
    const { body } = await world.daemon.request<{ environment: { addresses: string[] } }>('GET', '/1.0');
    const address = body.metadata.environment.addresses[0] ?? '';
    await world.ok('remote', 'add', 'self', address, '--accept-certificate', '--password', 'sesame');
    await world.ok('launch', 'self:tiny', 'self:r1');
    expect(await world.ok('list', 'self:r1', '-c', 'ns', '-f', 'csv')).toBe('r1,RUNNING\n');
    expect(await world.pipe('in\n', 'exec', 'self:r1', '--', 'cat')).toBe('in\n');
    expect(await world.run(['exec', 'self:r1', '--', 'sh', '-c', 'echo err >&2; exit 4'])).toMatchObject({
      code: 4,
      stderr: 'err\n',
    });
    expect(await world.terminal('stty rows 21 cols 71; lxc exec self:r1 -- stty size')).toContain('21 71\n');
    await world.pipe('pushed\n', 'file', 'push', '-', 'self:r1/root/f');
    expect(await world.ok('file', 'pull', 'self:r1/root/f', '-')).toBe('pushed\n');
    await world.ok('delete', '--force', 'self:r1');
    await world.ok('remote', 'remove', 'self');
    await world.ok(
      'config',
      'trust',
      'remove',
      (await world.ok('config', 'trust', 'list', '-f', 'csv')).split(',')[3] ?? '',
    );
    await world.ok('config', 'unset', 'core.https_address');
    await world.ok('config', 'unset', 'core.trust_password');
  });

  test('monitor', async () => {
    const child = spawn('lxc', ['monitor', '--type=lifecycle', '--format=json'], {
      env: { ...process.env, ...world.env },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    try {
      let heard = '';
      child.stdout.on('data', (chunk: Buffer) => (heard += chunk.toString()));
      // It says nothing when it is connected, so change things until it was heard.
      let round = 0;
      await until('an event', async () => {
        await world.ok('config', 'set', 'c1', `user.round=${round++}`);
        return heard.includes('instance-updated');
      });
      const event = JSON.parse(heard.split('\n')[0] ?? '') as Record<string, unknown>;
      expect(event).toMatchObject({
        type: 'lifecycle',
        project: 'default',
        metadata: { action: 'instance-updated', source: '/1.0/instances/c1' },
      });
    } finally {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    }
  });

  test('warning, cluster, version and info', async () => {
    expect(await world.ok('warning', 'list')).toContain('UUID');
    expect(await world.fails('warning', 'show', 'nope')).toBe('Error: Warning not found');
    expect(await world.fails('cluster', 'list')).toMatch(/isn't part of a cluster|"clustering" API extension/);
    expect(await world.ok('version')).toMatch(/Client version: 5\.0\.\d+\nServer version: \S+\n/);
    expect(await world.ok('info')).toMatch(/auth: trusted[^]*server_name: /);
    await world.ok('config', 'set', 'user.note=kept');
    expect(await world.ok('config', 'get', 'user.note')).toBe('kept\n');
    await world.pipe((await world.ok('config', 'show')).replace('kept', 'edited'), 'config', 'edit');
    expect(await world.ok('config', 'show')).toContain('user.note: edited');
    await world.ok('config', 'unset', 'user.note');
    expect(await world.ok('config', 'trust', 'list', '-f', 'csv')).toBe('');
    expect(await world.fails('config', 'trust', 'remove', 'nope')).toBe('Error: Certificate not found');
  });

  test('its settings stay in its own folder', async () => {
    expect((await command('ls', [world.folder])).stdout).toContain('config.yml');
  });
});
