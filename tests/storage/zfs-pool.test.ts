import {
  chownSync,
  closeSync,
  createReadStream,
  existsSync,
  fsyncSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { randomUUID } from 'node:crypto';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { command, named } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type {
  NativeTransfer,
  PoolSpec,
  StoragePool,
  VolumeRef,
} from '../../packages/daemon/src/drivers/storage/contract.ts';
import { silentLog } from '../../packages/daemon/src/core/log.ts';
import { ZfsDriver } from '../../packages/daemon/src/drivers/storage/zfs/driver.ts';
import { driverNamed } from './drivers.ts';

const MIB = 1024 * 1024;
const { supported, reason = '', capabilities } = await driverNamed('zfs').probe();
/** Since 2.2; without it owners on disk change, and no stream leaves the host. */
const mapped = capabilities.optimizedTransfer;
const custom = (name: string, contentType: VolumeRef['contentType'] = 'filesystem'): VolumeRef => ({
  type: 'custom',
  name,
  contentType,
});
const zpoolName = (name: string): string => `keelson-${name}-${process.pid}`;

async function tool(name: string, ...args: string[]): Promise<string> {
  return (await command(name, args)).stdout.trim();
}

describe.skipIf(!supported)(named('zfs pools', { ok: supported, reason }), () => {
  let folder: string;
  let pool: StoragePool;
  const zpools: string[] = [];
  const loops: string[] = [];

  const specOf = (name: string, config: Record<string, string>): PoolSpec => ({
    name: zpoolName(name),
    config,
    path: join(folder, 'storage-pools', name),
    loopFile: join(folder, 'disks', `${name}.img`),
  });
  const make = async (name: string, config: Record<string, string>): Promise<StoragePool> => {
    const driver = driverNamed('zfs');
    const asked = specOf(name, config);
    const spec = { ...asked, config: await driver.prepare(asked) };
    await driver.create(spec);
    zpools.push(spec.config['zfs.pool_name'] ?? '');
    const made = driver.open(spec);
    await made.mount();
    return made;
  };
  const device = async (name: string): Promise<string> => {
    const file = join(folder, name);
    writeFileSync(file, '');
    truncateSync(file, 256 * MIB);
    const loop = await tool('losetup', '--find', '--show', file);
    loops.push(loop);
    return loop;
  };
  const get = (dataset: string, property: string) => tool('zfs', 'get', '-Hp', '-o', 'value', property, dataset);
  const datasets = async (below: string) => (await tool('zfs', 'list', '-Hr', '-o', 'name', below)).split('\n');
  const root = () => pool.spec.config['zfs.pool_name'] ?? '';

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'zfs-pools-'));
    mkdirSync(join(folder, 'disks'));
    pool = await make('loop', { size: '512MiB' });
  });
  afterAll(async () => {
    await pool?.destroy();
    for (const name of zpools) await command('zpool', ['destroy', '-f', name], { anyExit: true });
    for (const loop of loops) await command('losetup', ['--detach', loop], { anyExit: true });
    rmSync(folder, { recursive: true, force: true });
  });

  it('limit file systems, with or without their snapshots, and set space aside', async () => {
    const volume = custom('default_limited');
    await pool.volumes.create(volume, { config: { 'zfs.blocksize': '16KiB' } });
    const dataset = `${root()}/custom/default_limited`;
    expect(await get(dataset, 'recordsize')).toBe('16384');
    await pool.quota?.set(volume, 32 * MIB);
    expect(await get(dataset, 'quota')).toBe(String(32 * MIB));
    const path = await pool.volumes.mount(volume);
    const noise = Buffer.alloc(20 * MIB, Buffer.from(crypto.getRandomValues(new Uint8Array(65_521))));
    writeFileSync(join(path, 'data'), noise, { flush: true });
    await tool('zpool', 'sync', root());
    expect(await pool.volumes.usage(volume)).toBeGreaterThan(19 * MIB);
    // ZFS is some megabytes late.
    expect(() => {
      for (let count = 0; count < 5; count++) writeFileSync(join(path, 'more'), noise, { flush: true, flag: 'a' });
    }).toThrow(expect.objectContaining({ errno: -constants.errno.EDQUOT }));
    rmSync(join(path, 'more'));
    await tool('zpool', 'sync', root());
    await expect(pool.quota?.set(volume, MIB)).rejects.toMatchObject({ code: 'bad-request' });
    const config = { 'zfs.use_refquota': 'true', 'zfs.reserve_space': 'true' };
    await pool.quota?.set(volume, 48 * MIB, { config });
    expect([await get(dataset, 'quota'), await get(dataset, 'refquota'), await get(dataset, 'refreservation')]).toEqual(
      ['0', String(48 * MIB), String(48 * MIB)],
    );
    await pool.quota?.set(volume, undefined, { config });
    expect([await get(dataset, 'refquota'), await get(dataset, 'refreservation')]).toEqual(['0', '0']);
    await pool.volumes.delete(volume);
  });

  it('grow with their loop file, and do not shrink', async () => {
    const before = (await pool.resources()).space.total;
    await pool.update({ ...pool.spec.config, size: '768MiB' });
    expect(statSync(pool.spec.loopFile).size).toBe(768 * MIB);
    expect((await pool.resources()).space.total).toBeGreaterThan(before + 200 * MIB);
    await expect(pool.update({ ...pool.spec.config, size: '256MiB' })).rejects.toMatchObject({ code: 'bad-request' });
    await expect(pool.update({ ...pool.spec.config, 'zfs.pool_name': 'other' })).rejects.toThrow('cannot be modified');
  });

  it('keep block volumes as devices: grown, copied, restored', async () => {
    const volume = custom('default_disk', 'block');
    await pool.volumes.create(volume, { size: 16 * MIB });
    const disk = await pool.volumes.mount(volume);
    expect(await tool('blockdev', '--getsize64', disk)).toBe(String(16 * MIB));
    write(disk, 'one');
    await pool.snapshots.create(volume, 's0', { running: false });
    write(disk, 'two');
    await pool.quota?.set(volume, 32 * MIB);
    expect(await tool('blockdev', '--getsize64', disk)).toBe(String(32 * MIB));
    await expect(pool.quota?.set(volume, 16 * MIB)).rejects.toThrow('Block volumes cannot be shrunk');
    const snapshot = await pool.snapshots.mount(volume, 's0', { idRange: undefined, clone: 'auto', nesting: false });
    expect(read(snapshot.path)).toBe('one');
    await pool.snapshots.unmount(volume, 's0');
    await pool.volumes.copy({ ...volume, snapshot: 's0' }, custom('default_copy', 'block'));
    expect(read(await pool.volumes.mount(custom('default_copy', 'block')))).toBe('one');
    await pool.volumes.delete(custom('default_copy', 'block'));
    await pool.volumes.unmount(volume);
    await pool.snapshots.restore(volume, 's0');
    expect(read(await pool.volumes.mount(volume))).toBe('one');

    if (!mapped) return pool.volumes.delete(volume);
    const sent = custom('default_sent', 'block');
    {
      await using send = await transferOf(pool).send(volume, { running: false });
      await using receive = await transferOf(pool).receive(sent, { refresh: false });
      await receive.accept('s0', await send.open('s0', undefined));
      await receive.accept(undefined, await send.open(undefined, 's0'));
      await receive.commit();
    }
    expect(read(await pool.volumes.mount(sent))).toBe('one');
    expect(await pool.snapshots.list(sent)).toEqual(['s0']);
    for (const one of [sent, volume]) await pool.volumes.delete(one);
    expect(await datasets(`${root()}/custom`)).toEqual([`${root()}/custom`]);
  });

  it('keep disks of virtual machines as devices', async () => {
    const image: VolumeRef = { type: 'image', name: 'f'.repeat(64), contentType: 'block' };
    const vm = (name: string): VolumeRef => ({ type: 'virtual-machine', name, contentType: 'block' });
    const options = { idRange: undefined, clone: 'auto', nesting: false, config: { size: '48MiB' } } as const;
    await pool.volumes.createFilled(image, async (path) => {
      writeFileSync(join(path, 'root.img'), 'boot');
      truncateSync(join(path, 'root.img'), 16 * MIB);
    });
    await pool.roots.createFromImage(vm('vm'), image, options);
    await pool.quota?.set(vm('vm'), 48 * MIB);
    const { path } = await pool.roots.mount(vm('vm'), options);
    const disk = join(path, 'root.img');
    expect(await tool('blockdev', '--getsize64', disk)).toBe(String(48 * MIB));
    expect(read(disk)).toBe('boot');
    write(disk, 'mine');
    await pool.roots.unmount(vm('vm'));
    // The copy takes the name's place: a link of the old one must not lead to the new one's neighbour.
    await pool.roots.copy(vm('vm'), vm('other'), options);
    await pool.volumes.delete(vm('vm'));
    await pool.roots.createFromImage(vm('vm'), image, options);
    expect(read(join((await pool.roots.mount(vm('vm'), options)).path, 'root.img'))).toBe('boot');
    expect(read(join((await pool.roots.mount(vm('other'), options)).path, 'root.img'))).toBe('mine');
    for (const name of ['vm', 'other']) await pool.roots.unmount(vm(name));
    for (const volume of [image, vm('vm'), vm('other')]) await pool.volumes.delete(volume);
    const empty = ['images', 'virtual-machines', 'deleted/images', 'deleted/virtual-machines'];
    for (const name of empty) expect(await datasets(`${root()}/${name}`)).toEqual([`${root()}/${name}`]);
  });

  it('restore the newest snapshot, an older one when the later may go', async () => {
    const volume = custom('default_v');
    await pool.volumes.create(volume, {});
    for (const name of ['s0', 's1', 's2']) {
      writeFileSync(join(await pool.volumes.mount(volume), 'state'), name);
      await pool.snapshots.create(volume, name, { running: false });
    }
    await expect(pool.snapshots.restore(volume, 's0')).rejects.toThrow('Set zfs.remove_snapshots to override');
    expect(await pool.snapshots.list(volume)).toEqual(['s0', 's1', 's2']);
    await pool.snapshots.restore(volume, 's1', { config: { 'zfs.remove_snapshots': 'true' } });
    expect(readFileSync(join(await pool.volumes.mount(volume), 'state'), 'utf8')).toBe('s1');
    expect(await pool.snapshots.list(volume)).toEqual(['s0', 's1']);
    await pool.volumes.delete(volume);
  });

  it('make copies that are clones, full, or stand on the image', async () => {
    const image: VolumeRef = { type: 'image', name: 'e'.repeat(64), contentType: 'filesystem' };
    const container = (name: string): VolumeRef => ({ type: 'container', name, contentType: 'filesystem' });
    const options = { idRange: undefined, clone: 'auto', nesting: false } as const;
    const origin = (name: string) => get(`${root()}/containers/${name}`, 'origin');
    await pool.volumes.createFilled(image, async (path) => {
      mkdirSync(join(path, 'rootfs'));
      writeFileSync(join(path, 'rootfs/file'), 'image');
    });
    await pool.roots.createFromImage(container('c1'), image, options);
    writeFileSync(join((await pool.roots.mount(container('c1'), options)).path, 'mine'), 'c1');
    await pool.snapshots.create(container('c1'), 's0', { running: true });
    const origins: Record<string, string> = {};
    for (const mode of ['true', 'false', 'rebase']) {
      await pool.update({ ...pool.spec.config, 'zfs.clone_copy': mode });
      await pool.roots.copy(container('c1'), container('copy'), {
        ...options,
        snapshots: mode === 'true' ? [] : ['s0'],
      });
      origins[mode] = await origin('copy');
      const { path } = await pool.roots.mount(container('copy'), options);
      expect([readFileSync(join(path, 'file'), 'utf8'), readFileSync(join(path, 'mine'), 'utf8')]).toEqual([
        'image',
        'c1',
      ]);
      expect(await pool.snapshots.list(container('copy'))).toEqual(mode === 'true' ? [] : ['s0']);
      await pool.volumes.delete(container('copy'));
    }
    expect(origins).toEqual({
      true: expect.stringContaining(`${root()}/containers/c1@copy-`),
      false: '-',
      rebase: `${root()}/images/${image.name}@readonly`,
    });
    for (const volume of [container('c1'), image]) await pool.volumes.delete(volume);
    for (const name of ['containers', 'images', 'deleted/images'])
      expect(await datasets(`${root()}/${name}`)).toEqual([`${root()}/${name}`]);
  });

  it.each([true, false])('give roots the ids of their range, also those of snapshots (mapped: %s)', async (maps) => {
    const isMapped = mapped && maps;
    const log = silentLog;
    const newId = () => randomUUID().slice(0, 13);
    const here = maps ? pool : new ZfsDriver({ newId, log, mapsIds: () => Promise.resolve(false) }).open(pool.spec);
    await here.mount();
    const container: VolumeRef = { type: 'container', name: 'ids', contentType: 'filesystem' };
    const options = (base: number) => ({ idRange: { base, size: 65_536 }, clone: 'auto', nesting: false }) as const;
    const dataset = `${root()}/containers/ids`;
    await here.roots.createFilled(container, options(1_000_000), async (path) => {
      writeFileSync(join(path, 'file'), 'first');
      chownSync(join(path, 'file'), 33, 44);
    });
    const owner = (path: string, ids: string, base: number) => {
      const { uid, gid } = statSync(join(path, 'file'));
      return ids === 'shifted' ? [uid - base, gid - base] : [uid, gid];
    };
    const first = await here.roots.mount(container, options(1_000_000));
    expect(first.ids).toBe(isMapped ? 'plain' : 'shifted');
    expect(owner(first.path, first.ids, 1_000_000)).toEqual([33, 44]);
    await here.roots.unmount(container);
    await here.snapshots.create(container, 's0', { running: false });
    const second = await here.roots.mount(container, options(2_000_000));
    expect(owner(second.path, second.ids, 2_000_000)).toEqual([33, 44]);
    for (const base of [1_000_000, 2_000_000]) {
      const { path, ids } = await here.snapshots.mount(container, 's0', options(base));
      expect(owner(path, ids, base)).toEqual([33, 44]);
      expect(() => {
        writeFileSync(join(path, 'file'), 'x');
      }).toThrow(expect.objectContaining({ code: 'EROFS' }));
      await here.snapshots.unmount(container, 's0');
    }
    await here.roots.unmount(container);
    await here.snapshots.restore(container, 's0');
    const third = await here.roots.mount(container, options(2_000_000));
    expect(owner(third.path, third.ids, 2_000_000)).toEqual([33, 44]);
    // A change of owners that was cut off.
    await tool('zfs', 'snapshot', `${dataset}@shift-cut`);
    chownSync(join(third.path, 'file'), 1, 1);
    await here.recover([]);
    const again = await here.roots.mount(container, options(2_000_000));
    expect(owner(again.path, again.ids, 2_000_000)).toEqual([33, 44]);
    expect(await tool('zfs', 'list', '-Hd1', '-t', 'snapshot', '-o', 'name', dataset)).toBe(`${dataset}@snapshot-s0`);
    await here.roots.unmount(container);
    await here.volumes.delete(container);
    expect(await datasets(`${root()}/staging`)).toEqual([`${root()}/staging`]);
  });

  it.skipIf(!mapped)('take no properties from a stream', async () => {
    const volume = custom('default_v');
    await pool.volumes.create(volume, {});
    const source = `${root()}/stranger`;
    await tool('zfs', 'create', '-o', 'mountpoint=legacy', '-o', 'keelson:bad=yes', source);
    await tool('zfs', 'snapshot', `${source}@snapshot-s0`);
    for (const options of [['-p'], ['-R']]) {
      await using receive = await transferOf(pool).receive(custom('default_w'), { refresh: false });
      const file = join(folder, 'stream');
      await tool('sh', '-c', 'exec zfs send "$2" "$3" > "$1"', 'sh', file, ...options, `${source}@snapshot-s0`);
      await expect(receive.accept('s0', createReadStream(file))).rejects.toThrow('carries properties');
      expect(await datasets(`${root()}/staging`)).toEqual([`${root()}/staging`]);
    }
    await tool('zfs', 'destroy', '-r', source);
    {
      await using send = await transferOf(pool).send(volume, { running: false });
      await using receive = await transferOf(pool).receive(custom('default_w'), { refresh: false });
      await receive.accept(undefined, await send.open(undefined, undefined));
      await receive.commit();
    }
    for (const name of ['default_v', 'default_w']) await pool.volumes.delete(custom(name));
  });

  it('are exported when the server lets go of them, unless that is switched off', async () => {
    const exported = await make('exported', { size: '128MiB' });
    await exported.volumes.create(custom('default_v'), {});
    writeFileSync(join(await exported.volumes.mount(custom('default_v')), 'kept'), 'text');
    await exported.unmount();
    expect(await tool('zpool', 'list', '-H', '-o', 'name')).not.toContain(zpoolName('exported'));
    await exported.mount();
    expect(readFileSync(join(await exported.volumes.mount(custom('default_v')), 'kept'), 'utf8')).toBe('text');
    await exported.update({ ...exported.spec.config, 'zfs.export': 'false' });
    await exported.unmount();
    expect(await tool('zpool', 'list', '-H', '-o', 'name')).toContain(zpoolName('exported'));
    await exported.mount();
    await exported.destroy();
    expect(existsSync(exported.spec.loopFile)).toBe(false);
  });

  it('live on a device, and leave it free', async () => {
    const loop = await device('device.img');
    const made = await make('device', { source: loop });
    const name = zpoolName('device');
    expect(made.spec.config).toMatchObject({ source: name, 'volatile.initial_source': loop });
    expect((await made.resources()).space.total).toBeLessThan(256 * MIB);
    await expect(make('device', { source: loop })).rejects.toThrow(`A zpool called "${name}" already exists`);
    await expect(make('again', { source: loop })).rejects.toMatchObject({ code: 'bad-request' });
    await made.unmount();
    await made.mount();
    await made.destroy();
    await made.destroy();
    expect(await tool('zpool', 'list', '-H', '-o', 'name')).not.toContain(name);
    for (const source of ['/no/such/thing', join(folder, 'device.img'), 'no-such-zpool'])
      await expect(make('bad', { source })).rejects.toMatchObject({ code: 'bad-request' });
  });

  it('live in a zpool or dataset that is there, and leave what is not their own', async () => {
    const tank = zpoolName('tank');
    await tool('zpool', 'create', '-m', 'none', tank, await device('tank.img'));
    zpools.push(tank);
    onTestFinished(async () => {
      await command('zpool', ['destroy', '-f', tank], { anyExit: true });
    });
    await tool('zfs', 'create', `${tank}/theirs`);
    await expect(make('whole', { source: tank })).rejects.toThrow("isn't empty");
    for (const source of [`${tank}/here`, `${tank}/theirs`]) {
      const inside = await make('inside', { source });
      expect(inside.spec.config).toMatchObject({ source, 'zfs.pool_name': source });
      await inside.volumes.create(custom('default_v'), {});
      await inside.volumes.copy(custom('default_v'), custom('default_w'));
      await expect(make('second', { source })).rejects.toThrow("isn't empty");
      await inside.unmount();
      await inside.mount();
      await inside.destroy();
      await inside.destroy();
    }
    expect(await datasets(tank)).toEqual([tank, `${tank}/theirs`]);
    await tool('zfs', 'destroy', `${tank}/theirs`);
    const whole = await make('whole', { source: tank });
    await whole.volumes.create(custom('default_v'), {});
    await whole.destroy();
    expect(await datasets(tank)).toEqual([tank]);
    for (const source of [`${tank}@s`, `${tank}/a@s`, `${tank}/a,b`, `${tank}/../x`, '-f', `${tank}/`])
      await expect(make('bad', { source })).rejects.toMatchObject({ code: 'bad-request' });
  });
});

function write(disk: string, text: string): void {
  const fd = openSync(disk, 'r+');
  writeSync(fd, Buffer.from(text.padEnd(512)));
  fsyncSync(fd);
  closeSync(fd);
}

function read(disk: string): string {
  const fd = openSync(disk, 'r');
  const bytes = Buffer.alloc(512);
  readSync(fd, bytes);
  closeSync(fd);
  return bytes.toString().replace(/[\0 ]+$/, '');
}

function transferOf({ transfer }: StoragePool): NativeTransfer {
  if (transfer === undefined) throw new Error('no transfer');
  return transfer;
}
