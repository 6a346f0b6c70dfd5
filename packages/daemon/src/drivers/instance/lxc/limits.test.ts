import { describe, expect, it } from 'vitest';
import { type CgroupSetting, type CgroupVersions, limitSettings, liveSettings } from './limits.ts';
import { noLimits as none } from './no-limits.test-data.ts';

const v1: CgroupVersions = { cpu: 1, cpuset: 1, memory: 1, pids: 1, blkio: 1, memorySwap: true };
const v2: CgroupVersions = { cpu: 2, cpuset: 2, memory: 2, pids: 2, blkio: 2 };

const text = (settings: readonly CgroupSetting[]): string[] => settings.map((one) => `${one.file} ${one.value}`);

describe('limitSettings', () => {
  it('sets nothing without limits, and nothing the host cannot', () => {
    expect(limitSettings(none, v1)).toEqual([]);
    expect(limitSettings({ ...none, memory: 1, processes: 1, cpus: [0], cpuPriority: 1 }, {})).toEqual([]);
  });

  it('limits memory', () => {
    const memory = 1000;
    expect(text(limitSettings({ ...none, memory }, v1))).toEqual([
      'memory.limit_in_bytes 1000',
      'memory.memsw.limit_in_bytes 1000',
      'memory.soft_limit_in_bytes 900',
    ]);
    expect(text(limitSettings({ ...none, memory, memorySwap: false }, v2))).toEqual([
      'memory.max 1000',
      'memory.high 900',
      'memory.swap.max 0',
    ]);
    expect(text(limitSettings({ ...none, memory, memoryEnforce: 'soft' }, v1))).toEqual([
      'memory.soft_limit_in_bytes 1000',
    ]);
    expect(text(limitSettings({ ...none, memorySwap: false }, v1))).toEqual(['memory.swappiness 0']);
  });

  it('turns allowance and priority into a weight or a quota', () => {
    expect(text(limitSettings({ ...none, cpuAllowance: { percent: 50 }, cpuPriority: 5 }, v1))).toEqual([
      'cpu.shares 507',
    ]);
    expect(text(limitSettings({ ...none, cpuPriority: 0, cpuAllowance: { percent: 1 } }, v2))).toEqual([
      'cpu.weight 1',
    ]);
    const hard = { ...none, cpuAllowance: { quota: 25_000, period: 100_000 } };
    expect(text(limitSettings(hard, v1))).toEqual(['cpu.cfs_period_us 100000', 'cpu.cfs_quota_us 25000']);
    expect(text(limitSettings(hard, v2))).toEqual(['cpu.max 25000 100000']);
    expect(text(limitSettings({ ...none, cpus: [0, 3] }, v2))).toEqual(['cpuset.cpus 0,3']);
  });

  it('throttles disks', () => {
    const disks = [{ device: '8:0', readBps: 10, writeIops: 5 }];
    expect(text(limitSettings({ ...none, disks }, v1))).toEqual([
      'blkio.throttle.read_bps_device 8:0 10',
      'blkio.throttle.write_iops_device 8:0 5',
    ]);
    expect(text(limitSettings({ ...none, disks }, v2))).toEqual(['io.max 8:0 rbps=10 riops=max wbps=max wiops=5']);
  });
});

describe('liveSettings', () => {
  const current = { allCpus: '0-3', throttled: ['8:0'] };

  it('lifts what is not limited any more and writes the rest once', () => {
    const settings = text(liveSettings({ ...none, processes: 9 }, v2, current));
    expect(settings).toEqual([
      ...['memory.max max', 'memory.high max', 'memory.swap.max max', 'cpu.weight 100', 'cpu.max max 100000'],
      ...['cpuset.cpus 0-3', 'io.max 8:0 rbps=max wbps=max riops=max wiops=max', 'pids.max 9'],
    ]);
  });

  it('never asks version 1 for less memory with swap than memory alone', () => {
    const files = text(liveSettings({ ...none, memory: 5 }, v1, { allCpus: '', throttled: [] })).filter((one) =>
      /limit_in_bytes/.test(one),
    );
    expect(files).toEqual([
      'memory.memsw.limit_in_bytes -1',
      'memory.limit_in_bytes 5',
      'memory.memsw.limit_in_bytes 5',
      'memory.soft_limit_in_bytes 4',
    ]);
  });

  it('keeps a throttle that stays', () => {
    const disks = [{ device: '8:0', readBps: 10 }];
    const settings = text(liveSettings({ ...none, disks }, v1, current)).filter((one) => one.includes('8:0'));
    expect(settings).toEqual([
      'blkio.throttle.read_iops_device 8:0 0',
      'blkio.throttle.write_bps_device 8:0 0',
      'blkio.throttle.write_iops_device 8:0 0',
      'blkio.throttle.read_bps_device 8:0 10',
    ]);
  });
});
