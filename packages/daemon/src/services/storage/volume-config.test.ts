import { describe, expect, it } from 'vitest';
import type { VolumeRef } from '../../drivers/storage/contract.ts';
import { driverKeys, goneSnapshots, volumeDefaults } from './volume-config.ts';

const volume: VolumeRef = { type: 'custom', name: 'default_v', contentType: 'filesystem' };

it('a pool gives its volumes the keys they may have, without the prefix', () => {
  const config = {
    'volume.size': '1GiB',
    'volume.block.filesystem': 'xfs',
    'volume.security.shifted': 'true',
    'volume.zfs.blocksize': '8KiB',
    'lvm.vg_name': 'vg',
    source: 'vg',
  };
  expect(volumeDefaults({ driver: 'lvm', config }, 'filesystem')).toEqual({
    size: '1GiB',
    'block.filesystem': 'xfs',
    'security.shifted': 'true',
  });
  expect(volumeDefaults({ driver: 'lvm', config }, 'block')).not.toHaveProperty('security.shifted');
  expect(volumeDefaults({ driver: 'dir', config: { 'volume.clone': 'copy' } }, 'filesystem')).toEqual({});
});

it('a root keeps what its kind of pool decides when it is made', () => {
  const config = { size: '1GiB', 'block.filesystem': 'xfs', 'lvm.stripes': '2', 'zfs.blocksize': '8KiB' };
  expect(driverKeys('lvm', config)).toEqual({ 'block.filesystem': 'xfs', 'lvm.stripes': '2' });
  expect(driverKeys('zfs', config)).toEqual({ 'zfs.blocksize': '8KiB' });
  expect(driverKeys('btrfs', config)).toEqual({});
});

describe('after a restore', () => {
  const gone = (config: Record<string, string>) => {
    const snapshots = { list: () => Promise.resolve(['a']) };
    return goneSnapshots({ snapshots }, volume, config, [{ name: 'a' }, { name: 'b' }]);
  };

  it('the later snapshots are gone where the volume says so', async () => {
    expect(await gone({ 'zfs.remove_snapshots': 'true' })).toEqual([{ name: 'b' }]);
    expect(await gone({ 'zfs.remove_snapshots': 'false' })).toEqual([]);
    expect(await gone({})).toEqual([]);
  });
});
