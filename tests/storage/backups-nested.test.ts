import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { command, startLxd, type TestPeer } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { InstanceWorld } from '../instances/world.ts';

const NESTED = ['srv/data', 'srv/data/deep-er', 'var/lib/sub'];

/** Subvolumes below a folder, and which of them cannot be written. */
async function subvolumesOf(folder: string): Promise<string[]> {
  const found = await Promise.all(
    [...NESTED, 'srv/kept', 'srv/late'].map(async (name) => {
      const { code, stdout } = await command('btrfs', ['property', 'get', '-ts', join(folder, name), 'ro'], {
        anyExit: true,
      });
      return code === 0 ? [`${name} ${stdout.trim()}`] : [];
    }),
  );
  return found.flat();
}

async function makeSubvolumes(folder: string): Promise<void> {
  await command('mkdir', ['-p', join(folder, 'srv'), join(folder, 'var/lib')]);
  for (const name of NESTED) {
    await command('btrfs', ['subvolume', 'create', join(folder, name)]);
    writeFileSync(join(folder, name, 'file'), `one ${name}`);
  }
  await command('btrfs', ['subvolume', 'snapshot', '-r', join(folder, 'srv/data'), join(folder, 'srv/kept')]);
}

async function changeSubvolumes(folder: string): Promise<void> {
  for (const name of NESTED) writeFileSync(join(folder, name, 'file'), `two ${name}`);
  await command('btrfs', ['subvolume', 'create', join(folder, 'srv/late')]);
  writeFileSync(join(folder, 'srv/late/file'), 'late');
}

const WRITABLE = NESTED.map((name) => `${name} ro=false`);
const BEFORE = [...WRITABLE, 'srv/kept ro=true'];
const AFTER = [...WRITABLE, 'srv/kept ro=true', 'srv/late ro=false'];

function expectFiles(folder: string, word: 'one' | 'two'): void {
  for (const name of NESTED) expect(readFileSync(join(folder, name, 'file'), 'utf8')).toBe(`${word} ${name}`);
  expect(readFileSync(join(folder, 'srv/kept/file'), 'utf8')).toBe('one srv/data');
}

describe('optimized backups of what holds subvolumes of its own', { timeout: 180_000 }, () => {
  let world: InstanceWorld;
  let lxd: TestPeer;
  let folder: string;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'keelson-nested-'));
    world = await InstanceWorld.open();
    lxd = await startLxd();
    await world.daemon.run('POST', '/1.0/storage-pools', { name: 'b', driver: 'btrfs', config: { size: '512MiB' } });
    await peer('storage', 'create', 'b', 'btrfs', 'size=512MiB');
    await peer('profile', 'device', 'add', 'default', 'root', 'disk', 'path=/', 'pool=b');
  }, 120_000);
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
    await lxd?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  const file = (name: string): string => join(folder, name);
  const peer = async (...args: string[]): Promise<void> => {
    const { code, stderr } = await command('lxc', args, {
      env: { LXD_DIR: lxd.dir },
      anyExit: true,
      timeoutMs: 120_000,
    });
    if (code !== 0) throw new Error(`lxd: lxc ${args.join(' ')}: ${stderr}`);
  };
  const at = (dir: string, ...path: string[]): string => join(dir, 'storage-pools/b', ...path);

  it('an instance keeps them, and LXD finds them', async () => {
    await world.ok('init', 'tiny', 'c', '-s', 'b');
    const { stateDir } = world.daemon;
    const root = at(stateDir, 'containers/c/rootfs');
    await makeSubvolumes(root);
    await world.ok('snapshot', 'c', 's1');
    await changeSubvolumes(root);
    await world.ok('export', 'c', file('c'), '--optimized-storage', '--compression', 'none');
    const { stdout } = await command('tar', ['-tf', file('c')]);
    expect(stdout).toContain('backup/snapshots/s1_rootfs-srv-data-deep--er.bin\n');
    await world.ok('import', file('c'), 'c2');
    await peer('import', file('c'), 'c2');
    for (const dir of [stateDir, lxd.dir]) {
      expect(await subvolumesOf(at(dir, 'containers/c2/rootfs')), dir).toEqual(AFTER);
      expectFiles(at(dir, 'containers/c2/rootfs'), 'two');
      expectFiles(at(dir, 'containers-snapshots/c2/s1/rootfs'), 'one');
      expect(readFileSync(at(dir, 'containers/c2/rootfs/srv/late/file'), 'utf8')).toBe('late');
    }
    await world.ok('restore', 'c2', 's1');
    expect(await subvolumesOf(at(stateDir, 'containers/c2/rootfs'))).toEqual(BEFORE);
    expectFiles(at(stateDir, 'containers/c2/rootfs'), 'one');
    await peer('export', 'c2', file('c-back'), '--optimized-storage');
    await world.ok('import', file('c-back'), 'c3');
    expect(await subvolumesOf(at(stateDir, 'containers/c3/rootfs'))).toEqual(AFTER);
    expectFiles(at(stateDir, 'containers/c3/rootfs'), 'two');
    expectFiles(at(stateDir, 'containers-snapshots/c3/s1/rootfs'), 'one');
    await world.ok('start', 'c3');
    expect(await world.ok('exec', 'c3', '--', 'cat', '/srv/data/deep-er/file')).toBe('two srv/data/deep-er');
    await peer('delete', '--force', 'c2');
    await world.ok('delete', '--force', 'c', 'c2', 'c3');
  });

  it('a custom volume keeps them, and LXD finds them', async () => {
    await world.ok('storage', 'volume', 'create', 'b', 'v');
    const { stateDir } = world.daemon;
    const path = at(stateDir, 'custom/default_v');
    await makeSubvolumes(path);
    await world.ok('storage', 'volume', 'snapshot', 'b', 'v', 's1');
    await changeSubvolumes(path);
    await world.ok('storage', 'volume', 'export', 'b', 'v', file('v'), '--optimized-storage', '--compression=none');
    await world.ok('storage', 'volume', 'import', 'b', file('v'), 'v2');
    await peer('storage', 'volume', 'import', 'b', file('v'), 'v2');
    for (const dir of [stateDir, lxd.dir]) {
      expect(await subvolumesOf(at(dir, 'custom/default_v2')), dir).toEqual(AFTER);
      expectFiles(at(dir, 'custom/default_v2'), 'two');
      expectFiles(at(dir, 'custom-snapshots/default_v2/s1'), 'one');
    }
    await peer('storage', 'volume', 'delete', 'b', 'v2');
    for (const name of ['v', 'v2']) await world.ok('storage', 'volume', 'delete', 'b', name);
    expect((await command('btrfs', ['subvolume', 'list', at(stateDir)])).stdout).not.toContain('custom/');
  });
});
