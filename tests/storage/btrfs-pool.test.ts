import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { command } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type {
  NativeTransfer,
  PoolSpec,
  StoragePool,
  VolumeRef,
} from '../../packages/daemon/src/drivers/storage/contract.ts';
import { driverNamed } from './drivers.ts';

const MIB = 1024 * 1024;
const options = { idRange: undefined, clone: 'auto', nesting: false } as const;
const root = (name: string): VolumeRef => ({ type: 'container', name, contentType: 'filesystem' });
const custom = (name: string): VolumeRef => ({ type: 'custom', name, contentType: 'filesystem' });

describe('btrfs pools', () => {
  let folder: string;
  let pool: StoragePool;

  const specOf = (name: string, config: Record<string, string>): PoolSpec => ({
    name,
    config,
    path: join(folder, 'storage-pools', name),
    loopFile: join(folder, 'disks', `${name}.img`),
  });
  const make = async (name: string, config: Record<string, string>): Promise<StoragePool> => {
    const driver = driverNamed('btrfs');
    const asked = specOf(name, config);
    const spec = { ...asked, config: await driver.prepare(asked) };
    await driver.create(spec);
    const made = driver.open(spec);
    await made.mount();
    return made;
  };

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'btrfs-pools-'));
    pool = await make('loop', { size: '256MiB' });
  });
  afterAll(async () => {
    await pool?.destroy();
    rmSync(folder, { recursive: true, force: true });
  });

  it('limit volumes, tell their use and keep the limit through a restore', async () => {
    await pool.roots.createFilled(root('limited'), options);
    await pool.quota?.set(root('limited'), 20 * MIB);
    const { path } = await pool.roots.mount(root('limited'), options);
    writeFileSync(join(path, 'ten'), Buffer.alloc(10 * MIB, 1));
    await pool.snapshots.create(root('limited'), 's0', { running: false });
    await pool.snapshots.restore(root('limited'), 's0');
    await command('sync', ['-f', path]);
    expect(await pool.volumes.usage(root('limited'))).toBeGreaterThanOrEqual(10 * MIB);
    expect(() => {
      writeFileSync(join(path, 'more'), Buffer.alloc(30 * MIB, 1), { flush: true });
    }).toThrow(expect.objectContaining({ errno: -constants.errno.EDQUOT }));
    rmSync(join(path, 'more'), { force: true });
    await command('sync', ['-f', path]);
    await expect(pool.quota?.set(root('limited'), MIB)).rejects.toMatchObject({ code: 'bad-request' });
    await pool.quota?.set(root('limited'), undefined);
    writeFileSync(join(path, 'more'), Buffer.alloc(30 * MIB, 1), { flush: true });
    await pool.volumes.delete(root('limited'));
  });

  it('delete what a guest made of subvolumes', async () => {
    await pool.roots.createFilled(root('nested'), options);
    const { path } = await pool.roots.mount(root('nested'), options);
    for (const name of ['a', 'a/b', 'c']) await command('btrfs', ['subvolume', 'create', join(path, name)]);
    await pool.volumes.delete(root('nested'));
    await pool.unmount();
    await pool.mount();
    await pool.recover([]);
    expect((await command('btrfs', ['subvolume', 'list', pool.spec.path])).stdout).not.toContain('nested');
  });

  it('grow, and do not shrink', async () => {
    const before = (await pool.resources()).space.total;
    await pool.update({ ...pool.spec.config, size: '400MiB' });
    expect((await pool.resources()).space.total).toBeGreaterThan(before);
    expect(statSync(pool.spec.loopFile).size).toBe(400 * MIB);
    await expect(pool.update({ ...pool.spec.config, size: '300MiB' })).rejects.toMatchObject({
      code: 'bad-request',
      message: expect.stringContaining('"size"'),
    });
  });

  it('live in a subvolume of a btrfs that is there', async () => {
    const outer = custom('outer');
    await pool.volumes.create(outer, {});
    const source = join(await pool.volumes.mount(outer), 'inner');
    const inner = await make('inner', { source });
    await inner.volumes.create(custom('v'), {});
    expect(readdirSync(join(source, 'custom'))).toEqual(['v']);
    await inner.snapshots.create(custom('v'), 's1', { running: false });
    for (const [from, to] of [[inner, pool] as const, [pool, inner] as const]) {
      const name = from === inner ? 'v' : 'w';
      await using send = await assertTransfer(from).send(custom(name), { running: false });
      await using receive = await assertTransfer(to).receive(custom('w'), { refresh: false });
      await receive.accept('s1', await send.open('s1', undefined));
      await receive.accept(undefined, await send.open(undefined, 's1'));
      await receive.commit();
      expect(await to.snapshots.list(custom('w'))).toEqual(['s1']);
    }
    await pool.volumes.delete(custom('w'));
    await inner.destroy();
    expect(readdirSync(await pool.volumes.mount(outer))).toEqual([]);
    mkdirSync(source);
    await expect(make('inner', { source })).rejects.toMatchObject({ code: 'bad-request' });
    await pool.volumes.delete(outer);
  });

  it('refuse sources that cannot be', async () => {
    mkdirSync(join(folder, 'plain'));
    for (const config of [
      { source: join(folder, 'plain') },
      { source: '/no/such/thing' },
      { source: 'relative' },
      { size: '10MiB' },
      { size: 'x' },
    ]) {
      await expect(make('bad', config)).rejects.toMatchObject({ code: 'bad-request' });
      expect(readdirSync(join(folder, 'storage-pools'))).toEqual(['loop']);
      expect(readdirSync(join(folder, 'disks'))).toEqual(['loop.img']);
    }
  });

  it('live on a block device', async () => {
    const file = join(folder, 'device.img');
    writeFileSync(file, '');
    truncateSync(file, 200 * MIB);
    const device = (await command('losetup', ['--find', '--show', file])).stdout.trim();
    try {
      const onDevice = await make('device', { source: device });
      expect(onDevice.spec.config).toMatchObject({ 'volatile.initial_source': device });
      await onDevice.volumes.create(custom('v'), {});
      await expect(make('again', { source: device })).rejects.toMatchObject({
        code: 'bad-request',
        message: expect.stringContaining('in use'),
      });
      await onDevice.destroy();
    } finally {
      await command('losetup', ['--detach', device]);
    }
  });

  it('say so when the file is gone or cut', async () => {
    const lost = await make('lost', { size: '120MiB' });
    await lost.unmount();
    truncateSync(lost.spec.loopFile, MIB);
    await expect(lost.mount()).rejects.toThrow();
    rmSync(lost.spec.loopFile);
    await expect(lost.mount()).rejects.toMatchObject({ code: 'unavailable' });
    await lost.destroy();
  });
});

function assertTransfer({ transfer }: StoragePool): NativeTransfer {
  if (transfer === undefined) throw new Error('no transfer');
  return transfer;
}
