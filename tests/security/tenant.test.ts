import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SecurityWorld, type Tenant } from './world.ts';

describe('a certificate limited to a restricted project', () => {
  let world: SecurityWorld;
  let tenant: Tenant & { readonly fingerprint: string };
  let scratch: string;
  const root = { root: { type: 'disk', path: '/', pool: 'p' } };

  beforeAll(async () => {
    scratch = mkdtempSync(join(tmpdir(), 'keelson-security-'));
    world = await SecurityWorld.open();
    const { daemon } = world.world;
    const features = { 'features.images': 'false', 'features.networks': 'true' };
    await daemon.run('POST', '/1.0/projects', { name: 'mine', config: { restricted: 'true', ...features } });
    await daemon.run('POST', '/1.0/projects', { name: 'theirs', config: features });
    await daemon.run('POST', '/1.0/storage-pools/p/volumes/custom?project=theirs', { name: 'secrets' });
    await daemon.run('POST', '/1.0/instances?project=theirs', {
      name: 'victim',
      source: { type: 'none' },
      devices: root,
    });
    tenant = await world.tenant('mallory', ['mine']);
    await daemon.run('POST', '/1.0/instances?project=mine', { name: 'c1', source: { type: 'none' }, devices: root });
  });
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
    rmSync(scratch, { recursive: true, force: true });
  });

  const refuses = async (method: string, path: string, body?: unknown): Promise<void> => {
    const { status, text } = await tenant.outcome(method, path, body);
    expect([400, 403, 404], `${method} ${path} ${JSON.stringify(body)}: ${status} ${text}`).toContain(status);
  };

  test('may work in its project', async () => {
    expect((await tenant.call('GET', '/1.0/instances/c1?project=mine')).status).toBe(200);
    const volume = await tenant.outcome('POST', '/1.0/storage-pools/p/volumes/custom?project=mine', { name: 'own' });
    expect(volume.status).toBe(200);
  });

  test('cannot copy or move volumes between its project and others', async () => {
    const volumes = '/1.0/storage-pools/p/volumes/custom';
    await refuses('POST', `${volumes}?project=mine`, {
      name: 'stolen',
      source: { type: 'copy', name: 'secrets', pool: 'p', project: 'theirs' },
    });
    await refuses('POST', `${volumes}/own?project=mine`, { name: 'planted', project: 'theirs' });
    const { body } = await world.world.daemon.request<string[]>('GET', `${volumes}?project=theirs`);
    expect(body.metadata).toEqual(['/1.0/storage-pools/p/volumes/custom/secrets?project=theirs']);
  });

  test('cannot copy instances of others', async () => {
    await refuses('POST', '/1.0/instances?project=mine', {
      name: 'copy',
      source: { type: 'copy', source: 'victim', project: 'theirs' },
    });
    await refuses('POST', '/1.0/images?project=mine', { source: { type: 'instance', name: 'victim' } });
    const move = { migration: true, name: 'c1', project: 'theirs', pool: 'p' };
    const { status } = await tenant.outcome('POST', '/1.0/instances/c1?project=mine', move);
    expect([400, 403, 404, 501]).toContain(status);
  });

  test('sees nothing of others', async () => {
    for (const path of [
      '/1.0/instances?all-projects=true',
      '/1.0/instances?all-projects=true&recursion=1',
      '/1.0/instances?all-projects=true&recursion=2',
      '/1.0/operations?all-projects=true&recursion=1',
      '/1.0/images?all-projects=true&recursion=1',
      '/1.0/projects?recursion=1',
      '/1.0/certificates?recursion=1',
      '/1.0/storage-pools/p/volumes?project=mine&recursion=1',
      '/1.0/storage-pools/p/volumes?all-projects=true',
      '/1.0/storage-pools/p/volumes/custom?all-projects=true&recursion=1',
      '/1.0/storage-pools?recursion=1',
      '/1.0/storage-pools?recursion=1&filter=name eq p'.replaceAll(' ', '%20'),
      '/1.0/storage-pools/p',
      '/1.0/networks?project=mine&recursion=1',
    ]) {
      const { text } = await tenant.call('GET', path);
      expect(text, path).not.toMatch(/victim|theirs|secrets/);
    }
    for (const path of ['/1.0/instances/victim', '/1.0/instances/victim?project=theirs', '/1.0/projects/theirs'])
      expect([403, 404]).toContain((await tenant.call('GET', path)).status);
  });

  test('cannot change what it may do', async () => {
    const own = `/1.0/certificates/${tenant.fingerprint}`;
    await refuses('PUT', own, { name: 'm', type: 'client', restricted: false, projects: [] });
    await refuses('PUT', own, { name: 'm', type: 'server', restricted: true, projects: ['mine'] });
    await refuses('PATCH', own, { projects: ['mine', 'theirs'] });
    await refuses('PATCH', own, { restricted: false });
    await refuses('PUT', '/1.0/projects/mine', { config: {} });
    await refuses('PATCH', '/1.0/projects/mine', { config: { restricted: 'false' } });
    await refuses('POST', '/1.0/certificates', { type: 'client', token: true, name: 'x' });
    await refuses('PATCH', '/1.0', { config: { 'core.trust_password': 'mine' } });
    await refuses('POST', '/1.0/storage-pools', { name: 'evil', driver: 'dir', config: { source: '/etc' } });
    const { body } = await tenant.call<{ restricted: boolean; projects: string[] }>('GET', own);
    expect(body.metadata).toMatchObject({ restricted: true, projects: ['mine'] });
  });

  test('cannot touch networks of the host, which a bridge always is', async () => {
    await refuses('POST', '/1.0/networks?project=mine', {
      name: 'kevil0',
      config: { 'ipv4.address': 'none', 'ipv6.address': 'none', 'raw.dnsmasq': 'dhcp-script=/bin/false' },
    });
    await refuses('PATCH', `/1.0/networks/${world.world.bridge}`, { config: { 'raw.dnsmasq': 'log-facility=/x' } });
    await refuses('DELETE', `/1.0/networks/${world.world.bridge}`);
  });

  test('cannot make the server fetch for it', async () => {
    const source = { type: 'image', alias: 'x', protocol: 'lxd', server: 'https://127.0.0.1:1' };
    expect((await tenant.outcome('POST', '/1.0/instances?project=mine', { name: 'f', source })).status).toBe(403);
    const url = { type: 'url', url: 'http://127.0.0.1:1/' };
    expect((await tenant.outcome('POST', '/1.0/images?project=mine', { source: url })).status).toBe(403);
  });

  const forbiddenConfig: Record<string, string> = {
    'security.privileged': 'true',
    'security.nesting': 'true',
    'raw.lxc': 'lxc.hook.pre-start = /bin/false',
    'raw.idmap': 'both 0 0',
    'raw.seccomp': '2',
    'raw.apparmor': 'x',
    'security.idmap.base': '0',
    'security.idmap.size': '4000000000',
    'linux.kernel_modules': 'x',
    'security.syscalls.intercept.mount': 'true',
  };
  const forbiddenDevices: Record<string, Record<string, string>> = {
    'a folder of the host': { type: 'disk', source: '/etc', path: '/mnt' },
    'a host path behind a pool': { type: 'disk', source: '/etc', path: '/mnt', pool: 'p' },
    'a volume by a path': { type: 'disk', source: '../../database', path: '/mnt', pool: 'p' },
    'a volume of another project': { type: 'disk', source: 'theirs_secrets', path: '/mnt', pool: 'p' },
    'a device node': { type: 'unix-block', source: '/dev/loop0', path: '/dev/x' },
    'a device by numbers': { type: 'unix-char', path: '/dev/x', major: '1', minor: '1' },
    'an interface of the host': { type: 'nic', nictype: 'physical', parent: 'lo' },
    'a bridge that is not managed': { type: 'nic', nictype: 'bridged', parent: 'lo' },
    'both kinds of nic': { type: 'nic', network: 'x', nictype: 'physical', parent: 'lo' },
    'a proxy': { type: 'proxy', listen: 'tcp:0.0.0.0:1', connect: 'tcp:127.0.0.1:2', bind: 'host' },
  };

  test('no way leads around the restrictions: config', async () => {
    for (const [key, value] of Object.entries(forbiddenConfig)) {
      const config = { [key]: value };
      await refuses('POST', '/1.0/instances?project=mine', {
        name: 'e',
        source: { type: 'none' },
        devices: root,
        config,
      });
      await refuses('POST', '/1.0/instances?project=mine', {
        name: 'e',
        source: { type: 'copy', source: 'c1' },
        config,
      });
      await refuses('PATCH', '/1.0/instances/c1?project=mine', { config });
      await refuses('PUT', '/1.0/instances/c1?project=mine', { config, devices: root, profiles: ['default'] });
    }
  });

  test('no way leads around the restrictions: devices', async () => {
    for (const device of Object.values(forbiddenDevices)) {
      const devices = { ...root, evil: device };
      // A volume that does not exist is refused at the latest when it is needed.
      const made = await tenant.outcome('POST', '/1.0/instances?project=mine', {
        name: 'e',
        source: { type: 'none' },
        devices,
      });
      if (made.status === 200) {
        await refuses('PUT', '/1.0/instances/e/state?project=mine', { action: 'start' });
        expect((await tenant.outcome('DELETE', '/1.0/instances/e?project=mine')).status).toBe(200);
      }
    }
  });

  test('no way leads around the restrictions: profiles', async () => {
    const path = '/1.0/profiles/evil?project=mine';
    await tenant.outcome('POST', '/1.0/profiles?project=mine', {
      name: 'evil',
      config: { 'security.privileged': 'true' },
    });
    await refuses('PATCH', '/1.0/instances/c1?project=mine', { profiles: ['default', 'evil'] });
    await tenant.outcome('PUT', path, { config: {} });
    expect((await tenant.outcome('PATCH', '/1.0/instances/c1?project=mine', { profiles: ['evil'] })).status).toBe(200);
    await refuses('PATCH', path, { config: { 'security.privileged': 'true' } });
    await refuses('PUT', path, { devices: { x: { type: 'disk', source: '/etc', path: '/mnt' } } });
  });

  test('an old snapshot brings back nothing that is forbidden now', async () => {
    const { daemon } = world.world;
    await daemon.run('POST', '/1.0/projects', { name: 'later', config: { 'features.images': 'false' } });
    const privileged = { 'security.privileged': 'true' };
    await daemon.run('POST', '/1.0/instances?project=later', {
      name: 'old',
      source: { type: 'none' },
      devices: root,
      config: privileged,
    });
    await daemon.run('POST', '/1.0/instances/old/snapshots?project=later', { name: 's' });
    await daemon.run('PATCH', '/1.0/instances/old?project=later', { config: { 'security.privileged': 'false' } });
    await daemon.run('PATCH', '/1.0/projects/later', {
      config: { restricted: 'true', 'restricted.snapshots': 'allow' },
    });
    tenant = await world.tenant('eve', ['mine', 'later']);
    await refuses('PUT', '/1.0/instances/old?project=later', { restore: 's' });
    await refuses('POST', '/1.0/instances?project=mine', {
      name: 'again',
      source: { type: 'copy', source: 'old/s', project: 'later' },
    });
  });

  test('snapshots and backups of volumes are as forbidden as those of instances', async () => {
    const volume = '/1.0/storage-pools/p/volumes/custom/own';
    expect((await tenant.outcome('POST', `${volume}/snapshots?project=mine`, { name: 's' })).status).toBe(403);
    expect((await tenant.outcome('POST', `${volume}/backups?project=mine`, { name: 'b' })).status).toBe(403);
    expect((await tenant.outcome('POST', '/1.0/instances/c1/snapshots?project=mine', { name: 's' })).status).toBe(403);
    expect((await tenant.outcome('POST', '/1.0/instances/c1/backups?project=mine', { name: 'b' })).status).toBe(403);
  });

  test('the limit of disk space counts volumes', async () => {
    const { daemon } = world.world;
    await daemon.run('POST', '/1.0/projects', { name: 'small', config: { 'limits.disk': '10MiB' } });
    const volumes = '/1.0/storage-pools/p/volumes/custom?project=small';
    const answer = await daemon.request('POST', volumes, { name: 'big', config: { size: '20MiB' } });
    expect([answer.status, answer.text]).toEqual([400, expect.stringContaining('limits.disk')]);
  });

  test('a link in an allowed folder leads to no other', async () => {
    const { daemon } = world.world;
    const allowed = join(scratch, 'allowed');
    mkdirSync(allowed);
    mkdirSync(join(scratch, 'secret'));
    writeFileSync(join(scratch, 'secret/file'), 'secret');
    symlinkSync(join(scratch, 'secret'), join(allowed, 'link'));
    await daemon.run('POST', '/1.0/projects', {
      name: 'paths',
      config: {
        restricted: 'true',
        'features.images': 'false',
        'restricted.devices.disk': 'allow',
        'restricted.devices.disk.paths': allowed,
      },
    });
    const create = (source: string) =>
      daemon.run('POST', '/1.0/instances?project=paths', {
        name: 'c',
        source: { type: 'image', alias: 'tiny' },
        devices: { ...root, data: { type: 'disk', source, path: '/data' } },
      });
    await expect(create(`${allowed}/../secret`)).rejects.toThrow('not allowed');
    await create(join(allowed, 'link'));
    const start = daemon.run('PUT', '/1.0/instances/c/state?project=paths', { action: 'start' });
    await expect(start).rejects.toThrow('not allowed');
  });
});
