import type { LimitsSpec } from '../contract.ts';

/** Version of the cgroup interface that drives each controller; absent = the host has no such controller. */
export interface CgroupVersions {
  readonly cpu?: 1 | 2;
  readonly cpuset?: 1 | 2;
  readonly memory?: 1 | 2;
  readonly pids?: 1 | 2;
  readonly blkio?: 1 | 2;
  readonly devices?: 1 | 2;
  /** Version 1 accounts swap (`memory.memsw.*` exists). */
  readonly memorySwap?: boolean;
}

/** One value for one cgroup file. `optional`: a host whose kernel lacks the file is good enough. */
export interface CgroupSetting {
  readonly controller: 'cpu' | 'cpuset' | 'memory' | 'pids' | 'blkio' | 'io' | 'devices';
  readonly version: 1 | 2;
  readonly file: string;
  readonly value: string;
  readonly optional?: boolean;
}

const setting = (
  controller: CgroupSetting['controller'],
  version: 1 | 2,
  [file, value]: readonly [file: string, value: string | number],
  optional = false,
): CgroupSetting => ({ controller, version, file, value: String(value), ...(optional ? { optional } : {}) });

/** Settings for the limits that are set; nothing for those that are not. */
export function limitSettings(limits: LimitsSpec, versions: CgroupVersions): CgroupSetting[] {
  return [
    ...memorySettings(limits, versions),
    ...cpuSettings(limits, versions),
    ...processSettings(limits, versions),
    ...diskSettings(limits, versions),
  ];
}

function memorySettings(limits: LimitsSpec, versions: CgroupVersions): CgroupSetting[] {
  const version = versions.memory;
  if (version === undefined) return [];
  const settings: CgroupSetting[] = [];
  const { memory } = limits;
  if (memory !== undefined && limits.memoryEnforce === 'soft') {
    settings.push(setting('memory', version, [version === 1 ? 'memory.soft_limit_in_bytes' : 'memory.high', memory]));
  } else if (memory !== undefined) {
    // Below the hard limit the kernel already reclaims, so that a guest slows down before it is killed.
    const soft = Math.floor(memory * 0.9);
    if (version === 2) {
      settings.push(setting('memory', 2, ['memory.max', memory]), setting('memory', 2, ['memory.high', soft]));
    } else {
      settings.push(setting('memory', 1, ['memory.limit_in_bytes', memory]));
      if (versions.memorySwap === true && limits.memorySwap)
        settings.push(setting('memory', 1, ['memory.memsw.limit_in_bytes', memory], true));
      settings.push(setting('memory', 1, ['memory.soft_limit_in_bytes', soft]));
    }
  }
  if (!limits.memorySwap)
    settings.push(setting('memory', version, [version === 1 ? 'memory.swappiness' : 'memory.swap.max', 0], true));
  return settings;
}

/** Weight on version 1's scale of 1024 or version 2's of 100: the allowance's share, less the steps below top priority. */
export function cpuWeight(limits: LimitsSpec, version: 1 | 2): number | undefined {
  const full = version === 1 ? 1024 : 100;
  const allowance = limits.cpuAllowance;
  const share = allowance !== undefined && 'percent' in allowance ? Math.floor((full * allowance.percent) / 100) : full;
  const weight = share - (10 - (limits.cpuPriority ?? 10));
  return weight === full ? undefined : Math.max(version === 1 ? 2 : 1, weight);
}

function cpuSettings(limits: LimitsSpec, versions: CgroupVersions): CgroupSetting[] {
  const settings: CgroupSetting[] = [];
  const version = versions.cpu;
  if (version !== undefined) {
    const weight = cpuWeight(limits, version);
    if (weight !== undefined) settings.push(setting('cpu', version, [weightFile(version), weight]));
    const allowance = limits.cpuAllowance;
    if (allowance !== undefined && 'quota' in allowance) settings.push(...quotaSettings(allowance, version));
  }
  if (versions.cpuset !== undefined && limits.cpus !== undefined && limits.cpus.length > 0)
    settings.push(setting('cpuset', versions.cpuset, ['cpuset.cpus', limits.cpus.join(',')]));
  return settings;
}

const weightFile = (version: 1 | 2): string => (version === 1 ? 'cpu.shares' : 'cpu.weight');

function quotaSettings(allowance: { quota: number; period: number }, version: 1 | 2): CgroupSetting[] {
  if (version === 2) return [setting('cpu', 2, ['cpu.max', `${allowance.quota} ${allowance.period}`])];
  return [
    setting('cpu', 1, ['cpu.cfs_period_us', allowance.period]),
    setting('cpu', 1, ['cpu.cfs_quota_us', allowance.quota]),
  ];
}

