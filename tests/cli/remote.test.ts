import { named, probeRoot } from '@keelson/testkit';
import { X509Certificate } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CliWorld, type Person } from './world.ts';

const probe = probeRoot();

describe.skipIf(!probe.ok)(named('keelson and remotes', probe), () => {
  let world: CliWorld;
  let address: string;
  const people: Person[] = [];
  const stranger = (): Person => {
    const person = world.stranger();
    people.push(person);
    return person;
  };

  beforeAll(async () => {
    world = await CliWorld.open();
    await world.person.ok(
      'admin',
      'config',
      'set',
      'core.https_address=127.0.0.1:0',
      'core.trust_password=open sesame',
    );
    const { body } = await world.daemon.request<{ environment: { addresses: string[] } }>('GET', '/1.0');
    address = body.metadata.environment.addresses[0] ?? '';
  });
  afterAll(async () => {
    for (const person of people) person[Symbol.dispose]();
    await world?.[Symbol.asyncDispose]();
  });

  test('no server here: where it was looked for, exit code 1', async () => {
    const { code, stderr } = await stranger().run(['--endpoint', 'unix:/nowhere/at/all', 'list']);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^Error: Cannot reach the server: .*\/nowhere\/at\/all.*\nIs the server running\?/);
  });

  test('remote add shows the fingerprint and waits for a yes; a wrong password leaves nothing', async () => {
    const person = stranger();
    const asked = await person.run(['remote', 'add', 'k', address]);
    const certificate = readFileSync(join(world.daemon.stateDir, 'server.crt'));
    const fingerprint = new X509Certificate(certificate).fingerprint256.replaceAll(':', '').toLowerCase();
    expect(asked.code).toBe(2);
    expect(asked.stderr).toContain(fingerprint);
    const wrong = await person.run(['remote', 'add', 'k', address, '--accept-certificate', '--password', 'wrong']);
    expect(wrong.code).toBe(1);
    expect(wrong.stderr).toContain('refuses this password or token');
    expect(await person.ok('remote', 'list', '-f', 'csv')).not.toContain(address);
    expect(existsSync(join(person.home, 'conf', 'servercerts', 'k.crt'))).toBe(false);
  });

  test('with the password everything works from afar', async () => {
    const person = stranger();
    using terminal = person.onTerminal(['remote', 'add', 'k', address]);
    await terminal.shows(/Is that right \(y\/n\)\?/);
    terminal.type('y\r');
    await terminal.shows(/Trust password or token/);
    terminal.type('open sesame\r');
    expect(await terminal.exited).toBe(0);
    expect(terminal.shown).not.toContain('open sesame');
    await person.ok('remote', 'switch', 'k');
    expect(await person.ok('remote', 'show')).toContain('trusted: true');
    expect(await person.ok('launch', 'tiny', 'far')).toBe('far\n');
    const { code, stdout } = await person.run(['exec', 'k:far', '--', 'sh', '-c', 'cat; exit 4'], {
      input: 'over there\n',
    });
    expect({ code, stdout }).toEqual({ code: 4, stdout: 'over there\n' });
    expect(await person.ok('list', 'k:far', '-f', 'csv', '-c', 'ns')).toBe('far,RUNNING\n');
    await person.ok('delete', '-f', 'far');
    const shutdown = await person.run(['admin', 'shutdown']);
    expect(shutdown).toMatchObject({ code: 2, stderr: expect.stringContaining('Only the server of this machine') });
    await person.ok('remote', 'remove', 'k');
    expect(await person.ok('remote', 'list', '-f', 'csv')).toContain('local (current),unix:,lxd,');
  });

  test('with a token, restricted to a project; trust list, show, remove', async () => {
    const { person: local } = world;
    await local.ok('project', 'create', 'lab');
    const token = (await local.ok('trust', 'add', '--name', 'laptop', '--projects', 'lab')).trim();
    const person = stranger();
    await person.ok('remote', 'add', 'k', token, '--remote-project', 'lab');
    expect(await person.ok('profile', 'list', 'k:', '-f', 'csv')).toMatch(/^default,/);
    const refused = await person.run(['storage', 'create', 'k:mine', 'dir']);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toMatch(/not authorized\nThe server does not let this client do that/);
    expect((await stranger().run(['remote', 'add', 'k', token])).code).toBe(1);
    const row =
      (await local.ok('trust', 'list', '-f', 'csv')).split('\n').find((line) => line.startsWith('laptop,')) ?? '';
    expect(row).toContain(',lab');
    const fingerprint = row.split(',')[3] ?? '';
    expect(await local.ok('trust', 'show', fingerprint)).toContain('restricted: true');
    await local.ok('trust', 'remove', fingerprint);
    expect((await person.run(['profile', 'list', 'k:'])).code).toBe(1);
    await local.ok('project', 'delete', 'lab');
  });

  test('trust add takes the certificate of a person', async () => {
    const person = stranger();
    await person.run(['remote', 'add', 'k', address, '--accept-certificate']);
    await world.person.ok('trust', 'add', join(person.home, 'conf', 'client.crt'), '--name', 'known');
    await person.ok('remote', 'add', 'k', address, '--accept-certificate');
    expect(await person.ok('image', 'alias', 'list', 'k:', '-f', 'csv')).toContain('tiny,');
  });

  test('another server in its place is not spoken to', async () => {
    const person = stranger();
    await person.ok('remote', 'add', 'k', address, '--accept-certificate', '--password', 'open sesame');
    await using other = await CliWorld.open();
    await other.person.ok('admin', 'config', 'set', 'core.https_address=127.0.0.1:0');
    const { body } = await other.daemon.request<{ environment: { addresses: string[] } }>('GET', '/1.0');
    const theirs = body.metadata.environment.addresses[0] ?? '';
    const file = join(person.home, 'conf', 'config.yml');
    writeFileSync(file, readFileSync(file, 'utf8').replace(address, theirs));
    const { code, stderr } = await person.run(['list', 'k:']);
    expect(code).toBe(1);
    expect(stderr).toContain('Cannot reach the server');
    await other.person.ok('admin', 'shutdown', '--timeout', '60');
    expect((await other.person.run(['list'])).code).toBe(1);
  });
});
