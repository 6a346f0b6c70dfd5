import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { command, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { StoragePool, VolumeRef } from '../../packages/daemon/src/drivers/storage/contract.ts';
import { driverNamed } from './drivers.ts';

const MIB = 1024 * 1024;
const options = { idRange: undefined, clone: 'auto', nesting: false } as const;
const root = (name: string): VolumeRef => ({ type: 'container', name, contentType: 'filesystem' });
const text = (...path: string[]) => readFileSync(join(...path), 'utf8');

describe('subvolumes that a guest made inside its root', () => {
  let folder: string;
  let pool: StoragePool;
  let other: StoragePool;
  let path: string;

  const make = async (name: string): Promise<StoragePool> => {
    const driver = driverNamed('btrfs');
    const asked = {
      name,
      config: { size: '512MiB' },
      path: join(folder, 'storage-pools', name),
      loopFile: join(folder, 'disks', `${name}.img`),
    };
    const spec = { ...asked, config: await driver.prepare(asked) };
    await driver.create(spec);
    const made = driver.open(spec);
    await made.mount();
    return made;
  };
  const reopen = async () => {
    pool = driverNamed('btrfs').open(pool.spec);
    await pool.mount();
    await pool.recover([]);
  };
  const subvolumes = async (at: StoragePool) =>
    (await command('btrfs', ['subvolume', 'list', at.spec.path])).stdout
      .split('\n')
      .map((line) => / path (.*)$/.exec(line)?.[1] ?? '')
      .filter((found) => found !== '' && !found.startsWith('trash/'))
      .sort();
  const isReadOnly = async (...parts: string[]) =>
    (await command('btrfs', ['property', 'get', join(...parts), 'ro'])).stdout.trim() === 'ro=true';

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'btrfs-nested-'));
    pool = await make('one');
    other = await make('two');
    await pool.roots.createFilled(root('c'), options);
    ({ path } = await pool.roots.mount(root('c'), options));
    mkdirSync(join(path, 'srv'));
    for (const name of ['srv/data', 'srv/data/deep', 'var'])
      await command('btrfs', ['subvolume', 'create', join(path, name)]);
    writeFileSync(join(path, 'srv/data/file'), 'one');
    writeFileSync(join(path, 'srv/data/deep/file'), 'one');
    await command('btrfs', ['subvolume', 'snapshot', '-r', join(path, 'srv/data'), join(path, 'srv/kept')]);
  });
  afterAll(async () => {
    await pool?.destroy();
    await other?.destroy();
    rmSync(folder, { recursive: true, force: true });
  });

  it('are in its snapshots and come back with them', async () => {
    await pool.snapshots.create(root('c'), 's1', { running: true });
    const at = (await pool.snapshots.mount(root('c'), 's1', options)).path;
    expect(text(at, 'srv/data/deep/file')).toBe('one');
    expect(await isReadOnly(at, '..')).toBe(true);
    writeFileSync(join(path, 'srv/data/file'), 'two');
    writeFileSync(join(path, 'srv/data/deep/file'), 'two');
    await command('btrfs', ['subvolume', 'delete', join(path, 'var')]);
    await command('btrfs', ['subvolume', 'create', join(path, 'srv/late')]);
    expect(text(at, 'srv/data/deep/file')).toBe('one');
    await pool.snapshots.restore(root('c'), 's1');
    ({ path } = await pool.roots.mount(root('c'), options));
    expect(text(path, 'srv/data/file') + text(path, 'srv/data/deep/file') + text(path, 'srv/kept/file')).toBe(
      'oneoneone',
    );
    expect(readdirSync(join(path, 'srv')).sort()).toEqual(['data', 'kept']);
    expect(readdirSync(path).sort()).toEqual(['srv', 'var']);
    expect(await isReadOnly(path, 'srv/kept')).toBe(true);
    writeFileSync(join(path, 'srv/data/deep/file'), 'three');
  });

  it('are copied, with the snapshots', async () => {
    await pool.roots.copy(root('c'), root('copy'), { ...options, snapshots: ['s1'] });
    const copy = (await pool.roots.mount(root('copy'), options)).path;
    expect(text(copy, 'srv/data/deep/file')).toBe('three');
    writeFileSync(join(copy, 'srv/data/deep/file'), 'mine');
    expect(text(path, 'srv/data/deep/file')).toBe('three');
    await pool.snapshots.restore(root('copy'), 's1');
    expect(text((await pool.roots.mount(root('copy'), options)).path, 'srv/data/deep/file')).toBe('one');
  });

  it('count as used', async () => {
    writeFileSync(join(path, 'srv/data/big'), Buffer.alloc(10 * MIB, 1));
    await pool.quota?.set(root('c'), 400 * MIB);
    await command('sync', ['-f', path]);
    expect(await pool.volumes.usage(root('c'))).toBeGreaterThan(10 * MIB);
    await expect(pool.quota?.set(root('c'), 5 * MIB)).rejects.toMatchObject({ code: 'bad-request' });
    await pool.quota?.set(root('c'), undefined);
  });

  it('travel to another pool, incrementally', async () => {
    await pool.snapshots.create(root('c'), 's2', { running: true });
    await using send = await pool.transfer?.send(root('c'), { running: true });
    await using receive = await other.transfer?.receive(root('c'), { refresh: false });
    if (send === undefined || receive === undefined) throw new Error('no transfer');
    let before: string | undefined;
    for (const part of ['s1', 's2', undefined]) {
      await receive.accept(part, await send.open(part, before));
      for (const inside of (await send.inside?.(part)) ?? [])
        await receive.accept(part, await send.open(part, before, { inside: inside.path }), { inside });
      before = part;
    }
    await receive.commit();
    const arrived = (await other.roots.mount(root('c'), options)).path;
    expect(text(arrived, 'srv/data/deep/file')).toBe('three');
    expect(await isReadOnly(arrived, 'srv/kept')).toBe(true);
    expect(await isReadOnly(arrived, 'srv/data')).toBe(false);
    await other.snapshots.restore(root('c'), 's1');
    expect(text((await other.roots.mount(root('c'), options)).path, 'srv/data/deep/file')).toBe('one');
  });

  it('cannot be put outside by who sends them', async () => {
    const evil = root('evil');
    await pool.roots.createFilled(evil, options);
    const at = (await pool.roots.mount(evil, options)).path;
    symlinkSync(pool.spec.path, join(at, 'link'));
    await command('btrfs', ['subvolume', 'create', join(at, 'inner')]);
    for (const bad of ['rootfs/link/custom/x', '../x', 'rootfs/..', 'rootfs/none/x', '/tmp/x', '']) {
      await using send = await pool.transfer?.send(evil, { running: true });
      await using receive = await other.transfer?.receive(evil, { refresh: false });
      await receive?.accept(undefined, (await send?.open(undefined, undefined)) ?? raise());
      const inside = { path: bad, readOnly: false };
      await receive?.accept(
        undefined,
        (await send?.open(undefined, undefined, { inside: 'rootfs/inner' })) ?? raise(),
        {
          inside,
        },
      );
      await expect(receive?.commit(), bad).rejects.toMatchObject({ code: 'bad-request' });
    }
    expect(await other.volumes.exists(evil)).toBe(false);
    await pool.volumes.delete(evil);
  });

  it('are deleted with the root of a dir pool on btrfs too', async () => {
    const home: VolumeRef = { type: 'custom', name: 'home', contentType: 'filesystem' };
    await other.volumes.create(home, {});
    const source = join(await other.volumes.mount(home), 'folder');
    mkdirSync(source);
    const driver = driverNamed('dir');
    const asked = { name: 'd', config: { source }, path: join(folder, 'storage-pools/d'), loopFile: '' };
    const dir = driver.open({ ...asked, config: await driver.prepare(asked) });
    await dir.mount();
    await dir.roots.createFilled(root('c'), { ...options, nesting: true });
    const at = (await dir.roots.mount(root('c'), { ...options, nesting: true })).path;
    for (const name of ['a', 'a/b']) await command('btrfs', ['subvolume', 'create', join(at, name)]);
    await command('btrfs', ['subvolume', 'snapshot', '-r', join(at, 'a'), join(at, 'kept')]);
    await dir.volumes.delete(root('c'));
    await dir.unmount();
    await dir.mount();
    await dir.recover([]);
    await until('the trash to be empty', () => readdirSync(join(source, 'trash')).length === 0);
    await dir.unmount();
    expect((await subvolumes(other)).filter((found) => found.includes('folder'))).toEqual([]);
    await dir.destroy();
    await other.volumes.delete(home);
  });

  it('are there whole or not at all when the daemon was killed', async () => {
    const custom: VolumeRef = { type: 'custom', name: 'w', contentType: 'filesystem' };
    await pool.volumes.create(custom, {});
    await pool.snapshots.create(custom, 's1', { running: false });
    await pool.snapshots.create(custom, 's2', { running: false });
    const note = (head: string, name: string) =>
      writeFileSync(
        join(pool.spec.path, `staging/${name}.publish`),
        JSON.stringify({ volume: custom, head, snapshots: [name] }),
      );
    const { stdout } = await command('btrfs', ['subvolume', 'show', join(pool.spec.path, 'custom/w')]);
    const present = /UUID:\s+(\S+)/.exec(stdout)?.[1]?.replaceAll('-', '') ?? '';
    note('0'.repeat(32), 's1'); // what should have become the volume never did
    note(present, 's2'); // it did, and the end of the daemon came after
    writeFileSync(join(pool.spec.path, 'staging/cut.publish'), '{"volume":');
    await reopen();
    expect(await pool.snapshots.list(custom)).toEqual(['s2']);
    expect(readdirSync(join(pool.spec.path, 'staging'))).toEqual([]);
    await pool.volumes.delete(custom);
  });

  it('are deleted with it', async () => {
    await pool.snapshots.delete(root('c'), 's1');
    for (const name of ['c', 'copy']) await pool.volumes.delete(root(name));
    await reopen();
    await until('the trash to be empty', () => readdirSync(join(pool.spec.path, 'trash')).length === 0);
    expect(await subvolumes(pool)).toEqual([]);
  });
});

function raise(): never {
  throw new Error('no transfer');
}
