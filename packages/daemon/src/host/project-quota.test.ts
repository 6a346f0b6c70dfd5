import { describe, expect, it } from 'vitest';
import { parseMountInfo } from './mounts.ts';
import { decodeUse, encodeLimit, limitsProjects, mountOf } from './project-quota.ts';

const MOUNTS = parseMountInfo(
  [
    '22 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard',
    '30 22 7:0 / /srv rw - xfs /dev/loop0 rw,attr2,inode64,prjquota',
    '31 30 7:1 / /srv/pool rw - ext4 /dev/loop1 rw,prjquota',
    '32 22 7:2 / /data rw - xfs /dev/loop2 rw,usrquota,noquota',
    '33 22 0:5 / /dev rw - devtmpfs none rw,prjquota',
    '34 22 7:3 / /srv rw - btrfs /dev/loop3 rw',
  ].join('\n'),
);

describe('project quotas', () => {
  it('are found on the mount a path lies in', () => {
    const limited = (path: string) => {
      const mount = mountOf(path, MOUNTS);
      return mount !== undefined && limitsProjects(mount);
    };
    expect(mountOf('/srv/pool/custom', MOUNTS)?.id).toBe(31);
    expect(mountOf('/srv/poolish', MOUNTS)?.id).toBe(34);
    expect(mountOf('/home', MOUNTS)?.id).toBe(22);
    expect(['/srv/pool', '/srv/other', '/data/x', '/dev/x', '/'].filter(limited)).toEqual(['/srv/pool']);
  });

  it('count and limit in the units of the kernel', () => {
    expect(encodeLimit(1_000_000).readBigUInt64LE(0)).toBe(977n);
    expect(encodeLimit(undefined).readBigUInt64LE(0)).toBe(0n);
    expect(encodeLimit(1).readUInt32LE(64)).toBe(1);
    const record = encodeLimit(4096);
    record.writeBigUInt64LE(12_345n, 16);
    record.writeBigUInt64LE(3n, 40);
    expect(decodeUse(record)).toEqual({ used: 12_345, limit: 4096, files: 3 });
    expect(decodeUse(Buffer.alloc(72))).toEqual({ used: 0, limit: undefined, files: 0 });
  });
});
