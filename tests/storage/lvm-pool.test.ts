import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statfsSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { named } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PoolSpec, StoragePool, VolumeRef } from '../../packages/daemon/src/drivers/storage/contract.ts';
import { driverNamed } from './drivers.ts';

const MIB = 1024 * 1024;
const { supported, reason = '' } = await driverNamed('lvm').probe();
const custom = (name: string, contentType: VolumeRef['contentType'] = 'filesystem'): VolumeRef => ({
  type: 'custom',
  name,
  contentType,
});

function tool(command: string, ...args: string[]): string {
  return execFileSync(command, args, { encoding: 'utf8', env: { ...process.env, LVM_SUPPRESS_FD_WARNINGS: '1' } });
}

describe.skipIf(!supported)(named('lvm pools', { ok: supported, reason }), { timeout: 300_000 }, () => {
  let folder: string;
  const pools: StoragePool[] = [];
  const loops: string[] = [];

  const specOf = (name: string, config: Record<string, string>): PoolSpec => ({
    name,
    config,
    path: join(folder, 'storage-pools', name),
    loopFile: join(folder, 'disks', `${name}.img`),
  });
  const make = async (name: string, config: Record<string, string>): Promise<StoragePool> => {
    const driver = driverNamed('lvm');
    const asked = specOf(name, config);
    const spec = { ...asked, config: await driver.prepare(asked) };
    await driver.create(spec);
    const pool = driver.open(spec);
    pools.push(pool);
    await pool.mount();
    return pool;
  };
  const device = (name: string): string => {
    const file = join(folder, name);
    writeFileSync(file, '');
    truncateSync(file, 256 * MIB);
    const loop = tool('losetup', '--find', '--show', file).trim();
    loops.push(loop);
    return loop;
  };
  const space = (path: string) => {
    const { bsize, blocks } = statfsSync(path);
    return bsize * blocks;
  };
  const volumes = (group: string) =>
    tool('lvs', '--noheadings', '-o', 'lv_name', group)
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '');

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'lvm-pools-'));
    mkdirSync(join(folder, 'disks'));
  });
  afterAll(async () => {
    for (const pool of pools.reverse()) await pool.destroy().catch(() => undefined);
    for (const loop of loops) execFileSync('losetup', ['--detach', loop]);
    rmSync(folder, { recursive: true, force: true });
  });

  it.each(['ext4', 'xfs', 'btrfs'])(
    '%s volumes have the size and the options they ask for, and grow in use',
    async (type) => {
      const pool = pools[0] ?? (await make('keelson-sizes', { size: '3GiB' }));
      const config = { size: '400MiB', 'block.filesystem': type, 'block.mount_options': 'discard,noatime' };
      const volume = custom(`default_${type}`);
      await pool.volumes.create(volume, { config });
      const path = await pool.volumes.mount(volume, { config });
      const [mount = ''] = readFileSync('/proc/mounts', 'utf8')
        .split('\n')
        .filter((line) => line.includes(` ${path} `));
      expect(mount).toContain(` ${type} `);
      expect(mount).toContain('noatime');
      expect(space(path)).toBeGreaterThan(300 * MIB);
      writeFileSync(join(path, 'kept'), 'text');
      await pool.quota?.set(volume, 800 * MIB);
      expect(space(path)).toBeGreaterThan(650 * MIB);
      await expect(pool.quota?.set(volume, 400 * MIB)).rejects.toMatchObject({ code: 'bad-request' });
      await pool.volumes.unmount(volume);
      if (type === 'ext4') {
        await pool.quota?.set(volume, 400 * MIB);
        expect(space(await pool.volumes.mount(volume))).toBeLessThan(420 * MIB);
        await pool.volumes.unmount(volume);
        await expect(pool.quota?.set(volume, 1 * MIB)).rejects.toThrow(/its content needs more/);
      } else {
        await expect(pool.quota?.set(volume, 400 * MIB)).rejects.toThrow(/cannot be shrunk/);
      }
      await pool.quota?.set(volume, 900 * MIB);
      const again = await pool.volumes.mount(volume);
      expect(space(again)).toBeGreaterThan(750 * MIB);
      expect(readFileSync(join(again, 'kept'), 'utf8')).toBe('text');
      await pool.volumes.copy(volume, custom(`default_${type}2`));
      const copy = await pool.volumes.mount(custom(`default_${type}2`));
      expect(readFileSync(join(copy, 'kept'), 'utf8')).toBe('text');
      for (const one of [volume, custom(`default_${type}2`)]) await pool.volumes.delete(one);
      expect(volumes('keelson-sizes')).toEqual(['LXDThinPool']);
    },
  );

  it('a loop pool grows, and does not shrink', async () => {
    const pool = pools[0] ?? (await make('keelson-sizes', { size: '3GiB' }));
    const before = (await pool.resources()).space.total;
    await pool.update({ ...pool.spec.config, size: '4GiB' });
    expect((await pool.resources()).space.total).toBeGreaterThan(before + 900 * MIB);
    await expect(pool.update({ ...pool.spec.config, size: '1GiB' })).rejects.toMatchObject({ code: 'bad-request' });
    await expect(pool.update({ ...pool.spec.config, 'lvm.use_thinpool': 'false' })).rejects.toThrow(
      /cannot be changed/,
    );
  });

  it('takes another name for its group and its thin pool', async () => {
    const pool = pools[0] ?? (await make('keelson-sizes', { size: '3GiB' }));
    await pool.volumes.create(custom('default_v'), { config: { size: '32MiB' } });
    await pool.update({ ...pool.spec.config, 'lvm.vg_name': 'keelson-named', 'lvm.thinpool_name': 'pool' });
    expect(volumes('keelson-named')).toEqual(['custom_default_v', 'pool']);
    expect(existsSync(await pool.volumes.mount(custom('default_v')))).toBe(true);
    await pool.volumes.delete(custom('default_v'));
  });

  it('is made on a device, and leaves it free', async () => {
    const loop = device('device.img');
    const pool = await make('keelson-device', { source: loop, size: '100MiB' });
    expect(pool.spec.config).toMatchObject({ source: 'keelson-device', 'volatile.initial_source': loop });
    expect((await pool.resources()).space.total).toBeLessThan(110 * MIB);
    await expect(make('keelson-device', { source: loop })).rejects.toThrow('Volume group already exists');
    await pool.destroy();
    expect(tool('vgs', '--noheadings', '-o', 'vg_name')).not.toContain('keelson-device');
    await pool.destroy();
  });

  it('is made in a group that is there, and leaves what is not its own', async () => {
    tool('vgcreate', 'keelson-group', device('group.img'));
    const pool = await make('keelson-in', { source: 'keelson-group' });
    await expect(make('keelson-two', { source: 'keelson-group' })).rejects.toThrow(/already used/);
    await pool.volumes.create(custom('default_v'), { config: { size: '16MiB' } });
    await pool.destroy();
    expect(volumes('keelson-group')).toEqual([]);
    tool('lvcreate', '--yes', '--size', '16M', '--name', 'home', 'keelson-group');
    await expect(make('keelson-in', { source: 'keelson-group' })).rejects.toThrow('"keelson-group" is not empty');
    const shared = await make('keelson-in', { source: 'keelson-group', 'lvm.vg.force_reuse': 'true' });
    await shared.volumes.create(custom('default_v'), { config: { size: '16MiB' } });
    await shared.destroy();
    expect(volumes('keelson-group')).toEqual(['home']);
    tool('vgremove', '--force', 'keelson-group');
    await expect(make('keelson-in', { source: 'keelson-group' })).rejects.toThrow('does not exist');
  });

  it('gives volumes and the thin pool the stripes and the metadata they ask for', async () => {
    const shape = (lv: string, fields: string) =>
      tool('lvs', '--noheadings', '--all', '--units', 'b', '--nosuffix', '-o', fields, `keelson-striped/${lv}`)
        .trim()
        .split(/\s+/);
    tool('vgcreate', 'keelson-striped', device('stripe0.img'), device('stripe1.img'));
    const stripes = { 'volume.lvm.stripes': '2', 'volume.lvm.stripes.size': '16KiB' };
    const thin = await make('keelson-thin-stripes', {
      source: 'keelson-striped',
      'lvm.thinpool_metadata_size': '8MiB',
      ...stripes,
    });
    expect(shape('LXDThinPool_tdata', 'stripes,stripe_size')).toEqual(['2', String(16 * 1024)]);
    expect(shape('LXDThinPool', 'lv_metadata_size')).toEqual([String(8 * MIB)]);
    await thin.destroy();
    const plain = await make('keelson-plain-stripes', { source: 'keelson-striped', 'lvm.use_thinpool': 'false' });
    const config = { size: '32MiB', 'lvm.stripes': '2', 'lvm.stripes.size': '64KiB' };
    await plain.volumes.create(custom('default_v'), { config });
    expect(shape('custom_default_v', 'stripes,stripe_size')).toEqual(['2', String(64 * 1024)]);
    // Without a thin pool: a copy of a snapshot is as large as the volume, which keeps its size while it has snapshots.
    await plain.snapshots.create(custom('default_v'), 's0', { running: false });
    await plain.volumes.copy({ ...custom('default_v'), snapshot: 's0' }, custom('default_w'));
    expect(shape('custom_default_w', 'lv_size')).toEqual([String(32 * MIB)]);
    await expect(plain.quota?.set(custom('default_v'), 64 * MIB)).rejects.toThrow(/delete them first/);
    await plain.snapshots.delete(custom('default_v'), 's0');
    await plain.quota?.set(custom('default_v'), 64 * MIB);
    expect(shape('custom_default_v', 'lv_size')).toEqual([String(64 * MIB)]);
    await plain.destroy();
    tool('vgremove', '--force', 'keelson-striped');
  });

  it('finishes a restore that was cut off', async () => {
    const pool = await make('keelson-cut', { size: '512MiB' });
    const volume = custom('default_v');
    const config = { size: '64MiB' };
    await pool.volumes.create(volume, { config });
    writeFileSync(join(await pool.volumes.mount(volume), 'state'), 'one');
    await pool.volumes.unmount(volume);
    await pool.snapshots.create(volume, 's0', { running: false });
    tool('lvrename', 'keelson-cut', 'custom_default_v', 'keelson.old.custom_default_v');
    tool('lvcreate', '--snapshot', '--name', 'keelson.0123', 'keelson-cut/custom_default_v-s0');
    const again = driverNamed('lvm').open(pool.spec);
    await again.mount();
    await again.recover([]);
    expect(readFileSync(join(await again.volumes.mount(volume), 'state'), 'utf8')).toBe('one');
    await again.volumes.unmount(volume);
    expect(volumes('keelson-cut')).toEqual(['LXDThinPool', 'custom_default_v', 'custom_default_v-s0']);
  });

  it('keeps disks of virtual machines as devices', async () => {
    const pool = await make('keelson-disks', { size: '512MiB' });
    const image: VolumeRef = { type: 'image', name: 'f'.repeat(64), contentType: 'block' };
    const root: VolumeRef = { type: 'virtual-machine', name: 'vm', contentType: 'block' };
    const options = { idRange: undefined, clone: 'auto', nesting: false, config: { size: '48MiB' } } as const;
    await pool.volumes.createFilled(image, async (path) => {
      writeFileSync(join(path, 'root.img'), 'boot');
      truncateSync(join(path, 'root.img'), 16 * MIB);
    });
    await pool.roots.createFromImage(root, image, options);
    const { path } = await pool.roots.mount(root, options);
    expect(Number(tool('blockdev', '--getsize64', join(path, 'root.img')))).toBe(48 * MIB);
    expect(readFileSync(join(path, 'root.img')).subarray(0, 4).toString()).toBe('boot');
    await pool.roots.unmount(root);
    await pool.volumes.delete(image);
    await pool.volumes.delete(root);
    expect(volumes('keelson-disks')).toEqual(['LXDThinPool']);
  });
});
