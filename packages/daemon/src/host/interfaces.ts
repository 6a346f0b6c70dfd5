import { readdir, readFile, readlink } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import type { HostInterface, HostInterfaces } from './interface-types.ts';

const CLASS_NET = '/sys/class/net';

/** Interfaces of the host from sysfs and the kernel's address list; no process is started. */
export class SysfsInterfaces implements HostInterfaces {
  async list(): ReturnType<HostInterfaces['list']> {
    const names = await readdir(CLASS_NET);
    const all = await Promise.all(names.map(async (name) => ({ name, type: await interfaceType(name) })));
    return all.filter((one) => one.type !== undefined).map((one) => ({ name: one.name, type: one.type ?? 'unknown' }));
  }

  async subnets(): Promise<readonly string[]> {
    const own = Object.values(networkInterfaces()).flatMap((infos) => (infos ?? []).map((info) => info.cidr ?? ''));
    return [...own.filter((cidr) => cidr !== ''), ...parseRoutes(await readFile('/proc/net/route', 'utf8'))];
  }

  async mtu(name: string): Promise<number | undefined> {
    const text = validName(name) ? await read(join(CLASS_NET, name), 'mtu') : undefined;
    return text === undefined ? undefined : Number(text);
  }

  async state(name: string): Promise<HostInterface | undefined> {
    if (!validName(name)) return undefined;
    const folder = join(CLASS_NET, name);
    const [flags, mtu, hwaddr] = await Promise.all([
      read(folder, 'flags'),
      read(folder, 'mtu'),
      read(folder, 'address'),
    ]);
    if (flags === undefined) return undefined;
    const bits = Number.parseInt(flags, 16);
    const bridge = await bridgeState(folder);
    return {
      addresses: addresses(name),
      counters: await counters(folder),
      hwaddr: (bits & LOOPBACK) === 0 ? (hwaddr ?? '') : '',
      mtu: Number(mtu ?? 0),
      state: (bits & UP) === 0 ? 'down' : 'up',
      type: kind(bits),
      ...(bridge === undefined ? {} : { bridge }),
    };
  }
}

/** Routes of /proc/net/route: destination and mask are little-endian hex words. */
export function parseRoutes(text: string): string[] {
  return text
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields.length >= 8 && fields[1] !== '00000000')
    .map((fields) => {
      const bytes = Buffer.from(fields[1] ?? '', 'hex').reverse();
      const prefix = [...Buffer.from(fields[7] ?? '', 'hex')].reduce(
        (bits, byte) => bits + byte.toString(2).replaceAll('0', '').length,
        0,
      );
      return `${[...bytes].join('.')}/${prefix}`;
    });
}

const UP = 0x1;
const BROADCAST = 0x2;
const LOOPBACK = 0x8;
const POINT_TO_POINT = 0x10;

function kind(flags: number): string {
  if (flags & LOOPBACK) return 'loopback';
  if (flags & BROADCAST) return 'broadcast';
  return flags & POINT_TO_POINT ? 'point-to-point' : 'unknown';
}

export function validName(name: string): boolean {
  return name.length > 0 && name.length < 16 && name !== '.' && name !== '..' && !/[/\s:]/.test(name);
}

async function read(folder: string, file: string): Promise<string | undefined> {
  try {
    return (await readFile(join(folder, file), 'utf8')).trim();
  } catch {
    return undefined; // the interface or the attribute is not there
  }
}

/** Host ends of guest nics (veth, tap) are not listed, as in LXD. */
async function interfaceType(
  name: string,
): Promise<'physical' | 'bridge' | 'loopback' | 'bond' | 'vlan' | 'unknown' | undefined> {
  const folder = join(CLASS_NET, name);
  const flags = Number.parseInt((await read(folder, 'flags')) ?? '0', 16);
  if (flags & LOOPBACK) return 'loopback';
  const entries = await readdir(folder).catch(() => [] as string[]);
  if (entries.includes('bridge')) return 'bridge';
  if (entries.includes('bonding')) return 'bond';
  if (entries.includes('device')) return 'physical';
  const uevent = (await read(folder, 'uevent')) ?? '';
  if (uevent.includes('DEVTYPE=vlan')) return 'vlan';
  const own = await read(folder, 'ifindex');
  const peer = await read(folder, 'iflink');
  const device = await readlink(folder).catch(() => '');
  if (own === peer && device.includes('/virtual/') && !(await isTap(folder)))
    return device.includes('eth') ? 'physical' : 'unknown';
  return undefined;
}

async function isTap(folder: string): Promise<boolean> {
  return (await read(folder, 'tun_flags')) !== undefined;
}

async function counters(folder: string): Promise<HostInterface['counters']> {
  const value = async (name: string): Promise<number> => Number((await read(join(folder, 'statistics'), name)) ?? 0);
  const [bytesReceived, bytesSent, packetsReceived, packetsSent] = await Promise.all([
    value('rx_bytes'),
    value('tx_bytes'),
    value('rx_packets'),
    value('tx_packets'),
  ]);
  return { bytesReceived, bytesSent, packetsReceived, packetsSent };
}

function addresses(name: string): HostInterface['addresses'] {
  return (networkInterfaces()[name] ?? []).map((info) => ({
    family: info.family === 'IPv4' ? 'inet' : 'inet6',
    address: info.address,
    netmask: info.cidr?.split('/')[1] ?? '',
    scope: info.internal ? 'local' : info.family === 'IPv6' && info.address.startsWith('fe80:') ? 'link' : 'global',
  }));
}

async function bridgeState(folder: string): Promise<HostInterface['bridge']> {
  const bridge = join(folder, 'bridge');
  const id = await read(bridge, 'bridge_id');
  if (id === undefined) return undefined;
  const [stp, delay, vlan, filtering, members] = await Promise.all([
    read(bridge, 'stp_state'),
    read(bridge, 'forward_delay'),
    read(bridge, 'default_pvid'),
    read(bridge, 'vlan_filtering'),
    readdir(join(folder, 'brif')).catch(() => [] as string[]),
  ]);
  const filters = filtering === '1';
  return {
    id,
    stp: stp !== undefined && stp !== '0',
    forwardDelay: Number(delay ?? 0),
    vlanDefault: filters ? Number(vlan ?? 0) : 0,
    vlanFiltering: filters,
    upperDevices: members,
  };
}
