import { describe, expect, it } from 'vitest';
import type { PoolSpec, VolumeRef } from '../contract.ts';
import { unsupported } from './driver.ts';
import { checkedRoot, datasetOf, deletedName, userSnapshot } from './names.ts';
import {
  blockSize,
  clone,
  copyMode,
  createFileSystem,
  createZvol,
  type Dataset,
  deletionPlan,
  destroyOrder,
  parseDatasets,
  parseProperties,
  receive,
  restorePlan,
  send,
  setQuota,
} from './plan.ts';
import { StreamEnd } from './stream-end.ts';
import { mapsIds } from './shifted.ts';
import { rootDataset, settledConfig, sourceOf, zpoolOf } from './source.ts';

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

describe('names of datasets', () => {
  it.each([
    [volume('container', 'web-1'), 'tank/k/containers/web-1'],
    [{ ...volume('container', 'web-1'), snapshot: 'snap-0' }, 'tank/k/containers/web-1@snapshot-snap-0'],
    [volume('virtual-machine', 'vm', 'block'), 'tank/k/virtual-machines/vm.block'],
    [{ ...volume('custom', 'default_d', 'block'), snapshot: 's0' }, 'tank/k/custom/default_d.block@snapshot-s0'],
    [volume('custom', 'default_cd', 'iso'), 'tank/k/custom/default_cd.iso'],
    [volume('image', 'ab12'), 'tank/k/images/ab12'],
  ])('%j is %s', (ref, name) => {
    expect(datasetOf('tank/k', ref)).toBe(name);
  });

  const foreign = [
    '',
    '.',
    '..',
    'a/b',
    'a@b',
    'a#b',
    'a,b',
    'a%',
    '@s',
    'a\nb',
    'a\tb',
    'a=b',
    '{a}',
    'ä',
    'x'.repeat(201),
  ];
  it.each(foreign)('%j is refused', (name) => {
    const refused = expect.objectContaining({ code: 'bad-request' });
    expect(() => datasetOf('tank', volume('custom', name))).toThrow(refused);
    expect(() => datasetOf('tank', { ...volume('custom', 'v'), snapshot: name })).toThrow(refused);
  });

  it.each([
    '-f',
    '-',
    'tank@s',
    'tank#b',
    'tank%',
    'tank,other',
    'tank /a',
    '1tank',
    '/tank',
    'tank/',
    'tank//a',
    'tank/../a',
    'tank/.',
    'tank/a@s',
    'tank/a b\n',
    'a=b',
    'tänk',
    '',
    `tank/${'x'.repeat(200)}`,
  ])('a pool on %j is refused', (name) => {
    const refused = expect.objectContaining({ code: 'bad-request' });
    expect(() => checkedRoot('zfs.pool_name', name)).toThrow(refused);
    expect(() => rootDataset({ ...spec({}), name })).toThrow(refused);
    if (name !== '') expect(() => rootDataset(spec({ 'zfs.pool_name': name }))).toThrow(refused);
  });

  it.each(['tank', 'Tank-1.2_x:y', 'tank/k', 'tank/-k', 'tank/a b/c'])('a pool on %j is taken', (name) => {
    expect(rootDataset(spec({ 'zfs.pool_name': name }))).toBe(name);
  });

  it('start with a letter in every command, whatever volumes are called', () => {
    expect(datasetOf('tank', { ...volume('custom', '-rf'), snapshot: '-r' })).toBe('tank/custom/-rf@snapshot--r');
  });

  it('tell snapshots of users from others', () => {
    expect(userSnapshot('tank/custom/v@snapshot-snapshot-1')).toBe('snapshot-1');
    expect(['a@readonly', 'a@copy-1', 'a@deleted-1', 'a@migration-1'].map(userSnapshot)).toEqual(
      Array(4).fill(undefined),
    );
  });

  it('of deleted ones are free, and an image is found again', () => {
    expect(deletedName('tank/k', 'tank/k/containers/c1', 'id')).toBe('tank/k/deleted/containers/id');
    expect(deletedName('tank/k', 'tank/k/images/ab.block', 'id')).toBe('tank/k/deleted/images/ab.block');
  });
});

