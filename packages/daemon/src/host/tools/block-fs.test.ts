import { expect, it } from 'vitest';
import { growCommand, identityCommand, isBlockFileSystem, makeCommand, mountOptions } from './block-fs.ts';

it('makes each kind without writing what reads as zeroes', () => {
  expect(makeCommand('/dev/x', 'ext4', { zeroed: true }).join(' ')).toContain('lazy_journal_init=1');
  expect(makeCommand('/dev/x', 'ext4', { zeroed: false }).join(' ')).toContain('lazy_journal_init=0');
  expect(makeCommand('/dev/x', 'xfs', { zeroed: true })).toEqual(['mkfs.xfs', '-q', '-K', '-f', '/dev/x']);
  expect(makeCommand('/dev/x', 'btrfs', { zeroed: true })).toEqual(['mkfs.btrfs', '-q', '-K', '-f', '/dev/x']);
});

it('grows xfs and btrfs by their mount, ext4 by its device', () => {
  expect(growCommand('/dev/x', 'ext4', undefined)).toEqual(['resize2fs', '/dev/x']);
  expect(growCommand('/dev/x', 'xfs', '/mnt')).toEqual(['xfs_growfs', '/mnt']);
  expect(growCommand('/dev/x', 'btrfs', '/mnt')).toEqual(['btrfs', 'filesystem', 'resize', 'max', '/mnt']);
  expect(() => growCommand('/dev/x', 'xfs', undefined)).toThrow('while it is mounted');
});

it('gives copies an identity of their own where the kernel asks for it', () => {
  expect(identityCommand('/dev/x', 'ext4')).toBeUndefined();
  expect(identityCommand('/dev/x', 'xfs')?.[0]).toBe('xfs_admin');
  expect(identityCommand('/dev/x', 'btrfs')?.[0]).toBe('btrfstune');
});

it('adds what a mount needs to the options asked for', () => {
  expect(mountOptions('ext4', 'discard,noatime')).toEqual(['errors=remount-ro', 'discard', 'noatime']);
  expect(mountOptions('xfs', 'noatime, ,discard ')).toEqual(['noatime', 'discard', 'nouuid']);
  expect(mountOptions('xfs', '', true)).toEqual(['nouuid', 'ro']);
  expect(['ext4', 'xfs', 'btrfs', 'ntfs'].map(isBlockFileSystem)).toEqual([true, true, true, false]);
});
