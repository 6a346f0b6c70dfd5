import { describe, expect, it } from 'vitest';
import type { PoolSpec, VolumeRef } from '../contract.ts';
import { logicalVolume, snapshotsAmong } from './names.ts';
import {
  createThinPool,
  createVolume,
  fileSystemOf,
  fileSystemTag,
  placeOf,
  renamePlace,
  resizePlan,
  resizeVolume,
  sizeOf,
  snapshotVolume,
  taggedFileSystem,
} from './plan.ts';
import { interruptedRestores, recoveryPlan, restoreTag } from './recovery.ts';
import { type LogicalVolume, groupCommand, parseDevices, parseGroup, parseVolumes } from './report.ts';
import { checkGroup, isBorrowed, loopSize, settledConfig, sourceOf, thinPoolAmong } from './source.ts';

const GIB = 1024 ** 3;
const volume = (type: VolumeRef['type'], name: string, contentType: VolumeRef['contentType'] = 'filesystem') => ({
  type,
  name,
  contentType,
});
const spec = (config: Record<string, string>): PoolSpec => ({
  name: 'pool',
  config,
  path: '/state/storage-pools/pool',
  loopFile: '/state/disks/pool.img',
});

describe('names of logical volumes', () => {
  it.each([
    [volume('container', 'web'), 'containers_web'],
    [volume('container', 'web-1'), 'containers_web--1'],
    [{ ...volume('container', 'web-1'), snapshot: 'snap-0' }, 'containers_web--1-snap--0'],
    [volume('virtual-machine', 'vm', 'block'), 'virtual-machines_vm.block'],
    [{ ...volume('custom', 'default_d', 'block'), snapshot: 's0' }, 'custom_default_d-s0.block'],
    [volume('custom', 'default_cd', 'iso'), 'custom_default_cd.iso'],
    [volume('image', 'ab12', 'block'), 'images_ab12.block'],
  ])('%j is %s', (ref, name) => {
    expect(logicalVolume(ref)).toBe(name);
  });

  it.each(['', '.', '..', 'a/b', 'a b', 'ä', '-a', 'a-', 'x'.repeat(101)])('%j is refused', (name) => {
    expect(() => logicalVolume(volume('custom', name))).toThrow(expect.objectContaining({ code: 'bad-request' }));
    expect(() => logicalVolume({ ...volume('custom', 'v'), snapshot: name })).toThrow(/Invalid snapshot name/);
  });

  it('are not what LVM keeps for itself, nor too long together', () => {
    expect(() => logicalVolume(volume('custom', 'p_tdata'))).toThrow('LVM keeps names with "_tdata" for itself');
    expect(logicalVolume(volume('custom', 'p_data'))).toBe('custom_p_data');
    const long = { ...volume('custom', 'v'.repeat(70)), snapshot: 's'.repeat(70) };
    expect(() => logicalVolume(long)).toThrow(/longer than LVM's 127 letters/);
  });

  it('tells the snapshots of a volume from those of others', () => {
    const names = [
      'containers_a',
      'containers_a-s0',
      'containers_a-s--1',
      'containers_a--b',
      'containers_a--b-s0',
      'containers_ab-s2',
      'keelson.containers_a-s0',
      'LXDThinPool',
    ];
    expect(snapshotsAmong(names, volume('container', 'a'))).toEqual(['s0', 's-1']);
    expect(snapshotsAmong(names, volume('container', 'a-b'))).toEqual(['s0']);
    const blocks = ['custom_p_v.block', 'custom_p_v-s0.block', 'custom_p_v--2-s1.block'];
    expect(snapshotsAmong(blocks, volume('custom', 'p_v', 'block'))).toEqual(['s0']);
  });
});

describe('commands of LVM', () => {
  const thin = placeOf('pool', {});
  const plain = placeOf('pool', { 'lvm.use_thinpool': 'false', 'lvm.vg_name': 'vg' });

  it('know where volumes go', () => {
    expect(thin).toEqual({ group: 'pool', thinPool: 'LXDThinPool' });
    expect(plain).toEqual({ group: 'vg', thinPool: undefined });
  });

  it.each(['-an', '--config=x', 'a/b', 'a b', '@tag', 'a,b', '.', '..', '', 'x'.repeat(128), 'ä'])(
    'go to no group and no thin pool that is called %j',
    (name) => {
      for (const key of ['lvm.vg_name', 'lvm.thinpool_name'])
        expect(() => placeOf('pool', { [key]: name })).toThrow(
          expect.objectContaining({ code: 'bad-request', message: expect.stringContaining(`"${key}"`) }),
        );
      expect(() => placeOf(name, {})).toThrow(/Invalid value for option "name"/);
    },
  );

  it('go to no thin pool that the recovery or LVM itself would take for its own', () => {
    for (const name of ['keelson.pool', 'a_tmeta', 'pvmove0', 'snapshot1'])
      expect(() => placeOf('pool', { 'lvm.thinpool_name': name })).toThrow(/reserved/);
    expect(placeOf('pool', { 'lvm.use_thinpool': 'false', 'lvm.thinpool_name': '-x' }).thinPool).toBeUndefined();
  });

  it('take what stands in the config as one word, never as another option', () => {
    const config = { 'lvm.stripes': '-2 --force', 'lvm.stripes.size': '64KiB' };
    const words = createVolume(plain, 'containers_a', GIB, config);
    expect(words.slice(words.indexOf('--stripes'), words.indexOf('--stripes') + 2)).toEqual([
      '--stripes',
      '-2 --force',
    ]);
    for (const size of ['-1GiB', '1GiB --force', '1,5GiB', '/dev/sda'])
      expect(() => sizeOf({ size })).toThrow(expect.objectContaining({ code: 'bad-request' }));
    for (const type of ['-t', 'ext4 -F', 'EXT4', '../ext4'])
      expect(() => fileSystemOf({ 'block.filesystem': type })).toThrow(/block.filesystem/);
  });

  it('make a thin pool of what is free, or of a part with its own metadata and stripes', () => {
    expect(createThinPool(thin, {}, undefined).slice(-4)).toEqual([
      '--thinpool',
      'pool/LXDThinPool',
      '--extents',
      '100%FREE',
    ]);
    const config = {
      'lvm.thinpool_metadata_size': '64MiB',
      'volume.lvm.stripes': '2',
      'volume.lvm.stripes.size': '64KiB',
    };
    expect(createThinPool(thin, config, 5 * GIB).join(' ')).toMatch(
      /--poolmetadatasize 67108864b --size 5368709120b --stripes 2 --stripesize 65536b$/,
    );
  });

  it('make thin and plain volumes of whole sectors', () => {
    expect(createVolume(thin, 'containers_a', 1000, { 'lvm.stripes': '2' }).slice(-4)).toEqual([
      '--thin',
      '--virtualsize',
      '1024b',
      'pool/LXDThinPool',
    ]);
    expect(createVolume(plain, 'containers_a', GIB, { 'lvm.stripes': '2' }).slice(-5)).toEqual([
      '--size',
      '1073741824b',
      '--stripes',
      '2',
      'vg',
    ]);
  });

  it('make snapshots that are not activated by themselves', () => {
    const of = (place: typeof thin, activate: boolean) =>
      snapshotVolume(place, { from: 'a', name: 'b', readOnly: !activate, activate }).join(' ');
    expect(of(thin, false)).toMatch(/--setactivationskip y --permission r pool\/a$/);
    expect(of(thin, true)).toMatch(/--ignoreactivationskip --permission rw pool\/a$/);
    expect(of(plain, true)).toMatch(/--extents 100%ORIGIN --permission rw vg\/a$/);
  });

  it('rename the thin pool before the group', () => {
    expect(renamePlace(thin, { group: 'new', thinPool: 'tp' })).toEqual([
      ['lvrename', 'pool', 'LXDThinPool', 'tp'],
      ['vgrename', 'pool', 'new'],
    ]);
    expect(renamePlace(plain, plain)).toEqual([]);
  });

  it('take sizes from the config', () => {
    expect(sizeOf({})).toBe(10 * GIB);
    expect(sizeOf({ size: '0' })).toBe(10 * GIB);
    expect(sizeOf({ size: '20GiB' })).toBe(20 * GIB);
    expect(() => sizeOf({ size: 'much' })).toThrow(/option "size"/);
    expect(fileSystemOf({})).toBe('ext4');
    expect(() => fileSystemOf({ 'block.filesystem': 'ntfs' })).toThrow(/block.filesystem/);
    expect(resizeVolume(thin, 'a', 5).at(-2)).toBe('512b');
    expect(taggedFileSystem(['keelson', fileSystemTag('xfs')])).toBe('xfs');
    expect(taggedFileSystem(['keelson'])).toBeUndefined();
  });
});

describe('a change of size', () => {
  const plan = (wanted: number, fileSystem?: 'ext4' | 'xfs' | 'btrfs', mounted = false) =>
    resizePlan({ name: 'v', current: GIB, wanted, fileSystem, mounted });

  it('grows everything, mounted or not', () => {
    expect([plan(2 * GIB), plan(2 * GIB, 'xfs', true), plan(2 * GIB, 'ext4')]).toEqual(['grow', 'grow', 'grow']);
  });

  it('is nothing within one extent', () => {
    expect([plan(GIB), plan(GIB - 1024 ** 2, 'xfs', true)]).toEqual(['nothing', 'nothing']);
  });

  it('shrinks only an ext4 that nobody uses', () => {
    expect(plan(GIB / 2, 'ext4')).toBe('shrink');
    expect(() => plan(GIB / 2, 'ext4', true)).toThrow(/while it is in use/);
    expect(() => plan(GIB / 2, 'xfs')).toThrow(/xfs file system cannot be shrunk/);
    expect(() => plan(GIB / 2)).toThrow('Block volumes cannot be shrunk');
  });
});

describe('reports of LVM', () => {
  // As LVM 2.03.16 prints them.
  const row = (values: Record<string, string>) => JSON.stringify({ report: [{ lv: [values] }] });

  it('are read', () => {
    const thin = {
      lv_name: 'containers_a',
      lv_size: '1073741824',
      pool_lv: 'LXDThinPool',
      origin: 'images_x',
      data_percent: '12.50',
      metadata_percent: '',
      lv_attr: 'Vwi-aotz-k',
      lv_tags: 'keelson,other',
    };
    expect(parseVolumes(row(thin))).toEqual([
      {
        name: 'containers_a',
        size: GIB,
        pool: 'LXDThinPool',
        origin: 'images_x',
        used: 12.5,
        metadata: undefined,
        tags: ['keelson', 'other'],
        kind: 'thin',
      },
    ]);
    const plain = { ...thin, data_percent: '', lv_attr: '-wi-------', lv_tags: '' };
    expect(parseVolumes(row(plain))[0]).toMatchObject({ used: undefined, kind: 'plain', tags: [] });
    const pool = { ...thin, metadata_percent: '10.94', lv_attr: 'twi-aotz--' };
    expect(parseVolumes(row(pool))[0]).toMatchObject({ kind: 'thin-pool', used: 12.5, metadata: 10.94 });
    expect(parseVolumes(row({ ...thin, lv_attr: 'swi-a-s---' }))[0]).toMatchObject({ kind: 'snapshot' });
  });

  it('of groups too', () => {
    const vg = { vg_name: 'vg', vg_size: '1073741824', vg_free: '4194304', vg_tags: 'keelson_pool', lv_count: '3' };
    expect(parseGroup(JSON.stringify({ report: [{ vg: [vg] }] }))).toEqual({
      name: 'vg',
      size: GIB,
      free: 4 * 1024 ** 2,
      tags: ['keelson_pool'],
      volumes: 3,
    });
    expect(parseGroup('{"report":[{"vg":[]}]}')).toBeUndefined();
    const device = { pv_name: '/dev/loop0', pe_start: '1048576', pv_size: '264241152', dev_size: '268435456' };
    const missing = { pv_name: '[unknown]', pe_start: '1048576', pv_size: '264241152', dev_size: '0' };
    expect(parseDevices(JSON.stringify({ report: [{ vg: [device, missing] }] }))).toEqual([
      { name: '/dev/loop0', needed: 265_289_728, size: 268_435_456 },
      { name: '[unknown]', needed: 265_289_728, size: 0 },
    ]);
    expect(groupCommand('vg')).toContain('json');
  });
});

describe('sources of a pool', () => {
  it('are a loop file, a device or a volume group', () => {
    const loop = spec({});
    expect(sourceOf(loop)).toEqual({ kind: 'loop', file: loop.loopFile });
    expect(settledConfig(loop, sourceOf(loop))).toEqual({
      source: loop.loopFile,
      'lvm.vg_name': 'pool',
      'lvm.thinpool_name': 'LXDThinPool',
    });
    const device = spec({ source: '/dev/sdx', 'lvm.vg_name': 'vg' });
    const stored = settledConfig(device, sourceOf(device));
    expect(stored).toMatchObject({ source: 'vg', 'lvm.vg_name': 'vg', 'volatile.initial_source': '/dev/sdx' });
    expect(sourceOf(spec(stored))).toEqual({ kind: 'device', device: '/dev/sdx' });
    const group = spec({ source: 'vg', 'lvm.use_thinpool': 'false' });
    expect(settledConfig(group, sourceOf(group))).toEqual({
      source: 'vg',
      'lvm.vg_name': 'vg',
      'lvm.use_thinpool': 'false',
      'volatile.initial_source': 'vg',
    });
    expect([loop, device, group].map(isBorrowed)).toEqual([false, false, true]);
  });

  it('that contradict themselves are refused', () => {
    const refused = (config: Record<string, string>) => () => settledConfig(spec(config), sourceOf(spec(config)));
    expect(refused({ source: 'vg', 'lvm.vg_name': 'other' })).toThrow('Invalid combination of source and lvm.vg_name');
    expect(refused({ source: 'vg', size: '1GiB', 'lvm.use_thinpool': 'false' })).toThrow(/existing volume group/);
    expect(refused({ source: '/dev/sdx', size: '1GiB', 'lvm.use_thinpool': 'false' })).toThrow(/physical device/);
  });

  it('have a size that fits', async () => {
    expect(await loopSize({ size: '1GiB' }, '/')).toBe(GIB);
    await expect(loopSize({ size: '1MiB' }, '/')).rejects.toMatchObject({ code: 'bad-request' });
    expect(await loopSize({}, '/')).toBeGreaterThanOrEqual(5 * GIB);
  });

  it('belong to nobody else', () => {
    const pool = {
      name: 'LXDThinPool',
      size: GIB,
      pool: '',
      origin: '',
      used: 0,
      metadata: 0,
      tags: [],
      kind: 'thin-pool',
    } as const;
    const other = { ...pool, name: 'home', kind: 'plain' } as const;
    const group = (tags: string[] = []) => ({ name: 'vg', size: GIB, free: 0, tags, volumes: 1 });
    const check = (config: Record<string, string>, found: Parameters<typeof checkGroup>[2]) => () => {
      const settled = { ...spec(config), config: settledConfig(spec(config), sourceOf(spec(config))) };
      checkGroup(settled, sourceOf(spec(config)), found);
    };
    expect(check({ source: 'vg' }, undefined)).toThrow('The requested volume group "vg" does not exist');
    expect(check({ source: 'vg' }, { group: group(), volumes: [] })).not.toThrow();
    expect(check({ source: 'vg' }, { group: group(), volumes: [pool] })).not.toThrow();
    expect(check({ source: 'vg', size: '1GiB' }, { group: group(), volumes: [pool] })).toThrow(/existing thin pool/);
    expect(check({ source: 'vg' }, { group: group(), volumes: [pool, other] })).toThrow('"vg" is not empty');
    expect(check({ source: 'vg' }, { group: group(['lxd_pool']), volumes: [] })).toThrow(/already used/);
    const forced = { source: 'vg', 'lvm.vg.force_reuse': 'true' };
    expect(check(forced, { group: group(['lxd_pool']), volumes: [pool, other] })).not.toThrow();
    expect(check({}, { group: group(), volumes: [] })).toThrow('A volume group already exists called "pool"');
    expect(() => thinPoolAmong({ 'lvm.thinpool_name': 'home' }, [other])).toThrow('is not a thin pool');
  });
});

describe('recovery', () => {
  it('removes what was half made', () => {
    expect(recoveryPlan(['keelson.0123', 'containers_a', 'keelson.containers_a-s0'])).toEqual({
      renames: [],
      remove: ['keelson.0123', 'keelson.containers_a-s0'],
    });
  });

  it('completes a restore wherever it was cut off', () => {
    const [old, fresh] = ['keelson.old.custom_v', 'keelson.new.custom_v'];
    expect(recoveryPlan([fresh, 'custom_v'])).toEqual({ renames: [], remove: [fresh] });
    expect(recoveryPlan([old, fresh])).toEqual({ renames: [{ from: fresh, to: 'custom_v' }], remove: [old] });
    expect(recoveryPlan([old])).toEqual({ renames: [{ from: old, to: 'custom_v' }], remove: [] });
    expect(recoveryPlan([old, 'custom_v'])).toEqual({ renames: [], remove: [old] });
  });

  it('does a restore of a plain volume again that was cut off, where its snapshot is still there', () => {
    const lv = (name: string, ...tags: string[]): LogicalVolume => ({
      ...{ name, size: GIB, pool: '', origin: '', used: undefined, metadata: undefined },
      ...{ tags: ['keelson', ...tags], kind: 'plain' },
    });
    const known = [volume('custom', 'v'), volume('custom', 'w-1'), volume('custom', 'x')];
    const found = [
      lv('custom_v', restoreTag('s-0')),
      lv('custom_v-s--0'),
      lv('custom_w--1', restoreTag('gone')),
      lv('custom_x'),
      lv('custom_foreign', restoreTag('s-0')),
    ];
    expect(interruptedRestores(found, known)).toEqual([{ volume: known[0], snapshot: 's-0' }]);
    expect(interruptedRestores([lv('custom_x')], [volume('custom', 'no name')])).toEqual([]);
  });
});
