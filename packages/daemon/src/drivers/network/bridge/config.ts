import { errors } from '../../../core/errors.ts';
import { contains, familyOf, parseCidr, pickIpv4, pickIpv6, toNumber } from '../subnets.ts';
import type { NetworkSpec } from '../contract.ts';

type Rule = (value: string) => string | undefined;

const bool: Rule = (value) =>
  ['true', 'false', '1', '0', 'yes', 'no', 'on', 'off'].includes(value.toLowerCase())
    ? undefined
    : `Invalid value for a boolean "${value}"`;

const oneOf =
  (...values: readonly string[]): Rule =>
  (value) =>
    values.includes(value) ? undefined : `Invalid value "${value}" (not one of [${values.join(' ')}])`;

const list =
  (rule: Rule): Rule =>
  (value) => {
    for (const item of splitList(value)) {
      const problem = rule(item);
      if (problem !== undefined) return `Item "${item}": ${problem}`;
    }
    return undefined;
  };

const address =
  (family: 4 | 6): Rule =>
  (value) =>
    familyOf(value) === family ? undefined : `Not an IPv${family} address "${value}"`;

const subnet =
  (family: 4 | 6): Rule =>
  (value) =>
    parseCidr(value)?.family === family ? undefined : `invalid CIDR address: ${value}`;

const range =
  (family: 4 | 6): Rule =>
  (value) => {
    const [start, end, ...rest] = value.split('-').map((part) => part.trim());
    if (start === undefined || end === undefined || rest.length > 0)
      return 'IP range must contain start and end IP addresses';
    if (familyOf(start) !== family) return `Start not an IPv${family} address "${start}"`;
    if (familyOf(end) !== family) return `End not an IPv${family} address "${end}"`;
    return toNumber(end) < toNumber(start) ? `Start address "${start}" is after end address "${end}"` : undefined;
  };

/** The bridge's own address: `none`, `auto`, or a usable address with its prefix. */
const gateway =
  (family: 4 | 6): Rule =>
  (value) => {
    if (value === 'none' || value === 'auto') return undefined;
    const cidr = parseCidr(value);
    if (cidr === undefined) return `invalid CIDR address: ${value}`;
    if (cidr.family !== family) return `Not an IPv${family} CIDR "${value}"`;
    const host = toNumber(cidr.address) & ((1n << BigInt((family === 4 ? 32 : 128) - cidr.prefix)) - 1n);
    return host === 0n && cidr.prefix < (family === 4 ? 32 : 128)
      ? `Not a usable IPv${family} address "${value}"`
      : undefined;
  };

const mtu: Rule = (value) => {
  if (!/^\d+$/.test(value)) return `Invalid MTU "${value}"`;
  return Number(value) < 1280 || Number(value) > 16384 ? `Out of MTU range (1280-16384) "${value}"` : undefined;
};

const hwaddr: Rule = (value) =>
  /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/i.test(value)
    ? undefined
    : 'Invalid MAC address, must be 6 bytes of hex separated by colons';

const expiry: Rule = (value) =>
  /^(\d+[smhdw]?|infinite)$/.test(value) ? undefined : `Invalid lease time "${value}" (for example 45m, 1h, infinite)`;

const domain: Rule = (value) =>
  /^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$/.test(value) &&
  value.length <= 253
    ? undefined
    : `Invalid domain name "${value}"`;

const interfaceName: Rule = (value) =>
  /^[^/\s:]{1,15}$/.test(value) ? undefined : `Invalid interface name "${value}"`;

