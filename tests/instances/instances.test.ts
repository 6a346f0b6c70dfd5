import { spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Instance, InstanceState } from '@keelson/api';
import { command, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { InstanceWorld } from './world.ts';

describe('instances through the lxc client', () => {
  let world: InstanceWorld;
  let scratch: string;

  beforeAll(async () => {
    scratch = mkdtempSync(join(tmpdir(), 'keelson-instances-'));
    chmodSync(scratch, 0o755);
    world = await InstanceWorld.open();
  });
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
    rmSync(scratch, { recursive: true, force: true });
  });

  const get = async (name: string): Promise<Instance> =>
    (await world.daemon.request<Instance>('GET', `/1.0/instances/${name}`)).body.metadata;
  const state = async (name: string): Promise<InstanceState> =>
    (await world.daemon.request<InstanceState>('GET', `/1.0/instances/${name}/state`)).body.metadata;
  const inside = (name: string, script: string): Promise<string> => world.ok('exec', name, '--', 'sh', '-c', script);

  it('launches, gets an address and is listed', async () => {
    await world.ok('launch', 'tiny', 'c1');
    await until(
      'an address',
      async () => (await state('c1')).network?.['eth0']?.addresses.some(({ family }) => family === 'inet') === true,
    );
    expect(await world.ok('list', '-c', 'ns', '--format', 'csv')).toBe('c1,RUNNING\n');
    expect(await inside('c1', 'hostname')).toBe('c1\n');
    const info = await world.ok('info', 'c1');
    expect(info).toContain('Status: RUNNING');
    expect(info).toMatch(/Host interface: veth[0-9a-f]{8}/);
    const { pid, processes, memory } = await state('c1');
    expect(pid).toBeGreaterThan(1);
    expect(processes).toBeGreaterThan(0);
    expect(memory.usage).toBeGreaterThan(0);
  });

  it('runs commands: streams, exit codes, input, environment, user, terminal', async () => {
    const both = await world.lxc(
      'exec',
      'c1',
      '--env',
      'A=b',
      '--',
      'sh',
      '-c',
      'echo out; echo err >&2; echo $A; exit 7',
    );
    expect(both).toMatchObject({ code: 7, stdout: 'out\nb\n', stderr: 'err\n' });
    expect(await world.lxc('exec', 'c1', '--', 'nonexistent')).toMatchObject({ code: 127 });
    expect(await world.ok('exec', 'c1', '--user', '1000', '--cwd', '/tmp', '--', 'sh', '-c', 'id -u; pwd')).toBe(
      '1000\n/tmp\n',
    );
    const input = 'x'.repeat(1_000_000);
    const cat = await command('lxc', ['exec', 'c1', '--', 'wc', '-c'], {
      env: { LXD_DIR: world.daemon.stateDir },
      input,
    });
    expect(cat.stdout.trim()).toBe('1000000');
    const terminal = await command('script', ['-qec', 'lxc exec c1 -- tty', '/dev/null'], {
      env: { LXD_DIR: world.daemon.stateDir },
    });
    // `script` types the end of its own input, which the guest's terminal may show before or after
    expect(terminal.stdout).toMatch(/\/dev\/(pts\/\d+|console)\r?$/m);
  });

  it('ends a command when its client vanishes', async () => {
    const env = { ...process.env, LXD_DIR: world.daemon.stateDir };
    const child = spawn('lxc', ['exec', 'c1', '--', 'sleep', '4321'], { env, stdio: ['pipe', 'ignore', 'ignore'] });
    try {
      await until('the command to run', async () => (await inside('c1', 'ps')).includes('sleep 4321'));
    } finally {
      child.kill('SIGKILL');
    }
    await until('the command to end', async () => !(await inside('c1', 'ps')).includes('sleep 4321'));
  });

  it('changes limits live', async () => {
    await world.ok('config', 'set', 'c1', 'limits.cpu=1', 'limits.memory=64MiB', 'limits.processes=40');
    expect((await inside('c1', 'nproc')).trim()).toBe('1');
    expect(await world.ok('config', 'get', 'c1', 'limits.memory')).toBe('64MiB\n');
    await world.ok('config', 'unset', 'c1', 'limits.cpu');
    await world.ok('config', 'unset', 'c1', 'limits.processes');
  });

  it('plugs disks and nics while it runs', async () => {
    writeFileSync(join(scratch, 'shared'), 'from the host\n');
    await world.ok(
      'config',
      'device',
      'add',
      'c1',
      'data',
      'disk',
      `source=${scratch}`,
      'path=/mnt/data',
      'readonly=true',
    );
    expect(await inside('c1', 'cat /mnt/data/shared')).toBe('from the host\n');
    expect((await world.lxc('exec', 'c1', '--', 'touch', '/mnt/data/x')).code).not.toBe(0);
    await world.ok('config', 'device', 'remove', 'c1', 'data');
    expect((await world.lxc('exec', 'c1', '--', 'cat', '/mnt/data/shared')).code).not.toBe(0);
    await world.ok('config', 'device', 'add', 'c1', 'eth1', 'nic', `network=${world.bridge}`, 'name=eth1');
    expect(await inside('c1', 'ls /sys/class/net')).toContain('eth1');
    const hostName = (await get('c1')).config['volatile.eth1.host_name'] ?? '';
    expect(hostName).toMatch(/^veth/);
    await world.ok('config', 'device', 'remove', 'c1', 'eth1');
    expect(await inside('c1', 'ls /sys/class/net')).not.toContain('eth1');
    expect((await command('ip', ['link', 'show', hostName], { anyExit: true })).code).not.toBe(0);
    expect(Object.keys((await get('c1')).config).filter((key) => key.startsWith('volatile.eth1'))).toEqual([]);
  });

  it('moves files in and out, running or not', async () => {
    const source = join(scratch, 'file');
    writeFileSync(source, 'content\n');
    await world.ok('file', 'push', '--uid', '1000', '--gid', '1000', '--mode', '0600', source, 'c1/home/tester/file');
    expect(await inside('c1', 'stat -c %u:%g:%a /home/tester/file')).toBe('1000:1000:600\n');
    await world.ok('file', 'push', '-p', source, 'c1/tmp/deep/er/file');
    await world.ok('file', 'pull', 'c1/tmp/deep/er/file', join(scratch, 'back'));
    expect(readFileSync(join(scratch, 'back'), 'utf8')).toBe('content\n');
    await inside('c1', 'ln -s /etc/../../../../etc/hostname /root/link');
    const followed = await world.daemon.request('POST', '/1.0/instances/c1/files?path=/root/link', 'inside\n');
    expect(followed.status).toBe(200);
    expect(await inside('c1', 'cat /etc/hostname')).toBe('inside\n');
    await world.ok('stop', 'c1', '--force');
    const list = await world.daemon.request<string[]>('GET', '/1.0/instances/c1/files?path=/home/tester');
    expect(list.body.metadata).toEqual(['file']);
    await world.ok('file', 'delete', 'c1/home/tester/file');
    expect((await world.daemon.request('HEAD', '/1.0/instances/c1/files?path=/home/tester/file')).status).toBe(404);
    expect((await command('findmnt', ['-rn', '-o', 'TARGET'])).stdout).not.toContain(
      `${world.daemon.stateDir}/storage-pools/p/containers/c1`,
    );
  });

  it('starts, pauses, restarts and stops', async () => {
    await world.ok('start', 'c1');
    const first = (await state('c1')).pid;
    expect((await world.lxc('start', 'c1')).stderr).toContain('The instance is already running');
    await world.ok('pause', 'c1');
    expect((await state('c1')).status).toBe('Frozen');
    await world.ok('start', 'c1');
    await world.ok('restart', 'c1');
    expect((await state('c1')).pid).not.toBe(first);
    expect((await world.lxc('delete', 'c1')).stderr).toContain('The instance is currently running');
    await world.ok('stop', 'c1');
    expect((await get('c1')).config['volatile.last_state.power']).toBe('STOPPED');
  });

  it('snapshots, restores and copies', async () => {
    await world.ok('start', 'c1');
    await inside('c1', 'echo one > /root/value');
    await world.ok('snapshot', 'c1', 'before');
    await inside('c1', 'echo two > /root/value');
    await world.ok('restore', 'c1', 'before');
    expect(await inside('c1', 'cat /root/value')).toBe('one\n');
    await world.ok('copy', 'c1/before', 'c2');
    await world.ok('start', 'c2');
    expect(await inside('c2', 'cat /root/value; hostname')).toBe('one\nc2\n');
    const [a, b] = [await get('c1'), await get('c2')];
    expect(a.config['volatile.eth0.hwaddr']).not.toBe(b.config['volatile.eth0.hwaddr']);
    await world.ok('delete', '--force', 'c2');
    await world.ok('delete', 'c1/before');
  });

  it('notices a guest that ends by itself, and keeps those that run across a restart', async () => {
    await world.ok('launch', 'tiny', 'gone', '--ephemeral');
    await world.lxc('exec', 'gone', '--', 'poweroff');
    await until(
      'the ephemeral instance to go',
      async () => (await world.daemon.request('GET', '/1.0/instances/gone')).status === 404,
    );
    const { pid } = await state('c1');
    await world.daemon.restart();
    expect((await state('c1')).pid).toBe(pid);
    expect(await inside('c1', 'echo alive')).toBe('alive\n');
  });

  it('starts with the daemon what asks for it', async () => {
    await world.ok('init', 'tiny', 'auto', '-c', 'boot.autostart=true');
    await world.daemon.restart();
    await until('the instance to run', async () => (await state('auto')).status === 'Running');
    await world.ok('delete', '--force', 'auto');
  });

  it('renames, publishes and deletes', async () => {
    await world.ok('stop', 'c1', '--force');
    await world.ok('rename', 'c1', 'c3');
    await world.ok('publish', 'c3', '--alias', 'mine');
    await world.ok('launch', 'mine', 'c4');
    expect(await inside('c4', 'cat /root/value')).toBe('one\n');
    await world.ok('delete', '--force', 'c3', 'c4');
    expect(await world.ok('list', '--format', 'csv')).toBe('');
    const { stdout } = await command('findmnt', ['-rn', '-o', 'TARGET']);
    expect(stdout).not.toContain(`${world.daemon.stateDir}/storage-pools/p/containers`);
  });
});
