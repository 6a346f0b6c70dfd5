import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { StorageVolume } from '@keelson/api';
import { until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { InstanceWorld } from '../instances/world.ts';

describe('storage under instances', () => {
  let world: InstanceWorld;

  beforeAll(async () => {
    world = await InstanceWorld.open();
    await world.daemon.run('POST', '/1.0/storage-pools', { name: 'b', driver: 'btrfs', config: { size: '512MiB' } });
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  const inside = (name: string, script: string): Promise<string> => world.ok('exec', name, '--', 'sh', '-c', script);
  const at = (...parts: string[]) => join(world.daemon.stateDir, 'storage-pools', ...parts);
  const failure = async (method: string, path: string, body?: unknown) => {
    const answer = await world.daemon.request(method, path, body);
    return [answer.body.error_code, answer.body.error];
  };

  it.each(['p', 'b'])('snapshots a running instance and goes back, pool %s', async (pool) => {
    await world.ok('launch', 'tiny', 'c1', '-s', pool);
    await inside(
      'c1',
      'echo one > /root/state; chown tester /root/state; rm -r /home; mkdir /home; echo x > /home/only',
    );
    await world.ok('snapshot', 'c1', 's0');
    await inside('c1', 'echo two > /root/state; echo more > /home/more');
    await world.ok('stop', 'c1', '--force');
    await world.ok('restore', 'c1', 's0');
    await world.ok('start', 'c1');
    expect(await inside('c1', 'cat /root/state; stat -c %u /root/state; ls /home')).toBe('one\n1000\nonly\n');
    await world.ok('copy', 'c1', 'c2');
    await world.ok('copy', 'c1/s0', 'c3');
    await inside('c1', 'echo three > /root/state');
    for (const copy of ['c2', 'c3']) {
      await world.ok('start', copy);
      expect(await inside(copy, 'cat /root/state; stat -c %u /root/state; ls /home')).toBe('one\n1000\nonly\n');
    }
    expect(await inside('c1', 'cat /root/state')).toBe('three\n');
    await world.ok('delete', '--force', 'c1', 'c2', 'c3');
    await until('the roots to be gone', async () => readdirSync(at(pool, 'containers')).length === 0);
  });

  it('copies instances with their snapshots to another pool and back', async () => {
    await world.ok('init', 'tiny', 'm1', '-s', 'p');
    await world.ok('start', 'm1');
    await inside('m1', 'echo one > /root/state; chown tester /root/state');
    await world.ok('snapshot', 'm1', 's0');
    await inside('m1', 'echo two > /root/state');
    await world.ok('copy', 'm1', 'm2', '-s', 'b');
    await world.ok('copy', 'm2', 'm3', '-s', 'p');
    for (const name of ['m2', 'm3']) {
      await world.ok('start', name);
      expect(await inside(name, 'cat /root/state; stat -c %u /root/state; stat -c %u /')).toBe('two\n1000\n0\n');
      await world.ok('stop', '--force', name);
      await world.ok('restore', name, 's0');
      await world.ok('start', name);
      expect(await inside(name, 'cat /root/state')).toBe('one\n');
    }
    await world.ok('delete', '--force', 'm1', 'm2', 'm3');
  });

  it('keeps the image of a pool while a root stands on it', async () => {
    await world.ok('init', 'tiny', 'i1', '-s', 'p');
    const [fingerprint = ''] = readdirSync(at('p', 'images'));
    expect(fingerprint).toMatch(/^[0-9a-f]{64}$/);
    expect(await failure('DELETE', `/1.0/storage-pools/p/volumes/image/${fingerprint}`)).toEqual([
      400,
      'The storage volume is still in use',
    ]);
    await world.ok('image', 'export', 'tiny', join(world.daemon.stateDir, 'saved'));
    await world.ok('image', 'delete', 'tiny');
    await world.ok('start', 'i1');
    expect(await inside('i1', 'echo up')).toBe('up\n');
    expect(readdirSync(at('p', 'images'))).toEqual([fingerprint]);
    await world.ok('delete', '--force', 'i1');
    await until('the image volume to go', async () => readdirSync(at('p', 'images')).length === 0);
    const saved = join(world.daemon.stateDir, 'saved');
    await world.ok('image', 'import', saved, `${saved}.root`, '--alias', 'tiny');
  });

  it('shares a custom volume between instances, and guards it', async () => {
    await world.ok('storage', 'volume', 'create', 'p', 'shared');
    for (const name of ['v1', 'v2']) {
      await world.ok('launch', 'tiny', name, '-s', 'p');
      await world.ok('storage', 'volume', 'attach', 'p', 'shared', name, '/data');
    }
    await inside('v1', 'echo hello > /data/file; chown tester /data/file');
    expect(await inside('v2', 'cat /data/file; stat -c %u /data/file')).toBe('hello\n1000\n');
    expect(statSync(at('p', 'custom/default_shared/file')).uid).toBe(1000);
    await world.ok('storage', 'volume', 'snapshot', 'p', 'shared', 's0');
    const url = '/1.0/storage-pools/p/volumes/custom/shared';
    const { body } = await world.daemon.request<StorageVolume>('GET', url);
    expect(body.metadata.used_by).toEqual(['/1.0/instances/v1', '/1.0/instances/v2']);
    expect(await failure('PUT', url, { restore: 's0' })).toEqual([
      400,
      'Cannot restore custom volume used by running instances',
    ]);
    expect(await failure('POST', url, { name: 'x' })).toEqual([400, 'Volume is still in use by running instances']);
    expect(await failure('DELETE', url)).toEqual([400, 'The storage volume is still in use']);
    await world.ok('stop', '--force', 'v1', 'v2');
    await world.ok('storage', 'volume', 'restore', 'p', 'shared', 's0');
    await world.ok('storage', 'volume', 'rename', 'p', 'shared', 'renamed');
    await world.ok('start', 'v1');
    expect(await inside('v1', 'cat /data/file')).toBe('hello\n');
    await world.ok('delete', '--force', 'v1', 'v2');
    await world.ok('storage', 'volume', 'delete', 'p', 'renamed');
  });

  it.each(['p', 'b'])('lets a nesting guest mount overlays on its root, pool %s', async (pool) => {
    await world.ok('launch', 'tiny', 'n1', '-s', pool, '-c', 'security.nesting=true');
    const script =
      'mkdir /l /u /w /m && echo low > /l/f && mount -t overlay overlay -o lowerdir=/l,upperdir=/u,workdir=/w /m && echo up > /m/g && cat /m/f /u/g';
    expect(await inside('n1', script)).toBe('low\nup\n');
    await world.ok('delete', '--force', 'n1');
  });

  it('limits the root on btrfs', async () => {
    await world.ok('launch', 'tiny', 'q1', '-s', 'b', '-d', 'root,size=40MiB');
    const full = await world.lxc(
      'exec',
      'q1',
      '--',
      'sh',
      '-c',
      'dd if=/dev/urandom of=/root/big bs=1M count=80 && sync',
    );
    expect(full.code).not.toBe(0);
    expect(full.stderr).toContain('quota');
    await world.ok('config', 'device', 'set', 'q1', 'root', 'size=200MiB');
    await inside('q1', 'dd if=/dev/urandom of=/root/big bs=1M count=80 2>/dev/null; sync');
    await world.ok('delete', '--force', 'q1');
  });

  it('never lets a link of the guest lead a copy to the host', async () => {
    await world.ok('launch', 'tiny', 'evil', '-s', 'p');
    await inside(
      'evil',
      'ln -s /etc/shadow /root/shadow; ln -s / /root/slash; ln -s ../../../../../../../etc /root/up',
    );
    await world.ok('snapshot', 'evil', 's0');
    await world.ok('copy', 'evil/s0', 'evil2', '-s', 'b');
    const root = at('b', 'containers/evil2/rootfs/root');
    expect(
      readdirSync(root, { withFileTypes: true })
        .filter((entry) => entry.isSymbolicLink())
        .map(({ name }) => name)
        .sort(),
    ).toEqual(['shadow', 'slash', 'up']);
    await world.ok('delete', '--force', 'evil', 'evil2');
    expect(existsSync('/etc/shadow')).toBe(true);
    expect(readFileSync('/etc/passwd', 'utf8')).toContain('root:');
  });
});
