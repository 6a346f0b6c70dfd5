import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Instance } from '@keelson/api';
import { command } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { InstanceWorld } from './world.ts';

describe('copies, backups and id maps', () => {
  let world: InstanceWorld;
  let scratch: string;

  beforeAll(async () => {
    scratch = mkdtempSync(join(tmpdir(), 'keelson-copies-'));
    world = await InstanceWorld.open();
    await world.ok('launch', 'tiny', 'c1', '-c', 'user.x=1');
    await inside('c1', 'echo one > /root/value; chown 1000:1000 /home/tester; ln /root/value /root/hard');
  });
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
    rmSync(scratch, { recursive: true, force: true });
  });

  const inside = (name: string, script: string): Promise<string> => world.ok('exec', name, '--', 'sh', '-c', script);
  const get = async (name: string): Promise<Instance> =>
    (await world.daemon.request<Instance>('GET', `/1.0/instances/${name}`)).body.metadata;

  it('refreshes a copy and moves it to another pool', async () => {
    await world.daemon.run('POST', '/1.0/storage-pools', { name: 'q', driver: 'dir' });
    await world.ok('copy', 'c1', 'c2');
    await inside('c1', 'echo two > /root/value');
    await world.ok('snapshot', 'c1', 's0');
    await world.ok('copy', '--refresh', 'c1', 'c2');
    await world.ok('move', 'c2', 'c2', '--storage', 'q');
    expect((await get('c2')).expanded_devices?.['root']?.['pool']).toBe('q');
    await world.ok('start', 'c2');
    expect(await inside('c2', 'cat /root/value; stat -c %u /home/tester')).toBe('two\n1000\n');
    expect(await world.ok('list', 'c2', '-c', 'S', '--format', 'csv')).toBe('1\n');
    await world.ok('delete', '--force', 'c2');
  });

  it('exports a backup in LXD’s layout and imports it again', async () => {
    const file = join(scratch, 'c1.tar.gz');
    await world.ok('export', 'c1', file);
    const { stdout } = await command('tar', ['--numeric-owner', '-tvzf', file]);
    const names = stdout.split('\n').map((line) => line.split(' ').at(-1));
    expect(names[0]).toBe('backup/index.yaml');
    expect(names).toEqual(
      expect.arrayContaining([
        'backup/container/backup.yaml',
        'backup/container/metadata.yaml',
        'backup/snapshots/s0/rootfs/',
      ]),
    );
    expect(stdout).toMatch(/1000\/1000 .* backup\/container\/rootfs\/home\/tester\/\n/);
    await world.ok('import', file, 'c3');
    expect((await get('c3')).config['user.x']).toBe('1');
    await world.ok('start', 'c3');
    expect(await inside('c3', 'cat /root/value; stat -c %u /home/tester; stat -c %h /root/hard; hostname')).toBe(
      'two\n1000\n2\nc1\n',
    );
    await world.ok('delete', '--force', 'c3');
    const backups = await world.daemon.request<string[]>('GET', '/1.0/instances/c1/backups');
    expect(backups.body.metadata).toEqual([]);
  });

  it('imports a backup whose files carry host ids, as LXD writes them', async () => {
    const folder = mkdtempSync(join(scratch, 'lxd-'));
    const made = join(scratch, 'made.tar.gz');
    await world.ok('export', 'c1', made, '--instance-only');
    await command('tar', ['--numeric-owner', '-xzf', made, '-C', folder]);
    const rootfs = join(folder, 'backup/container/rootfs');
    await command('sh', [
      '-c',
      'find "$1" -uid 1000 -exec chown -h 101000:101000 {} +; find "$1" -uid 0 -exec chown -h 100000:100000 {} +',
      'sh',
      rootfs,
    ]);
    const map =
      '[{"Isuid":true,"Isgid":false,"Hostid":100000,"Nsid":0,"Maprange":65536},{"Isuid":false,"Isgid":true,"Hostid":100000,"Nsid":0,"Maprange":65536}]';
    await command('sed', [
      '-i',
      `s|volatile.last_state.idmap: .*|volatile.last_state.idmap: '${map}'|`,
      join(folder, 'backup/index.yaml'),
    ]);
    const shifted = join(scratch, 'shifted.tar');
    await command('tar', ['--numeric-owner', '-cf', shifted, '-C', folder, 'backup/index.yaml', 'backup/container']);
    await world.ok('import', shifted, 'c4');
    await world.ok('start', 'c4');
    expect(await inside('c4', 'stat -c %u /home/tester /root/value')).toBe('1000\n0\n');
    await world.ok('delete', '--force', 'c4');
  });

  it('gives isolated instances their own ids, and changes them at the next start', async () => {
    await world.ok('launch', 'tiny', 'iso', '-c', 'security.idmap.isolated=true', '-c', 'security.idmap.size=70000');
    const [, base = '', size = ''] = (await inside('iso', 'cat /proc/self/uid_map')).trim().split(/\s+/);
    expect(size).toBe('70000');
    expect((await get('iso')).config['volatile.idmap.base']).toBe(base);
    await world.ok('config', 'unset', 'iso', 'security.idmap.isolated');
    await world.ok('restart', '--force', 'iso');
    expect((await inside('iso', 'cat /proc/self/uid_map')).trim().split(/\s+/)[1]).not.toBe(base);
    expect(await inside('iso', 'stat -c %u /home/tester /etc/hostname')).toBe('1000\n0\n');
    await world.ok('delete', '--force', 'iso');
  });
});
