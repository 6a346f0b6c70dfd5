import { quote, type ValueType } from './value-type.ts';

/** Value of a dotted IPv4 address; undefined when the text is none (no short or octal forms). */
export function parseIpv4(text: string): bigint | undefined {
  const parts = text.split('.');
  if (parts.length !== 4) {
    return undefined;
  }
  let value = 0n;
  for (const part of parts) {
    if (!/^(0|[1-9]\d{0,2})$/.test(part) || Number(part) > 255) {
      return undefined;
    }
    value = value * 256n + BigInt(part);
  }
  return value;
}

/** Value of an IPv6 address without zone; undefined when the text is none. */
export function parseIpv6(text: string): bigint | undefined {
  const halves = text.split('::');
  if (halves.length > 2) {
    return undefined;
  }
  const head = groupsOf(halves[0] ?? '');
  const tail = halves.length === 2 ? groupsOf(halves[1] ?? '') : [];
  if (head === undefined || tail === undefined) {
    return undefined;
  }
  const missing = 8 - head.length - tail.length;
  if (halves.length === 2 ? missing < 1 : missing !== 0) {
    return undefined;
  }
  const groups = [...head, ...Array.from({ length: missing }, () => 0), ...tail];
  return groups.reduce((value, group) => value * 65536n + BigInt(group), 0n);
}

function groupsOf(text: string): number[] | undefined {
  if (text === '') {
    return [];
  }
  const groups: number[] = [];
  const parts = text.split(':');
  for (const [index, part] of parts.entries()) {
    const embedded = index === parts.length - 1 && part.includes('.') ? parseIpv4(part) : undefined;
    if (embedded !== undefined) {
      groups.push(Number(embedded >> 16n), Number(embedded & 0xffffn));
    } else if (/^[0-9a-f]{1,4}$/i.test(part)) {
      groups.push(Number.parseInt(part, 16));
    } else {
      return undefined;
    }
  }
  return groups;
}

/** An address with its prefix length. */
export interface Cidr {
  readonly family: 4 | 6;
  readonly address: bigint;
  readonly prefix: number;
  /** Whether no bit is set behind the prefix: the text names a network, not an address in it. */
  readonly isNetwork: boolean;
}

/** Reads `10.0.0.1/24` or `fd42::1/64`; undefined when the text is none. */
export function parseCidr(text: string): Cidr | undefined {
  const match = /^([^/]+)\/(0|[1-9]\d{0,2})$/.exec(text);
  if (match === null) {
    return undefined;
  }
  const ipv4 = parseIpv4(match[1] ?? '');
  const address = ipv4 ?? parseIpv6(match[1] ?? '');
  const bits = ipv4 === undefined ? 128 : 32;
  const prefix = Number(match[2]);
  if (address === undefined || prefix > bits) {
    return undefined;
  }
  const hostMask = (1n << BigInt(bits - prefix)) - 1n;
  return { family: ipv4 === undefined ? 6 : 4, address, prefix, isNetwork: (address & hostMask) === 0n };
}

function type(name: string, good: (value: string) => boolean, problem: (value: string) => string): ValueType {
  return { name, check: (value) => (good(value) ? undefined : problem(value)) };
}

const isCidr = (value: string, family: 4 | 6): boolean => parseCidr(value)?.family === family;
const isNetwork = (value: string, family: 4 | 6): boolean =>
  isCidr(value, family) && parseCidr(value)?.isNetwork === true;
const badCidr = (value: string): string => `invalid CIDR address: ${value}`;

/** Address or host name with an optional port, as listeners take it. */
export const listenAddress = type(
  'listen address',
  (value) =>
    parseIpv4(value) !== undefined ||
    parseIpv6(value) !== undefined ||
    /^(\[[0-9a-f:.]+\]|[a-z0-9.-]*)(:\d{1,5})?$/i.test(value),
  (value) => `Couldn't resolve ${quote(value)}`,
);

export const ipv4Address = type(
  'IPv4 address',
  (value) => parseIpv4(value) !== undefined,
  (value) => `Not an IPv4 address ${quote(value)}`,
);

export const ipv6Address = type(
  'IPv6 address',
  (value) => parseIpv6(value) !== undefined,
  (value) => `Not an IPv6 address ${quote(value)}`,
);

export const ipAddress = type(
  'IP address',
  (value) => parseIpv4(value) !== undefined || parseIpv6(value) !== undefined,
  (value) => `Not an IP address ${quote(value)}`,
);

/** Address inside a subnet, with prefix length. */
export const ipv4Cidr = type('IPv4 address with prefix', (value) => isCidr(value, 4), badCidr);
export const ipv6Cidr = type('IPv6 address with prefix', (value) => isCidr(value, 6), badCidr);
/** Address a host can have in its subnet: not the subnet's own. */
export const ipv4HostCidr = hostCidr(4);
export const ipv6HostCidr = hostCidr(6);

function hostCidr(family: 4 | 6): ValueType {
  return {
    name: `IPv${family} address with prefix`,
    check: (value) => {
      const cidr = parseCidr(value);
      if (cidr?.family !== family) {
        return badCidr(value);
      }
      const tiny = cidr.prefix >= (family === 4 ? 31 : 127);
      return cidr.isNetwork && !tiny ? `Not a usable IPv${family} address ${quote(value)}` : undefined;
    },
  };
}

/** Subnet: no bit set behind the prefix. */
export const ipv4Network = type('IPv4 subnet', (value) => isNetwork(value, 4), badCidr);
export const ipv6Network = type('IPv6 subnet', (value) => isNetwork(value, 6), badCidr);

/** First and last address, joined by a dash. */
function rangeOf(family: 4 | 6): ValueType {
  const parse = family === 4 ? parseIpv4 : parseIpv6;
  return {
    name: `IPv${family} range`,
    check: (value) => {
      const parts = value.split('-');
      if (parts.length !== 2) {
        return 'IP range must contain start and end IP addresses';
      }
      const first = parse(parts[0] ?? '');
      const last = parse(parts[1] ?? '');
      if (first === undefined || last === undefined) {
        return `${first === undefined ? 'Start' : 'End'} of range is not an IPv${family} address`;
      }
      return first > last ? 'Start IP address must be lower than End IP address' : undefined;
    },
  };
}

export const ipv4Range = rangeOf(4);
export const ipv6Range = rangeOf(6);

export const macAddress = type(
  'MAC address',
  (value) => /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/i.test(value),
  () => 'Invalid MAC address, must be 6 bytes of hex separated by colons',
);

export const port = type(
  'port',
  (value) => /^\d{1,5}$/.test(value) && Number(value) <= 65535,
  (value) => `Invalid port number ${quote(value)}`,
);

/** Largest packet of a link, in bytes. */
export const mtu = type(
  'MTU',
  (value) => /^\d{1,6}$/.test(value) && Number(value) >= 1280 && Number(value) <= 16384,
  (value) => `Invalid MTU ${quote(value)}`,
);

export const vlanId = type(
  'VLAN id',
  (value) => /^\d{1,4}$/.test(value) && Number(value) <= 4094,
  (value) => `Invalid VLAN ID ${quote(value)}`,
);