describe('commands of ZFS', () => {
  it('make file systems with a record size, volumes with a block size', () => {
    expect(createFileSystem('t/a', {})).toEqual(['zfs', 'create', '-o', 'mountpoint=legacy', 't/a']);
    expect(createFileSystem('t/a', { 'zfs.blocksize': '16KiB' })).toContain('recordsize=16384');
    expect(createZvol('t/a', 10_000, {})).toEqual(['zfs', 'create', '-s', '-o', 'volmode=dev', '-V', '16384', 't/a']);
    const reserved = createZvol('t/a', 1024 ** 3 + 1, { 'zfs.blocksize': '64KiB', 'zfs.reserve_space': 'true' });
    expect(reserved.join(' ')).toBe(`zfs create -b 65536 -o volmode=dev -V ${1024 ** 3 + 65_536} t/a`);
  });

  it.each(['513', '256', '32MiB', '3KiB', 'x'])('refuse a block size of %s', (size) => {
    expect(() => blockSize({ 'zfs.blocksize': size })).toThrow(/zfs.blocksize/);
  });

  it('limit with or without snapshots, and reserve', () => {
    const steps = (size: number | undefined, config: Record<string, string>) =>
      setQuota('t/a', size, config).map(([, verb, step]) => `${verb} ${step}`);
    const free = ['set reservation=none', 'set refreservation=none'];
    expect(steps(100, {})).toEqual([...free, 'set quota=100', 'set refquota=none']);
    expect(steps(100, { 'zfs.use_refquota': 'true', 'zfs.reserve_space': 'true' })).toEqual([
      ...free,
      'set refquota=100',
      'set quota=none',
      'set refreservation=100',
    ]);
    expect(steps(undefined, { 'zfs.reserve_space': 'true' })).toEqual([...free, 'set quota=none', 'set refquota=none']);
  });

  it('clone, send and receive', () => {
    expect(clone('t/i@readonly', 't/a', 'file system')).toEqual([
      'zfs',
      'clone',
      '-o',
      'mountpoint=legacy',
      't/i@readonly',
      't/a',
    ]);
    expect(send('t/a@s1')).toEqual(['zfs', 'send', 't/a@s1']);
    expect(send('t/a@s2', 't/a@s1')).toEqual(['zfs', 'send', '-i', 't/a@s1', 't/a@s2']);
    expect(receive('t/b', { force: true })).toEqual(['zfs', 'receive', '-u', '-F', 't/b']);
    expect(receive('t/b', { origin: 't/i@readonly' })).toEqual([
      'zfs',
      'receive',
      '-u',
      '-o',
      'origin=t/i@readonly',
      't/b',
    ]);
    expect([{}, { 'zfs.clone_copy': 'false' }, { 'zfs.clone_copy': 'rebase' }].map(copyMode)).toEqual([
      'clone',
      'full',
      'rebase',
    ]);
  });

  it('are read', () => {
    expect(parseDatasets('t\t-\nt/a\tt/i@readonly\n')).toEqual([
      { name: 't', origin: undefined },
      { name: 't/a', origin: 't/i@readonly' },
    ]);
    expect(parseProperties('used\t1024\navailable\t5\n').get('used')).toBe('1024');
  });
});

