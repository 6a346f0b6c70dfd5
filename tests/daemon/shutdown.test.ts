import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Instance } from '@keelson/api';
import { command, startDaemon, type TestDaemon, tinyImage } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const nothing = { processes: new Map(), mounts: [], loops: [] };

describe('a daemon that is shut down with its guests', () => {
  let daemon: TestDaemon;

  beforeAll(async () => {
    daemon = await startDaemon();
    await ok('storage', 'create', 'folder', 'dir');
    await ok('storage', 'create', 'tree', 'btrfs', 'size=256MiB');
    const { metadata, rootfs } = await tinyImage();
    await ok('image', 'import', metadata, rootfs, '--alias', 'tiny');
    await ok('launch', 'tiny', 'one', '-s', 'folder');
    await ok('launch', 'tiny', 'two', '-s', 'tree', '-c', 'boot.stop.priority=1');
    await ok('init', 'tiny', 'idle', '-s', 'tree');
    await ok('storage', 'volume', 'create', 'tree', 'data');
    await ok('storage', 'volume', 'attach', 'tree', 'data', 'two', '/data');
  });
  afterAll(() => daemon?.[Symbol.asyncDispose]());

  const ok = async (...args: string[]): Promise<string> => {
    const env = { LXD_DIR: daemon.stateDir };
    return (await command('lxc', args, { env, timeoutMs: 60_000 })).stdout;
  };
  const running = async (): Promise<string[]> => {
    const { body } = await daemon.request<Instance[]>('GET', '/1.0/instances?recursion=1');
    return body.metadata.filter(({ status }) => status === 'Running').map(({ name }) => name);
  };
  it('ends them, unmounts its pools, and starts them again', async () => {
    for (const name of ['one', 'two']) await ok('exec', name, '--', 'sh', '-c', 'echo kept > /state');
    await ok('exec', 'two', '--', 'sh', '-c', 'echo kept > /data/state');
    const { pid } = daemon;
    expect((await keelson('admin', 'shutdown', '--guests')).code).toBe(0);
    expect(existsSync(`/proc/${pid}`)).toBe(false);
    expect(daemon.logs).not.toMatch(/stays mounted|did not shut down/);
    expect(await daemon.leftovers()).toEqual(nothing);

    await daemon.start();
    await expect.poll(running, { timeout: 60_000 }).toEqual(['one', 'two']);
    for (const name of ['one', 'two']) expect(await ok('exec', name, '--', 'cat', '/state')).toBe('kept\n');
    expect(await ok('exec', 'two', '--', 'cat', '/data/state')).toBe('kept\n');
  });

  it('ends one that does not heed', async () => {
    await ok('config', 'set', 'one', 'boot.host_shutdown_timeout=1');
    await ok('exec', 'one', '--', 'sed', '-i', "s/^trap 'exit 0'/trap ''/", '/sbin/init');
    await ok('restart', '--force', 'one');
    expect((await keelson('admin', 'shutdown', '--guests')).code).toBe(0);
    expect(daemon.logs).toContain('did not shut down');
    expect(await daemon.leftovers()).toEqual(nothing);
  });

  const keelson = (...args: string[]) =>
    command(
      process.execPath,
      ['--conditions=source', join(import.meta.dirname, '../../packages/cli/src/main.ts'), ...args],
      {
        env: { KEELSON_DIR: daemon.stateDir },
        anyExit: true,
        timeoutMs: 60_000,
      },
    );
});
