import type { Cgroup } from '../../../host/cgroup.ts';
import type { LinkInfo, NetworkNamespaces } from '../../../host/netlink.ts';
import type { GuestInterface, GuestMetrics } from '../contract.ts';
import type { Guest } from './guests.ts';

const UP = 0x1;
const BROADCAST = 0x2;
const LOOPBACK = 0x8;
const POINT_TO_POINT = 0x10;

/** Counters of a running guest, from cgroup files and the kernel's own tables. */
export async function guestMetrics(
  guest: Guest,
  payload: Cgroup,
  namespaces: NetworkNamespaces,
): Promise<GuestMetrics> {
  const [cpuUsage, memory, processes] = await Promise.all([
    readCpu(payload),
    readMemory(payload),
    payload.readNumber('pids', 'pids.current'),
  ]);
  return { cpuUsage, memory, processes: processes ?? 0, network: readNetwork(guest.init.pid, namespaces) };
}

async function readCpu(payload: Cgroup): Promise<number> {
  if (payload.version('cpuacct') === 1) return (await payload.readNumber('cpuacct', 'cpuacct.usage')) ?? 0;
  const usec = /^usage_usec (\d+)$/m.exec((await payload.read('', 'cpu.stat')) ?? '')?.[1];
  return Number(usec ?? 0) * 1000;
}

async function readMemory(payload: Cgroup): Promise<GuestMetrics['memory']> {
  if (payload.version('memory') === 1) {
    const [usage = 0, usagePeak = 0, both, bothPeak] = await Promise.all([
      payload.readNumber('memory', 'memory.usage_in_bytes'),
      payload.readNumber('memory', 'memory.max_usage_in_bytes'),
      payload.readNumber('memory', 'memory.memsw.usage_in_bytes'),
      payload.readNumber('memory', 'memory.memsw.max_usage_in_bytes'),
    ]);
    // The two files are not read at one instant, so their difference may come out below zero.
    const swapUsage = Math.max(0, (both ?? usage) - usage);
    return { usage, usagePeak, swapUsage, swapUsagePeak: Math.max(0, (bothPeak ?? usagePeak) - usagePeak) };
  }
  const [usage = 0, usagePeak = 0, swapUsage = 0, swapUsagePeak = 0] = await Promise.all([
    payload.readNumber('memory', 'memory.current'),
    payload.readNumber('memory', 'memory.peak'),
    payload.readNumber('memory', 'memory.swap.current'),
    payload.readNumber('memory', 'memory.swap.peak'),
  ]);
  return { usage, usagePeak, swapUsage, swapUsagePeak };
}

function readNetwork(pid: number, namespaces: NetworkNamespaces): Record<string, GuestInterface> {
  let links: LinkInfo[];
  try {
    links = namespaces.links(pid);
  } catch {
    return {}; // the guest ended meanwhile
  }
  return Object.fromEntries(
    links.map((link) => [link.name, guestInterface(link, namespaces.nameOf(link.peerIndex) ?? '')]),
  );
}

function guestInterface(link: LinkInfo, hostName: string): GuestInterface {
  const loopback = (link.flags & LOOPBACK) !== 0;
  const { droppedReceived, droppedSent, ...counters } = link.counters;
  return {
    addresses: link.addresses.map((one) => ({
      family: one.family,
      address: one.address,
      netmask: String(one.prefix),
      scope: one.scope,
    })),
    counters: { ...counters, packetsDroppedInbound: droppedReceived, packetsDroppedOutbound: droppedSent },
    hwaddr: loopback ? '' : link.hwaddr,
    hostName: loopback ? '' : hostName,
    mtu: link.mtu,
    state: (link.flags & UP) === 0 ? 'down' : 'up',
    type: loopback ? 'loopback' : kind(link.flags),
  };
}

function kind(flags: number): string {
  if (flags & BROADCAST) return 'broadcast';
  return flags & POINT_TO_POINT ? 'point-to-point' : 'unknown';
}
