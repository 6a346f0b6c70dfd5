import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  contains,
  familyOf,
  fromNumber,
  hostRange,
  overlap,
  parseCidr,
  pickIpv4,
  pickIpv6,
  subnetOf,
  toNumber,
} from './subnets.ts';

const octet = fc.integer({ min: 0, max: 255 });
const ipv4 = fc.tuple(octet, octet, octet, octet).map((parts) => parts.join('.'));

describe('subnets', () => {
  it.each(['10.1', '10.0.0.1', '10.0.0.1/33', '10.0.0.1/x', 'fd42::/129', '/24', '10.0.0.0/24/1', ''])(
    'does not take %j for a CIDR',
    (text) => {
      expect(parseCidr(text)).toBeUndefined();
    },
  );

  it('tells families apart and refuses zones and shorthand', () => {
    expect([familyOf('10.0.0.1'), familyOf('fd42::1'), familyOf('fe80::1%eth0'), familyOf('10.1')]).toEqual([
      4,
      6,
      undefined,
      undefined,
    ]);
  });

  it('numbers are the inverse of addresses', () => {
    fc.assert(fc.property(ipv4, (address) => fromNumber(toNumber(address), 4) === address));
    expect(fromNumber(toNumber('fd42:1:2::5'), 6)).toBe('fd42:1:2::5');
  });

  it('every host of a range lies in the subnet, its neighbours do not count as hosts', () => {
    fc.assert(
      fc.property(ipv4, fc.integer({ min: 1, max: 30 }), (address, prefix) => {
        const cidr = { family: 4, address, prefix } as const;
        const { first, last } = hostRange(cidr);
        return (
          contains(cidr, fromNumber(first, 4)) &&
          contains(cidr, fromNumber(last, 4)) &&
          last - first === (1n << BigInt(32 - prefix)) - 3n
        );
      }),
    );
  });

  it('overlap is symmetric and follows containment', () => {
    const wide = { family: 4, address: '10.0.0.0', prefix: 8 } as const;
    const narrow = { family: 4, address: '10.77.3.1', prefix: 24 } as const;
    const other = { family: 4, address: '192.168.0.1', prefix: 24 } as const;
    expect([overlap(wide, narrow), overlap(narrow, wide), overlap(other, narrow)]).toEqual([true, true, false]);
    expect(overlap(wide, { family: 6, address: 'fd42::1', prefix: 8 })).toBe(false);
  });

  it('picks a subnet that no route of the host touches', () => {
    const sequence = [1, 2, 3, 4];
    let at = 0;
    const picked = pickIpv4(['10.1.0.0/16', 'fd42::/16', 'none', ''], () => sequence[at++] ?? 9);
    expect(picked).toBe('10.3.4.1/24');
  });

  it('gives up when everything is taken', () => {
    expect(pickIpv4(['10.0.0.0/8'], () => 7)).toBeUndefined();
  });

  it('makes a usable unique local prefix', () => {
    const cidr = parseCidr(pickIpv6(() => 0xabc));
    expect(cidr).toEqual({ family: 6, address: 'fd42:abc:abc:abc::1', prefix: 64 });
    expect(subnetOf(cidr ?? { family: 6, address: '::', prefix: 0 })).toBe('fd42:abc:abc:abc::/64');
  });
});
