import { blockDeviceOf } from '../../../host/block-device.ts';
import type { LimitsSpec } from '../contract.ts';

type DiskLimit = LimitsSpec['disks'][number];

const RATES = ['readBps', 'readIops', 'writeBps', 'writeIops'] as const;

/** The limits with each host path replaced by the block device behind it; disks without one cannot be limited. */
export async function withBlockDevices(limits: LimitsSpec): Promise<LimitsSpec> {
  const disks: DiskLimit[] = [];
  for (const disk of limits.disks) {
    const device = disk.device.startsWith('/') ? await blockDeviceOf(disk.device) : disk.device;
    if (device !== undefined) disks.push({ ...disk, device });
  }
  return { ...limits, disks: mergeDisks(disks) };
}

/** One limit per block device: of several disks on one device the mean, as LXD has it. */
export function mergeDisks(disks: readonly DiskLimit[]): DiskLimit[] {
  const devices = [...new Set(disks.map(({ device }) => device))];
  return devices.map((device) => {
    const same = disks.filter((disk) => disk.device === device);
    const merged = RATES.flatMap((rate) => {
      const values = same.flatMap((disk) => (disk[rate] === undefined ? [] : [disk[rate]]));
      if (values.length === 0) return [];
      return [[rate, Math.floor(values.reduce((sum, value) => sum + value, 0) / values.length)] as const];
    });
    return { device, ...Object.fromEntries(merged) };
  });
}
