import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { command, request } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { InstanceWorld } from '../instances/world.ts';

const CORE_PATTERN = '/proc/sys/kernel/core_pattern';

describe('a hostile guest', () => {
  let world: InstanceWorld;
  let scratch: string;

  beforeAll(async () => {
    scratch = mkdtempSync(join(tmpdir(), 'keelson-security-'));
    writeFileSync(join(scratch, 'secret'), 'host secret');
    world = await InstanceWorld.open();
    await world.ok('launch', 'tiny', 'evil');
  });
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
    rmSync(scratch, { recursive: true, force: true });
  });

  const inside = (script: string): Promise<string> => world.ok('exec', 'evil', '--', 'sh', '-c', script);
  const file = (path: string): string => `/1.0/instances/evil/files?path=${encodeURIComponent(path)}`;
  const pull = (path: string) => world.daemon.request('GET', file(path));
  const push = (path: string, content: string, headers: Record<string, string> = {}) =>
    world.daemon.request('POST', file(path), content, { headers });

  test('its kernel file systems are not read or written with the rights of the daemon', async () => {
    const value = readFileSync(CORE_PATTERN, 'utf8');
    await inside('mkdir -p /tmp/p && mount -t proc proc /tmp/p; ln -s /tmp/p/sys /tmp/link');
    for (const path of [
      CORE_PATTERN,
      '/tmp/p/sys/kernel/core_pattern',
      '/tmp/link/kernel/core_pattern',
      '/proc/kmsg',
      '/sys/power/state',
    ]) {
      const { status, text } = await pull(path);
      expect([400, 403, 404], `${path}: ${status} ${text}`).toContain(status);
    }
    // The same value: a regression would be seen here without hurting the host.
    for (const path of [CORE_PATTERN, '/tmp/p/sys/kernel/core_pattern'])
      expect((await push(path, value)).status, path).toBeGreaterThanOrEqual(400);
    expect((await push('/sys/fs/cgroup/keelson', '', { 'X-LXD-type': 'directory' })).status).toBeGreaterThanOrEqual(
      400,
    );
    expect(readFileSync(CORE_PATTERN, 'utf8')).toBe(value);
  });

  test('its links lead the files API nowhere but into itself', async () => {
    const target = join(scratch, 'secret');
    await inside(`ln -s ${target} /root/absolute; ln -s / /root/top; ln -s ../../../../../../../..${target} /root/up`);
    const ways = [
      '/root/absolute',
      '/root/up',
      `/root/top${target}`,
      `/../../../../..${target}`,
      `/proc/1/root${target}`,
    ];
    for (const path of [...ways, '/proc/self/root/etc/shadow', `/proc/1/cwd/../..${target}`]) {
      const { status, text } = await pull(path);
      expect(text, path).not.toContain('host secret');
      // A link itself is told as a link.
      expect(status === 200 ? text : '', path).not.toContain('root:');
    }
    await push('/root/absolute', 'changed');
    await push(`/root/top${target}`, 'changed');
    await world.daemon.request('DELETE', file(`/root/top${target}`));
    expect(readFileSync(target, 'utf8')).toBe('host secret');
  });

  test('a fifo or a device in its tree stalls no request', async () => {
    await inside('mkfifo /root/fifo');
    for (const answer of [await pull('/root/fifo'), await push('/root/fifo', 'x'), await pull('/dev/zero')])
      expect(answer.status).toBe(400);
  });

  test('its links lead templates nowhere', async () => {
    await world.ok('init', 'tiny', 'linked');
    const link = '/1.0/instances/linked/files?path=/etc/hostname';
    await world.daemon.request('DELETE', link);
    const headers = { 'X-LXD-type': 'symlink' };
    await world.daemon.request('POST', link, join(scratch, 'secret'), { headers });
    await world.lxc('start', 'linked');
    expect(readFileSync(join(scratch, 'secret'), 'utf8')).toBe('host secret');
    await world.ok('delete', '--force', 'linked');
  });

  test('recorded output and logs lie where no guest reaches', async () => {
    const done = await world.daemon.run('POST', '/1.0/instances/evil/exec', {
      command: ['sh', '-c', 'rm -rf /var/log; ln -s /etc /var/log; echo recorded'],
      'record-output': true,
      'wait-for-websocket': false,
    });
    const log =
      Object.values((done?.metadata as { output?: Record<string, string> } | undefined)?.output ?? {})[0] ?? '';
    expect((await world.daemon.request('GET', log)).text).toBe('recorded\n');
    for (const name of ['..%2f..%2fserver.key', '%2e%2e', 'exec_..%2f..%2f..%2fserver.key', '..%2flxc.conf'])
      expect((await world.daemon.request('GET', `/1.0/instances/evil/logs/${name}`)).status).toBeGreaterThanOrEqual(
        400,
      );
  });

  test('values with line breaks reach no configuration file', async () => {
    const hook = '\nlxc.hook.pre-start = /bin/false';
    for (const config of [
      { 'environment.A': `b${hook}` },
      { [`environment.A${hook}`]: 'b' },
      { 'raw.lxc': `lxc.environment = a\rlxc.hook.pre-start = /bin/false` },
      { 'limits.kernel.nofile': `1${hook}` },
      { [`limits.kernel.nofile${hook}`]: '1' },
      { 'linux.sysctl.a': `1${hook}` },
      { 'nvidia.driver.capabilities': `all${hook}` },
      { 'security.syscalls.deny': `mount${hook}` },
    ]) {
      const answer = await world.daemon.request('PATCH', '/1.0/instances/evil', { config });
      if (answer.status !== 200) continue;
      // What is stored as free text must still not become a line of its own.
      await world.lxc('restart', '--force', 'evil');
      const conf = readFileSync(join(world.daemon.stateDir, 'lxc/evil/config'), 'utf8');
      expect(conf, JSON.stringify(config)).not.toMatch(/^\s*lxc\.hook\.pre-start/m);
      await world.daemon.run('PATCH', '/1.0/instances/evil', { config: { [Object.keys(config)[0] ?? '']: '' } });
    }
    for (const device of [
      { type: 'disk', source: scratch, path: `/mnt none bind,create=dir 0 0\nlxc.hook.pre-start = /bin/false` },
      { type: 'disk', source: `${scratch}\n/etc`, path: '/mnt', required: 'false' },
      { type: 'disk', source: scratch, path: '/mnt', 'raw.mount.options': `ro\nlxc.hook.pre-start = /bin/false` },
      { type: 'nic', network: world.bridge, name: `eth9${hook}` },
      { type: 'nic', network: world.bridge, 'ipv4.address': `10.0.0.1\ndhcp-script=/bin/false` },
      { type: 'nic', network: world.bridge, hwaddr: `00:16:3e:00:00:01,x\n` },
    ]) {
      await world.lxc('stop', '--force', 'evil');
      const answer = await world.daemon.request('PATCH', '/1.0/instances/evil', { devices: { x: device } });
      if (answer.status !== 200) continue;
      await world.lxc('start', 'evil');
      const conf = readFileSync(join(world.daemon.stateDir, 'lxc/evil/config'), 'utf8');
      expect(conf, JSON.stringify(device)).not.toMatch(/^\s*lxc\.hook\.pre-start/m);
      await world.lxc('stop', '--force', 'evil');
      await world.lxc('config', 'device', 'remove', 'evil', 'x');
    }
    await world.lxc('start', 'evil');
  }, 120_000);

  test('a snapshot pattern names no folder above the snapshots', async () => {
    await world.ok('init', 'tiny', 'patterned');
    await world.ok('init', 'tiny', 'neighbour');
    await world.ok('snapshot', 'neighbour', 'kept');
    const snapshots = join(world.daemon.stateDir, 'storage-pools/p/containers-snapshots');
    const before = readdirSync(snapshots, { recursive: true, encoding: 'utf8' }).sort();
    for (const pattern of ['..', '.', '../neighbour', '%d/../..', '{{ creation_date|date:".." }}']) {
      await world.daemon.run('PATCH', '/1.0/instances/patterned', { config: { 'snapshots.pattern': pattern } });
      const taken = await world.lxc('snapshot', 'patterned');
      const { body } = await world.daemon.request<string[]>('GET', '/1.0/instances/patterned/snapshots');
      const names = body.metadata.map((url) => decodeURIComponent(url.slice(url.lastIndexOf('/') + 1)));
      expect(
        names.filter((name) => name === '.' || name === '..' || name.includes('/')),
        taken.stderr,
      ).toEqual([]);
      for (const name of names) await world.ok('delete', `patterned/${name}`);
    }
    expect(readdirSync(snapshots, { recursive: true, encoding: 'utf8' }).sort()).toEqual(before);
    await world.ok('delete', 'patterned', 'neighbour');
  });

  test('secrets of websockets are shown to nobody but who started the command', async () => {
    const shown: string[] = [];
    const started = await world.daemon.request<{ id: string; metadata: { fds: Record<string, string> } }>(
      'POST',
      '/1.0/instances/evil/exec',
      { command: ['sleep', '1'], 'wait-for-websocket': true, interactive: false },
    );
    const { id, metadata } = started.body.metadata;
    const secrets = Object.values(metadata.fds);
    expect(secrets.length).toBeGreaterThan(1);
    const { socket } = world.daemon;
    for (const path of [`/1.0/operations/${id}`, '/1.0/operations?recursion=1'])
      shown.push((await request(socket, 'GET', path)).text);
    shown.push(world.daemon.logs);
    for (const secret of secrets) expect(shown.filter((text) => text.includes(secret))).toEqual([]);
    await world.daemon.request('DELETE', `/1.0/operations/${id}`);
  });

  test('an unprivileged user of the host reaches nothing of it', async () => {
    const { stateDir } = world.daemon;
    const as = (script: string) =>
      command('setpriv', ['--reuid=1000', '--regid=1000', '--clear-groups', 'sh', '-c', script, 'sh', stateDir], {
        anyExit: true,
      });
    const root = 'storage-pools/p/containers/evil/rootfs';
    for (const path of [
      '.',
      'server.key',
      'database/keelson.db',
      'images',
      'logs/evil/lxc.conf',
      'lxc/evil/config',
      root,
    ])
      expect((await as(`cd / && ls "$1/${path}" && cat "$1/${path}"`)).code, path).not.toBe(0);
    expect((await as(`cd "$1/${root}"`)).code).not.toBe(0);
    expect((await as(`"$1/${root}/bin/busybox" true`)).code).not.toBe(0);
    expect((await as('curl -sf --unix-socket "$1/unix.socket" http://x/1.0')).code).not.toBe(0);
    const pid = (await world.ok('info', 'evil')).match(/PID: (\d+)/i)?.[1] ?? '';
    expect(pid).not.toBe('');
    expect((await as(`ls /proc/${pid}/root/`)).code).not.toBe(0);
  });
});
