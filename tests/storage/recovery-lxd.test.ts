import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { command, startDaemon, startLxd, type TestDaemon, tinyImage } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fillTree, manifestOf } from './manifest.ts';

const cli = fileURLToPath(new URL('../../packages/cli/src/main.ts', import.meta.url));

/** Pools that Debian's LXD made, moved away from it. */
describe('recovery of pools that LXD made', { timeout: 180_000 }, () => {
  let folder: string;
  const sources = { d: '', b: '' };
  const expected: Record<string, string[]> = {};

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'keelson-moved-'));
    await using lxd = await startLxd();
    const lxc = (...args: string[]) => command('lxc', args, { env: { LXD_DIR: lxd.dir }, timeoutMs: 120_000 });
    await lxc('storage', 'create', 'd', 'dir');
    await lxc('storage', 'create', 'b', 'btrfs', 'size=512MiB');
    await lxc('profile', 'device', 'add', 'default', 'root', 'disk', 'path=/', 'pool=d');
    await lxc('image', 'import', (await tinyImage()).unified, '--alias', 'tiny');
    for (const pool of ['d', 'b']) {
      const data = join(lxd.dir, 'storage-pools', pool, 'containers', `i-${pool}`, 'rootfs/data');
      await lxc('init', 'tiny', `i-${pool}`, '-s', pool, '-c', 'user.note=kept', '-c', 'security.nesting=true');
      mkdirSync(data);
      await fillTree(data, 1);
      expected[`${pool}/s0`] = await manifestOf(data);
      await lxc('snapshot', `i-${pool}`, 's0');
      await fillTree(data, 2);
      expected[pool] = await manifestOf(data);
      await lxc('start', `i-${pool}`); // on btrfs this gives the files ids of the host
      await lxc('stop', '--force', `i-${pool}`);
      await lxc('storage', 'volume', 'create', pool, 'v');
      await lxc('storage', 'volume', 'snapshot', pool, 'v', 'vs');
    }
    sources.d = join(folder, 'd');
    sources.b = join(folder, 'b.img');
    await command('cp', ['-a', join(lxd.dir, 'storage-pools/d'), sources.d]);
    await command('umount', [join(lxd.dir, 'storage-pools/b')]);
    await command('cp', ['--sparse=always', join(lxd.dir, 'disks/b.img'), sources.b]);
  }, 180_000);
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const lxcOf =
    (daemon: TestDaemon) =>
    async (...args: string[]): Promise<string> =>
      (await command('lxc', args, { env: { LXD_DIR: daemon.stateDir }, timeoutMs: 120_000 })).stdout;

  it("works with LXD's own tool, and gives files guest ids", async () => {
    await using daemon = await startDaemon();
    const lxc = lxcOf(daemon);
    const answers = ['yes', 'd', 'dir', sources.d, '', 'yes', 'b', 'btrfs', sources.b, '', 'no', 'yes', 'yes', ''];
    const env = { LXD_DIR: daemon.stateDir };
    const { stdout } = await command('lxd', ['recover'], { env, input: answers.join('\n') });
    expect(stdout).toContain('Container "i-d" on pool "d" in project "default" (includes 1 snapshots)');
    expect(stdout).toContain('Volume "v" on pool "b" in project "default" (includes 1 snapshots)');
    for (const pool of ['d', 'b'] as const) {
      const name = `i-${pool}`;
      expect((await lxc('config', 'get', name, 'user.note')).trim()).toBe('kept');
      for (const state of [pool, `${pool}/s0`]) {
        if (state !== pool) await lxc('restore', name, 's0');
        await lxc('start', name);
        const root = join(daemon.stateDir, 'storage-pools', pool, 'containers', name, 'rootfs');
        expect(await manifestOf(join(root, 'data'), statSync(root).uid), state).toEqual(expected[state]);
        await lxc('stop', '--force', name);
      }
      await lxc('delete', name);
      await lxc('storage', 'volume', 'delete', pool, 'v');
      await lxc('storage', 'delete', pool);
    }
  });

  it('keelson admin recover tells what to do, and does it', async () => {
    const copy = join(folder, 'again');
    mkdirSync(join(copy, 'custom/default_data/sub'), { recursive: true });
    mkdirSync(join(copy, 'custom/gone_data'), { recursive: true });
    mkdirSync(join(copy, 'custom-snapshots/default_data/s0'), { recursive: true });
    await using daemon = await startDaemon();
    const keelson = (...args: string[]) =>
      command(process.execPath, ['--conditions=source', '--disable-warning=ExperimentalWarning', cli, ...args], {
        env: { KEELSON_DIR: daemon.stateDir, HOME: folder },
        anyExit: true,
        input: '',
      });
    const recover = ['admin', 'recover', '--pool', 'again', '--driver', 'dir'];
    expect(await keelson('admin', 'recover')).toMatchObject({ code: 2, stderr: expect.stringContaining('terminal') });
    expect(await keelson(...recover, '--source', '/etc', '--yes')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('holds no storage pool'),
    });
    expect(await keelson(...recover, '--source', copy, '--yes')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('Project "gone": keelson project create gone'),
    });
    await daemon.run('POST', '/1.0/projects', { name: 'gone', config: {} });
    const { code, stdout } = await keelson(...recover, '--source', copy, '--yes', '--format', 'json');
    expect([code, JSON.parse(stdout)]).toEqual([
      0,
      {
        UnknownVolumes: [
          { name: 'data', type: 'volume', snapshotCount: 1, project: 'default', pool: 'again' },
          { name: 'data', type: 'volume', snapshotCount: 0, project: 'gone', pool: 'again' },
        ],
        DependencyErrors: [],
        Problems: [],
      },
    ]);
    const { body } = await daemon.request<string[]>('GET', '/1.0/storage-pools/again/volumes/custom');
    expect(body.metadata).toContain('/1.0/storage-pools/again/volumes/custom/data/snapshots/s0');
  });
});
