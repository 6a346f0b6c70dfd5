import { existsSync, readFileSync } from 'node:fs';
import { access, stat } from 'node:fs/promises';
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

export function readHostFacts(layout: CgroupLayout, lxcfs: HostFacts['lxcfs']): HostFacts {
  return { cgroups: cgroupVersions(layout), apparmor: appArmor(), lxcfs };
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

/**
 * What the running lxcfs shows, asked once for each of its mounts: every question is a trip to its process, which a
 * busy host may keep waiting.
 */
export class LxcfsFiles {
  #known: { readonly mount: string; readonly entries: readonly string[] } | undefined;

  /** @param path Mount point of a running lxcfs. */
  async at(path: string): Promise<HostFacts['lxcfs']> {
    const { dev } = await stat(path);
    const mount = `${path} ${dev}`;
    if (this.#known?.mount !== mount) this.#known = { mount, entries: await shownEntries(path) };
    return { path, entries: this.#known.entries };
  }
}

async function shownEntries(path: string): Promise<string[]> {
  const entries = [...LXCFS_FILES.map((name) => `proc/${name}`), 'sys/devices/system/cpu'];
  const shown = await Promise.all(
    entries.map((entry) =>
      access(join(path, entry)).then(
        () => true,
        () => false,
      ),
    ),
  );
  return entries.filter((_, index) => shown[index]);
}
