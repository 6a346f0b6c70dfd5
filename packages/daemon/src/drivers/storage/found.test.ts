import { describe, expect, it } from 'vitest';
import { volumeOfImage } from './ceph/found.ts';
import { thinPoolIn } from './lvm/adopt.ts';
import { volumeOfName, volumesAmong } from './lvm/found.ts';
import { logicalVolume } from './lvm/names.ts';
import type { LogicalVolume } from './lvm/report.ts';
import { volumeOfDataset } from './zfs/found.ts';
import { NOTES_VOLUME } from './common/volume-notes.ts';

const fingerprint = 'f'.repeat(64);
const container = (name: string) => ({ type: 'container', name, contentType: 'filesystem' });
const machine = (name: string) => ({ type: 'virtual-machine', name, contentType: 'block' });
const custom = (name: string, contentType = 'filesystem') => ({ type: 'custom', name, contentType });
const image = (contentType = 'filesystem') => ({ type: 'image', name: fingerprint, contentType });

describe('what a name on a pool stands for', () => {
  it.each([
    ['container_c1', container('c1')],
    ['container_proj_c1', container('proj_c1')],
    ['container_c1.block', container('c1.block')],
    ['virtual-machine_v1.block', machine('v1')],
    ['virtual-machine_v1', undefined],
    ['custom_default_v', custom('default_v')],
    ['custom_default_v.block', custom('default_v', 'block')],
    ['custom_default_v.iso', custom('default_v', 'iso')],
    [`image_${fingerprint}_ext4`, image()],
    [`image_${fingerprint}_xfs.block`, image('block')],
    [`image_${fingerprint}_zfs`, undefined],
    ['container_..', undefined],
    ['container_', undefined],
    [`container_${'x'.repeat(300)}`, undefined],
    ['zombie_image_x', undefined],
    ['lxd_pool', undefined],
    ['new_0123', undefined],
    ['home', undefined],
  ])('RBD image %s', (name, volume) => {
    expect(volumeOfImage(name)).toEqual(volume);
  });

  it.each([
    ['containers_c1', container('c1')],
    ['containers_web--1', container('web-1')],
    ['containers_web--1-snap--0', { ...container('web-1'), snapshot: 'snap-0' }],
    ['containers_a----b', container('a--b')],
    ['containers_a---b', undefined],
    ['containers_-a', undefined],
    ['containers_..', undefined],
    ['virtual-machines_v1-s0.block', { ...machine('v1'), snapshot: 's0' }],
    ['virtual-machines_v1', undefined],
    ['custom_default_v-s0', { ...custom('default_v'), snapshot: 's0' }],
    ['custom_default_v.block', custom('default_v', 'block')],
    ['custom_default_v-s0.iso', { ...custom('default_v', 'iso'), snapshot: 's0' }],
    [`images_${fingerprint}`, image()],
    ['LXDThinPool', undefined],
    ['keelson.new.containers_c1', undefined],
    ['home', undefined],
    [logicalVolume(NOTES_VOLUME), undefined],
  ])('logical volume %s', (name, volume) => {
    expect(volumeOfName(name)).toEqual(volume);
  });

  it('gives logical volumes their snapshots', () => {
    const names = ['containers_c1-s1', 'containers_c1', 'containers_c1--x', 'containers_c1-s0', 'containers_gone-s0'];
    expect(volumesAmong(names)).toEqual([
      { volume: container('c1'), snapshots: ['s0', 's1'] },
      { volume: container('c1-x'), snapshots: [] },
    ]);
  });

  it.each([
    ['tank/lxd/containers/c1', container('c1')],
    ['tank/lxd/containers/proj_c1', container('proj_c1')],
    ['tank/lxd/containers/c1/inner', undefined],
    ['tank/lxd/containers', undefined],
    ['tank/lxd/virtual-machines/v1.block', machine('v1')],
    ['tank/lxd/virtual-machines/v1', undefined],
    ['tank/lxd/custom/default_v', custom('default_v')],
    ['tank/lxd/custom/default_v.block', custom('default_v', 'block')],
    [`tank/lxd/images/${fingerprint}`, image()],
    ['tank/lxd/deleted/containers/0123', undefined],
    ['tank/other/containers/c1', undefined],
    ['tank/lxd2/containers/c1', undefined],
  ])('dataset %s', (name, volume) => {
    expect(volumeOfDataset('tank/lxd', name)).toEqual(volume);
  });
});

describe('the thin pool of a volume group', () => {
  const group = (...names: string[]) =>
    [...names.map((name) => ({ name, kind: 'thin-pool' })), { name: 'home', kind: 'plain' }] as LogicalVolume[];

  it('is the only one, the usual one, or the one that is named', () => {
    expect(thinPoolIn(group('thin'), {})).toBe('thin');
    expect(thinPoolIn(group('a', 'LXDThinPool'), {})).toBe('LXDThinPool');
    expect(thinPoolIn(group('a', 'b'), { 'lvm.thinpool_name': 'b' })).toBe('b');
    expect(thinPoolIn(group(), {})).toBeUndefined();
    expect(thinPoolIn(group('a'), { 'lvm.use_thinpool': 'false' })).toBeUndefined();
  });

  it.each([
    [['a', 'b'], {}],
    [['a'], { 'lvm.thinpool_name': 'b' }],
    [[], { 'lvm.use_thinpool': 'true' }],
  ])('of %j with %j has to be named', (names, config) => {
    expect(() => thinPoolIn(group(...names), config as Record<string, string>)).toThrow('does not exist');
  });
});
