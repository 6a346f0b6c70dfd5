import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { allOf, command, named, probePrograms, probeRoot, startDaemon, type TestDaemon } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const probe = allOf(probeRoot(), probePrograms('lxc'));

describe.skipIf(!probe.ok)(named('lxc over HTTPS', probe), () => {
  let daemon: TestDaemon;
  let address: string;
  const homes: string[] = [];

  beforeAll(async () => {
    daemon = await startDaemon();
    await daemon.request('PATCH', '/1.0', {
      config: { 'core.https_address': '127.0.0.1:0', 'core.trust_password': 'open sesame' },
    });
    const { body } = await daemon.request<{ environment: { addresses: string[] } }>('GET', '/1.0');
    address = body.metadata.environment.addresses[0] ?? '';
  });
  afterAll(async () => {
    await daemon[Symbol.asyncDispose]();
    for (const home of homes) rmSync(home, { recursive: true, force: true });
  });

  /** A person with a home of their own, and so with a certificate of their own. */
  function person(): (...args: string[]) => Promise<string> {
    const home = mkdtempSync(join(tmpdir(), 'keelson-home-'));
    homes.push(home);
    return async (...args) => (await command('lxc', args, { env: { HOME: home, LXD_CONF: home, LXD_DIR: '' } })).stdout;
  }
  const local = async (...args: string[]): Promise<string> =>
    (await command('lxc', args, { env: { LXD_DIR: daemon.stateDir, LXD_CONF: homes[0] ?? tmpdir() } })).stdout;

  test('remote add with the trust password', async () => {
    const lxc = person();
    await expect(lxc('remote', 'add', 'k', address, '--accept-certificate', '--password', 'wrong')).rejects.toThrow();
    await lxc('remote', 'add', 'k', address, '--accept-certificate', '--password', 'open sesame');
    expect(await lxc('profile', 'list', 'k:', '--format', 'csv')).toMatch(/^default,/);
    await lxc('profile', 'create', 'k:made-remotely');
    expect((await daemon.request('GET', '/1.0/profiles/made-remotely')).status).toBe(200);
    expect(await lxc('config', 'get', 'k:', 'core.trust_password')).toBe('true\n');
    await lxc('config', 'set', 'k:', 'user.note', 'kept');
    expect(await lxc('config', 'get', 'k:', 'user.note')).toBe('kept\n');
    // The password came back as `true` with that change, and is still the same.
    await person()('remote', 'add', 'k', address, '--accept-certificate', '--password', 'open sesame');
  });

  test('remote add with a token', async () => {
    const lxc = person();
    const issued = await local('config', 'trust', 'add', '--name', 'laptop', '--restricted', '--projects', 'default');
    const token = issued.trim().split('\n').at(-1) ?? '';
    await lxc('remote', 'add', 'k', token);
    expect(await lxc('profile', 'list', 'k:', '--format', 'csv')).toContain('default');
    expect(await local('config', 'trust', 'list', '--format', 'csv')).toContain('laptop');
    await expect(lxc('config', 'set', 'k:', 'user.note', 'mine')).rejects.toThrow('not authorized');
    await expect(person()('remote', 'add', 'k', token)).rejects.toThrow();
  });

  test('server commands over the socket', async () => {
    expect(await local('info')).toContain('server: keelson');
    expect(await local('info', '--resources')).toContain('Total:');
    expect(await local('operation', 'list')).toContain('DESCRIPTION');
    await local('config', 'set', 'images.auto_update_interval', '12');
    expect(await local('config', 'show')).toContain('images.auto_update_interval: "12"');
    await local('config', 'unset', 'images.auto_update_interval');
    await expect(local('config', 'set', 'zork', '1')).rejects.toThrow("cannot set 'zork' to '1': unknown key");
  });
});