describe('deleting', () => {
  const place = { root: 't', id: 'id' };
  const plan = (datasets: readonly Dataset[], target: string, snapshots: readonly string[] = []) =>
    deletionPlan({ datasets, snapshots: new Map([[target, snapshots]]) }, target, place).map((command) =>
      command.slice(1).join(' '),
    );
  const image: Dataset = { name: 't/images/i', origin: undefined };
  const c1: Dataset = { name: 't/containers/c1', origin: 't/images/i@readonly' };

  it('takes a dataset nobody stands on with its snapshots', () => {
    expect(plan([image, c1], c1.name)).toEqual(['destroy -r t/containers/c1']);
    expect(plan([image], 't/containers/gone')).toEqual([]);
  });

  it('moves one that clones stand on aside, without the snapshots nobody needs', () => {
    expect(plan([image, c1], image.name, ['t/images/i@readonly'])).toEqual(['rename t/images/i t/deleted/images/i']);
    const copy: Dataset = { name: 't/containers/c2', origin: 't/containers/c1@copy-1' };
    expect(plan([image, c1, copy], c1.name, ['t/containers/c1@snapshot-s0', 't/containers/c1@copy-1'])).toEqual([
      'destroy t/containers/c1@snapshot-s0',
      'rename t/containers/c1 t/deleted/containers/id',
    ]);
  });

  it('takes along the deleted ones that only it kept, to the end of the chain', () => {
    const gone: Dataset = { name: 't/deleted/images/i', origin: undefined };
    const middle: Dataset = { name: 't/deleted/containers/x', origin: 't/deleted/images/i@readonly' };
    const last: Dataset = { name: 't/containers/c2', origin: 't/deleted/containers/x@copy-1' };
    expect(plan([gone, middle, last], last.name)).toEqual([
      'destroy -r t/containers/c2',
      'destroy -r t/deleted/containers/x',
      'destroy -r t/deleted/images/i',
    ]);
    const other: Dataset = { name: 't/containers/c3', origin: 't/deleted/images/i@readonly' };
    expect(plan([gone, middle, last, other], last.name)).toEqual([
      'destroy -r t/containers/c2',
      'destroy -r t/deleted/containers/x',
    ]);
  });

  it('drops the hidden snapshot of a living one when its last clone goes', () => {
    const origin = 't/containers/c1@copy-1';
    const copy: Dataset = { name: 't/containers/c2', origin };
    expect(plan([c1, copy], copy.name)).toEqual(['destroy -r t/containers/c2', `destroy ${origin}`]);
    expect(plan([c1, copy, { name: 't/containers/c3', origin }], copy.name)).toEqual(['destroy -r t/containers/c2']);
    const named: Dataset = { name: 't/containers/c2', origin: 't/containers/c1@snapshot-s0' };
    expect(plan([c1, named], named.name)).toEqual(['destroy -r t/containers/c2']);
  });

  it('leaves a deleted one that is still needed where it is', () => {
    const gone: Dataset = { name: 't/deleted/images/i', origin: undefined };
    const user: Dataset = { name: 't/containers/c', origin: 't/deleted/images/i@readonly' };
    expect(plan([gone, user], gone.name, ['t/deleted/images/i@readonly'])).toEqual([]);
    expect(plan([gone], gone.name)).toEqual(['destroy -r t/deleted/images/i']);
  });

  it('of a whole pool goes from clones to origins and from children to parents', () => {
    const order = destroyOrder([
      { name: 't/images', origin: undefined },
      image,
      { name: 't/containers', origin: undefined },
      c1,
      { name: 't/containers/c2', origin: 't/containers/c1@copy-1' },
    ]);
    const before = (first: string, second: string) => expect(order.indexOf(first)).toBeLessThan(order.indexOf(second));
    before('t/containers/c2', 't/containers/c1');
    before('t/containers/c1', 't/images/i');
    before('t/images/i', 't/images');
    before('t/containers/c1', 't/containers');
    expect(order).toHaveLength(5);
  });
});

describe('restoring', () => {
  const snapshots = ['d@snapshot-a', 'd@snapshot-b', 'd@snapshot-c'];

  it('goes back to the newest, to another only when later ones may go', () => {
    expect(restorePlan(snapshots, 'd@snapshot-c', { name: 'c', removeLater: false })).toEqual([]);
    expect(() => restorePlan(snapshots, 'd@snapshot-b', { name: 'b', removeLater: false })).toThrow(
      'Snapshot "b" cannot be restored due to subsequent snapshot(s). Set zfs.remove_snapshots to override',
    );
    expect(restorePlan(snapshots, 'd@snapshot-a', { name: 'a', removeLater: true })).toEqual(snapshots.slice(1));
  });

  it('never takes what a copy stands on', () => {
    expect(() => restorePlan([...snapshots, 'd@copy-1'], 'd@snapshot-c', { name: 'c', removeLater: true })).toThrow(
      /internal snapshot/,
    );
  });
});

