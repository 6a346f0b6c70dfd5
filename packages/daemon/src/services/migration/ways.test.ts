import { describe, expect, it } from 'vitest';
import type { NativeTransfer, VolumeRef } from '../../drivers/storage/contract.ts';
import { fallbackOf, waysOf } from './ways.ts';
import { chooseType, offerOf } from './wire/negotiate.ts';

const pool = (format?: NativeTransfer['format'], config: Record<string, string> = {}) => ({
  spec: { name: 'p', config, path: '/p', loopFile: '/p.img' },
  ...(format === undefined
    ? {}
    : { transfer: { format, send: () => Promise.reject(), receive: () => Promise.reject() } }),
});
const volume = (type: VolumeRef['type'], contentType: VolumeRef['contentType']): VolumeRef => ({
  type,
  name: 'v',
  contentType,
});
const files = volume('container', 'filesystem');
const blocks = volume('custom', 'block');
const kinds = (...[from, ref, options]: Parameters<typeof waysOf>) => waysOf(from, ref, options).map(({ fs }) => fs);

describe('ways of a volume to another server', () => {
  it('are the format of the driver, and what every server has', () => {
    const native = { native: true, trusted: true };
    expect(kinds(pool(), files, native)).toEqual(['rsync']);
    expect(kinds(pool('btrfs'), files, native)).toEqual(['btrfs', 'rsync']);
    expect(kinds(pool('btrfs'), blocks, native)).toEqual(['block-and-rsync']);
    expect(kinds(pool('rbd'), files, native)).toEqual(['rbd', 'rsync']);
    expect(kinds(pool('rbd'), blocks, native)).toEqual(['rbd', 'block-and-rsync']);
    expect(kinds(pool('rbd'), volume('virtual-machine', 'block'), native)).toEqual(['block-and-rsync']);
    expect(kinds(pool('rbd'), files, { native: false, trusted: true })).toEqual(['rsync']);
  });

  it('do not bring file systems of others to this kernel for callers that are no administrators', () => {
    expect(kinds(pool('rbd'), files, { native: true, trusted: false })).toEqual(['rsync']);
    expect(kinds(pool('rbd'), blocks, { native: true, trusted: false })).toEqual(['rbd', 'block-and-rsync']);
    expect(kinds(pool('btrfs'), files, { native: true, trusted: false })).toEqual(['btrfs', 'rsync']);
  });

  it('meet those of another server, LXD among them', () => {
    const ours = waysOf(pool('rbd'), files, { native: true, trusted: true });
    const offer = { fs: 'rbd', rsync: ['xattrs', 'delete', 'compress', 'bidirectional'] } as const;
    expect(chooseType(offer, fallbackOf(files), ours)).toEqual({ fs: 'rbd', features: [] });
    expect(offerOf(ours)).toMatchObject({ fs: 'rbd', rsync: expect.arrayContaining(['bidirectional']) });
    expect(chooseType({ fs: 'rsync' }, fallbackOf(files), ours).fs).toBe('rsync');
    expect(chooseType({ fs: 'btrfs' }, fallbackOf(files), ours).fs).toBe('rsync');
    const plain = waysOf(pool('btrfs'), files, { native: false, trusted: true });
    expect(chooseType(offer, fallbackOf(files), plain)).toEqual({
      fs: 'rsync',
      features: ['xattrs', 'delete', 'compress', 'bidirectional'],
    });
  });
});