/** LXD's keys of a bridge that Keelson runs; others are refused by name. */
export const BRIDGE_RULES: Readonly<Record<string, Rule>> = {
  'bridge.driver': oneOf('native', 'openvswitch'),
  'bridge.external_interfaces': list(interfaceName),
  'bridge.hwaddr': hwaddr,
  'bridge.mode': oneOf('standard', 'fan'),
  'bridge.mtu': mtu,
  'dns.domain': domain,
  'dns.mode': oneOf('dynamic', 'managed', 'none'),
  'dns.search': list(domain),
  'ipv4.address': gateway(4),
  'ipv4.dhcp': bool,
  'ipv4.dhcp.expiry': expiry,
  'ipv4.dhcp.gateway': address(4),
  'ipv4.dhcp.ranges': list(range(4)),
  'ipv4.firewall': bool,
  'ipv4.nat': bool,
  'ipv4.nat.address': address(4),
  'ipv4.nat.order': oneOf('before', 'after'),
  'ipv4.routes': list(subnet(4)),
  'ipv4.routing': bool,
  'ipv6.address': gateway(6),
  'ipv6.dhcp': bool,
  'ipv6.dhcp.expiry': expiry,
  'ipv6.dhcp.ranges': list(range(6)),
  'ipv6.dhcp.stateful': bool,
  'ipv6.firewall': bool,
  'ipv6.nat': bool,
  'ipv6.nat.address': address(6),
  'ipv6.nat.order': oneOf('before', 'after'),
  'ipv6.routes': list(subnet(6)),
  'ipv6.routing': bool,
  'raw.dnsmasq': (value) => (value.includes('\0') ? 'Contains a NUL character' : undefined),
};

/** Keys of LXD's bridges that this service does not offer, with the reason a user reads. */
const UNSUPPORTED = /^(tunnel\.|fan\.|bgp\.|maas\.|security\.acls|dns\.zone\.|ipv[46]\.ovn\.ranges|ipv[46]\.l3only)/;

export function isTrue(value: string | undefined, byDefault = false): boolean {
  if (value === undefined || value === '') return byDefault;
  return ['true', '1', 'yes', 'on'].includes(value.toLowerCase());
}

export function splitList(value: string | undefined): string[] {
  return (value ?? '')
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}

/** @throws bad-request naming the first key that is wrong. */
export function checkBridgeConfig(spec: NetworkSpec): void {
  for (const [key, value] of Object.entries(spec.config)) {
    if (key.startsWith('user.') || key.startsWith('volatile.')) continue;
    const rule = BRIDGE_RULES[key];
    if (rule === undefined) {
      if (UNSUPPORTED.test(key))
        throw errors.badRequest(`Option "${key}" of network "${spec.name}" is not supported by this server`);
      throw errors.badRequest(`Invalid option for network "${spec.name}" option "${key}"`);
    }
    const problem = value === '' ? undefined : rule(value);
    if (problem !== undefined)
      throw errors.badRequest(`Invalid value for network "${spec.name}" option "${key}": ${problem}`);
  }
  if (spec.config['bridge.driver'] === 'openvswitch')
    throw errors.badRequest("Open vSwitch isn't installed on this system");
  if (spec.config['bridge.mode'] === 'fan')
    throw errors.badRequest('The fan mode of bridges is not supported by this server');
  checkRanges(spec);
}

function checkRanges(spec: NetworkSpec): void {
  for (const family of [4, 6] as const) {
    const own = parseCidr(spec.config[`ipv${family}.address`] ?? '');
    if (own === undefined) continue;
    for (const item of splitList(spec.config[`ipv${family}.dhcp.ranges`])) {
      const outside = item.split('-').find((end) => !contains(own, end.trim()));
      if (outside === undefined) continue;
      throw errors.badRequest(
        `Invalid value for network "${spec.name}" option "ipv${family}.dhcp.ranges": Item "${item}": "${outside.trim()}" is not in the network's subnet`,
      );
    }
  }
}

export interface BridgeDefaults {
  /** Subnets that must stay free: other networks and the host's routes. */
  readonly used: readonly string[];
  /** The host has IPv6. */
  readonly ipv6: boolean;
  /** Integer in [0, limit). */
  readonly random: (limit: number) => number;
}

/** LXD's rule: addresses that are absent or `auto` are chosen, and with them comes NAT. */
export function fillBridgeDefaults(spec: NetworkSpec, defaults: BridgeDefaults): Record<string, string> {
  const config: Record<string, string> = { ...spec.config };
  for (const family of [4, 6] as const) {
    const key = `ipv${family}.address`;
    const wanted = config[key] ?? '';
    if (wanted !== '' && wanted !== 'auto') continue;
    if (family === 6 && !defaults.ipv6) {
      config[key] = 'none';
      continue;
    }
    const chosen = family === 4 ? pickIpv4(defaults.used, defaults.random) : pickIpv6(defaults.random);
    if (chosen === undefined) {
      throw errors.badRequest('Failed to automatically find an unused IPv4 subnet, manual configuration required');
    }
    config[key] = chosen;
    config[`ipv${family}.nat`] ??= 'true';
  }
  return config;
}