describe('sources of a pool', () => {
  const settled = (config: Record<string, string>) => settledConfig(spec(config), sourceOf(spec(config)));

  it('are a loop file, a device or a dataset', () => {
    expect(settled({})).toEqual({ source: '/state/disks/pool.img', 'zfs.pool_name': 'pool' });
    expect(settled({ source: '/dev/sdx', 'zfs.pool_name': 'tank', size: '1GiB' })).toEqual({
      source: 'tank',
      'zfs.pool_name': 'tank',
      'volatile.initial_source': '/dev/sdx',
    });
    expect(sourceOf(spec(settled({ source: '/dev/sdx' })))).toEqual({ kind: 'device', device: '/dev/sdx' });
    expect(settled({ source: 'tank/keelson' })).toEqual({ source: 'tank/keelson', 'zfs.pool_name': 'tank/keelson' });
    expect(rootDataset(spec(settled({ source: 'tank/keelson' })))).toBe('tank/keelson');
    expect(zpoolOf('tank/keelson/x')).toBe('tank');
  });

  it('knows a stream that brings properties along', () => {
    for (const [kind, compound] of [
      [1n, false],
      [2n, true],
    ] as const) {
      const head = Buffer.alloc(312);
      head.writeBigUInt64LE(0x2f5bacbacn, 8);
      head.writeBigUInt64LE(kind, 16);
      const end = new StreamEnd();
      end.add(head.subarray(0, 10));
      end.add(head.subarray(10));
      expect(end.compound).toBe(compound);
    }
  });

  it('that contradict themselves are refused', () => {
    expect(() => settled({ source: 'tank', 'zfs.pool_name': 'other' })).toThrow('The source must match zfs.pool_name');
    expect(() => settled({ 'zfs.pool_name': 'tank/x' })).toThrow("zfs.pool_name can't point to a dataset");
  });
});

it('says why a host cannot run it', () => {
  expect(unsupported('2.2.6', false)).toBe('the kernel has no zfs module');
  expect(unsupported(undefined, true)).toBe('the zfs tools are not installed (zfsutils-linux)');
  expect(unsupported('0.8.3', true)).toBe('zfs 0.8.3 is too old: 2.1 or newer is needed');
  expect(['2.1.11', '2.2', '2.3.2', '3.0', undefined].map(mapsIds)).toEqual([false, true, true, true, true]);
  expect([unsupported('2.1.11', true), unsupported('2.3', true), unsupported('3.0', true)]).toEqual(
    Array(3).fill(undefined),
  );
});

describe('the end of a stream', () => {
  const record = (kind: number, big = false): Buffer => {
    const bytes = Buffer.alloc(312);
    if (big) bytes.writeUInt32BE(kind);
    else bytes.writeUInt32LE(kind);
    return bytes;
  };
  const complete = (...chunks: Buffer[]): boolean => {
    const end = new StreamEnd();
    for (const chunk of chunks) end.add(chunk);
    return end.complete;
  };

  it('is a record of that kind, however it is cut up', () => {
    const whole = Buffer.concat([record(0), record(3), record(5)]);
    expect(complete(whole)).toBe(true);
    expect(complete(whole.subarray(0, 700), whole.subarray(700, 710), whole.subarray(710))).toBe(true);
    expect(complete(record(0), record(5, true))).toBe(true);
  });

  it('is missing where something follows or lacks', () => {
    expect(complete()).toBe(false);
    expect(complete(record(5).subarray(0, 300))).toBe(false);
    expect(complete(record(0), record(3))).toBe(false);
    expect(complete(record(5), Buffer.from('more'))).toBe(false);
  });
});
