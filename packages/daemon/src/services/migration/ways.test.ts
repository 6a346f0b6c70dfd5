import { describe, expect, it } from 'vitest';
import type { NativeTransfer, VolumeRef } from '../../drivers/storage/contract.ts';
import { parentsOf } from './session.ts';
import { fallbackOf, knownOf, waysOf } from './ways.ts';
import type { WireSnapshot } from './wire/messages.ts';
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

describe('a refresh', () => {
  const snapshot = (name: string, identities?: readonly string[]): WireSnapshot => ({
    ...{ name, identities, config: {}, profiles: [], ephemeral: false, devices: {}, architecture: 2, stateful: false },
    ...{ createdAt: 0, lastUsedAt: 0, expiresAt: 0 },
  });

  it('builds on what has the same name and the same content', () => {
    const here = new Map([
      ['s0', ['a:1', 'a:7']],
      ['s1', ['b:1']],
      ['s2', ['c:1']],
    ]);
    const offered = [snapshot('s0', ['x:9', 'a:7']), snapshot('s1', ['b:2']), snapshot('s2'), snapshot('s3', ['c:1'])];
    expect(knownOf(offered, here)).toEqual(['s0']);
    expect(knownOf(offered, undefined)).toEqual([]);
  });

  it('takes each state as a difference from the nearest earlier one that is there', () => {
    const names = ['s0', 's1', 's2', 's3'];
    expect([...parentsOf(names, new Set(['s0', 's3']))]).toEqual([
      ['s1', 's0'],
      ['s2', 's0'],
      ['s3', 's0'],
      [undefined, 's3'],
    ]);
    expect([...parentsOf(names, new Set())]).toEqual([]);
    expect(parentsOf([], new Set()).get(undefined)).toBeUndefined();
  });
});