function processSettings(limits: LimitsSpec, versions: CgroupVersions): CgroupSetting[] {
  if (versions.pids === undefined || limits.processes === undefined) return [];
  return [setting('pids', versions.pids, ['pids.max', limits.processes])];
}

const V1_THROTTLE = {
  readBps: 'blkio.throttle.read_bps_device',
  readIops: 'blkio.throttle.read_iops_device',
  writeBps: 'blkio.throttle.write_bps_device',
  writeIops: 'blkio.throttle.write_iops_device',
} as const;
const V2_THROTTLE = { readBps: 'rbps', readIops: 'riops', writeBps: 'wbps', writeIops: 'wiops' } as const;
const THROTTLES = ['readBps', 'readIops', 'writeBps', 'writeIops'] as const;

function diskSettings(limits: LimitsSpec, versions: CgroupVersions): CgroupSetting[] {
  const version = versions.blkio;
  if (version === undefined) return [];
  return limits.disks.flatMap((disk) => {
    const set = THROTTLES.filter((name) => disk[name] !== undefined);
    if (set.length === 0) return [];
    if (version === 1)
      return set.map((name) => setting('blkio', 1, [V1_THROTTLE[name], `${disk.device} ${disk[name]}`]));
    // All of them: what a line leaves out stays as it was.
    const words = THROTTLES.map((name) => `${V2_THROTTLE[name]}=${disk[name] ?? 'max'}`);
    return [setting('io', 2, ['io.max', `${disk.device} ${words.join(' ')}`])];
  });
}

/**
 * Writes that bring a running guest from any earlier limits to these: what is no longer limited goes back to "no
 * limit", everything else straight to its value.
 * `current.throttled`: devices that have a throttle now (`major:minor`).
 */
export function liveSettings(
  limits: LimitsSpec,
  versions: CgroupVersions,
  current: { readonly allCpus: string; readonly throttled: readonly string[] },
): CgroupSetting[] {
  const wanted = limitSettings(limits, versions);
  const place = ({ controller, file, value }: CgroupSetting): string =>
    controller === 'blkio' || controller === 'io' ? `${file} ${value.split(' ')[0]}` : file;
  const places = new Set(wanted.map(place));
  // Version 1 holds "memory and swap" at or above "memory" at every moment: lift it while the other changes.
  const lift = (one: CgroupSetting): boolean => one.file === 'memory.memsw.limit_in_bytes';
  return [...resetSettings(versions, current).filter((one) => lift(one) || !places.has(place(one))), ...wanted];
}

function resetSettings(
  versions: CgroupVersions,
  current: { readonly allCpus: string; readonly throttled: readonly string[] },
): CgroupSetting[] {
  const all: CgroupSetting[] = [];
  if (versions.memory === 1) {
    if (versions.memorySwap === true) all.push(setting('memory', 1, ['memory.memsw.limit_in_bytes', -1], true));
    all.push(
      setting('memory', 1, ['memory.limit_in_bytes', -1]),
      setting('memory', 1, ['memory.soft_limit_in_bytes', -1]),
    );
    all.push(setting('memory', 1, ['memory.swappiness', 60], true));
  } else if (versions.memory === 2) {
    all.push(setting('memory', 2, ['memory.max', 'max']), setting('memory', 2, ['memory.high', 'max']));
    all.push(setting('memory', 2, ['memory.swap.max', 'max'], true));
  }
  if (versions.cpu === 1)
    all.push(setting('cpu', 1, ['cpu.shares', 1024]), setting('cpu', 1, ['cpu.cfs_quota_us', -1]));
  if (versions.cpu === 2)
    all.push(setting('cpu', 2, ['cpu.weight', 100]), setting('cpu', 2, ['cpu.max', 'max 100000']));
  if (versions.cpuset !== undefined && current.allCpus !== '')
    all.push(setting('cpuset', versions.cpuset, ['cpuset.cpus', current.allCpus]));
  if (versions.pids !== undefined) all.push(setting('pids', versions.pids, ['pids.max', 'max']));
  for (const device of current.throttled) {
    if (versions.blkio === 1)
      all.push(...THROTTLES.map((name) => setting('blkio', 1, [V1_THROTTLE[name], `${device} 0`])));
    if (versions.blkio === 2) all.push(setting('io', 2, ['io.max', `${device} rbps=max wbps=max riops=max wiops=max`]));
  }
  return all;
}
