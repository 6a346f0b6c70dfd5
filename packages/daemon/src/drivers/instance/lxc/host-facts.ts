import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CgroupLayout, controllerVersion } from '../../../host/cgroup.ts';
import type { HostFacts } from './config.ts';
import type { CgroupVersions } from './limits.ts';

/** Files that lxcfs may show in place of the kernel's, below its mount point. */
const LXCFS_FILES = ['cpuinfo', 'diskstats', 'loadavg', 'meminfo', 'slabinfo', 'stat', 'swaps', 'uptime'];

export function cgroupVersions(layout: CgroupLayout): CgroupVersions {
  const version = (controller: string) => controllerVersion(layout, controller);
  const memory = layout.v1.get('memory');
  const found = {
    cpu: version('cpu'),
    cpuset: version('cpuset'),
    memory: version('memory'),
    pids: version('pids'),
    blkio: layout.v1.has('blkio') ? (1 as const) : version('io'),
    devices: layout.v1.has('devices') ? (1 as const) : (2 as const),
    memorySwap: memory !== undefined && existsSync(join(memory, 'memory.memsw.limit_in_bytes')),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}

/** @param lxcfs Mount point of a running lxcfs. */
export function readHostFacts(layout: CgroupLayout, lxcfs: string | undefined): HostFacts {
  return { cgroups: cgroupVersions(layout), apparmor: appArmor(), lxcfs: lxcfsFiles(lxcfs) };
}

/** liblxc loads a generated profile with apparmor_parser; without that tool guests run unconfined by AppArmor. */
function appArmor(): HostFacts['apparmor'] {
  try {
    if (readFileSync('/sys/module/apparmor/parameters/enabled', 'utf8').trim() !== 'Y') return 'none';
  } catch {
    return 'none';
  }
  const parser = ['/sbin/apparmor_parser', '/usr/sbin/apparmor_parser'].some((path) => existsSync(path));
  return parser && existsSync('/sys/kernel/security/apparmor') ? 'generated' : 'unconfined';
}

function lxcfsFiles(path: string | undefined): HostFacts['lxcfs'] {
  if (path === undefined) return undefined;
  const entries = [...LXCFS_FILES.map((name) => `proc/${name}`), 'sys/devices/system/cpu'];
  return { path, entries: entries.filter((entry) => existsSync(join(path, entry))) };
}
