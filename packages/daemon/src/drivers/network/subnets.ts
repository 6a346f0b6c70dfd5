import ipaddr from 'ipaddr.js';

/** An address with its prefix length, for example `10.5.3.1/24`. */
export interface Cidr {
  readonly family: 4 | 6;
  readonly address: string;
  readonly prefix: number;
}

/** Parses `address/prefix` strictly; undefined when it is not one. */
export function parseCidr(text: string): Cidr | undefined {
  const [address, prefix, ...rest] = text.split('/');
  if (address === undefined || prefix === undefined || rest.length > 0 || !/^\d{1,3}$/.test(prefix)) return undefined;
  const family = familyOf(address);
  if (family === undefined || Number(prefix) > (family === 4 ? 32 : 128)) return undefined;
  return { family, address, prefix: Number(prefix) };
}

/** 4 for a dotted quad, 6 for an IPv6 address, undefined for anything else (shorthand such as `10.1` too). */
export function familyOf(text: string): 4 | 6 | undefined {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return 4;
  return ipaddr.IPv6.isValid(text) && !text.includes('%') ? 6 : undefined;
}

/** The network part: `10.5.3.1/24` → `10.5.3.0/24`. */
export function subnetOf(cidr: Cidr): string {
  const text = `${cidr.address}/${cidr.prefix}`;
  const base = cidr.family === 4 ? ipaddr.IPv4.networkAddressFromCIDR(text) : ipaddr.IPv6.networkAddressFromCIDR(text);
  return `${base.toString()}/${cidr.prefix}`;
}

/** True when an address lies in the subnet of `cidr`. */
export function contains(cidr: Cidr, address: string): boolean {
  if (familyOf(address) !== cidr.family) return false;
  return ipaddr.parse(address).match(ipaddr.parseCIDR(`${cidr.address}/${cidr.prefix}`));
}

export function overlap(one: Cidr, other: Cidr): boolean {
  return (
    one.family === other.family &&
    (one.prefix <= other.prefix ? contains(one, other.address) : contains(other, one.address))
  );
}

/** Value of an address as a number, to order and count. */
export function toNumber(address: string): bigint {
  return ipaddr
    .parse(address)
    .toByteArray()
    .reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
}

export function fromNumber(value: bigint, family: 4 | 6): string {
  const bytes: number[] = [];
  for (let rest = value, left = family === 4 ? 4 : 16; left > 0; left--, rest >>= 8n)
    bytes.unshift(Number(rest & 0xffn));
  return ipaddr.fromByteArray(bytes).toString();
}

/** First and last usable host address of an IPv4 or IPv6 subnet, without network and broadcast addresses. */
export function hostRange(cidr: Cidr): { first: bigint; last: bigint } {
  const bits = BigInt((cidr.family === 4 ? 32 : 128) - cidr.prefix);
  const base = toNumber(subnetOf(cidr).split('/')[0] ?? cidr.address);
  const size = 1n << bits;
  return size <= 2n ? { first: base, last: base + size - 1n } : { first: base + 1n, last: base + size - 2n };
}

/**
 * A free `10.x.y.1/24`: overlaps none of `used` (subnets of networks and routes of the host).
 * `random(n)` returns an integer in [0, n).
 */
export function pickIpv4(used: readonly string[], random: (limit: number) => number): string | undefined {
  const taken = used.map(parseCidr).filter((cidr) => cidr !== undefined);
  for (let attempt = 0; attempt < 1000; attempt++) {
    const candidate: Cidr = { family: 4, address: `10.${random(256)}.${random(256)}.1`, prefix: 24 };
    if (!taken.some((cidr) => overlap(cidr, candidate))) return `${candidate.address}/24`;
  }
  return undefined;
}

/** A random unique local `fd42:…::1/64`. */
export function pickIpv6(random: (limit: number) => number): string {
  const part = (): string => random(0x10000).toString(16);
  return `fd42:${part()}:${part()}:${part()}::1/64`;
}
