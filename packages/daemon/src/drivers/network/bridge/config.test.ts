import { describe, expect, it } from 'vitest';
import { checkBridgeConfig, fillBridgeDefaults } from './config.ts';

const spec = (config: Record<string, string>): { name: string; config: Record<string, string>; path: string } => ({
  name: 'br7',
  config,
  path: '/state/networks/br7',
});
const base = { 'ipv4.address': '10.31.7.1/24', 'ipv6.address': 'none' };

describe('checkBridgeConfig', () => {
  it.each([
    ['foo', 'bar', 'Invalid option for network "br7" option "foo"'],
    ['ipv4.address', 'bar', 'Invalid value for network "br7" option "ipv4.address": invalid CIDR address: bar'],
    [
      'ipv4.address',
      '10.1.2.0/24',
      'Invalid value for network "br7" option "ipv4.address": Not a usable IPv4 address "10.1.2.0/24"',
    ],
    ['ipv4.nat', 'maybe', 'Invalid value for network "br7" option "ipv4.nat": Invalid value for a boolean "maybe"'],
    ['ipv4.dhcp.ranges', 'x', 'option "ipv4.dhcp.ranges": Item "x": IP range must contain start and end IP addresses'],
    ['ipv4.dhcp.ranges', '10.31.7.9-10.31.7.2', 'is after end address'],
    ['ipv4.dhcp.ranges', '10.9.0.1-10.9.0.5', '"10.9.0.1" is not in the network\'s subnet'],
    ['ipv4.dhcp.expiry', '1h --dhcp-script=/x', 'Invalid lease time'],
    ['bridge.mtu', 'x', 'option "bridge.mtu": Invalid MTU "x"'],
    ['bridge.mtu', '10', 'option "bridge.mtu": Out of MTU range (1280-16384) "10"'],
    ['bridge.driver', 'x', 'Invalid value "x" (not one of [native openvswitch])'],
    ['bridge.hwaddr', 'x', 'Invalid MAC address, must be 6 bytes of hex separated by colons'],
    ['dns.mode', 'x', 'Invalid value "x" (not one of [dynamic managed none])'],
    ['dns.domain', 'a b', 'Invalid domain name "a b"'],
    ['ipv4.routes', 'x', 'Item "x": invalid CIDR address: x'],
    ['ipv4.nat.order', 'x', 'Invalid value "x" (not one of [before after])'],
    ['ipv4.nat.address', 'x', 'Not an IPv4 address "x"'],
    ['bridge.driver', 'openvswitch', "Open vSwitch isn't installed on this system"],
    ['tunnel.a.protocol', 'gre', 'Option "tunnel.a.protocol" of network "br7" is not supported by this server'],
  ])('refuses %s=%s', (key, value, message) => {
    expect(() => checkBridgeConfig(spec({ ...base, [key]: value }))).toThrow(message);
  });

  it('takes what LXD takes', () => {
    const good = {
      'ipv4.dhcp.ranges': '10.31.7.5-10.31.7.9, 10.31.7.20-10.31.7.30',
      'ipv4.nat': 'YES',
      'ipv6.nat': '',
      'bridge.mtu': '9000',
      'dns.domain': 'lab.example',
      'user.anything': 'x',
      'raw.dnsmasq': 'address=/a/10.0.0.1\nlog-queries',
    };
    expect(() => checkBridgeConfig(spec({ ...base, ...good }))).not.toThrow();
  });
});

describe('fillBridgeDefaults', () => {
  const options = { used: ['10.5.5.0/24'], ipv6: true, random: () => 6 };

  it('chooses absent and auto addresses and turns NAT on with them', () => {
    expect(fillBridgeDefaults(spec({ 'ipv6.address': 'auto', 'user.x': 'y' }), options)).toEqual({
      'ipv4.address': '10.6.6.1/24',
      'ipv4.nat': 'true',
      'ipv6.address': 'fd42:6:6:6::1/64',
      'ipv6.nat': 'true',
      'user.x': 'y',
    });
  });

  it('leaves given addresses alone and adds no NAT to them', () => {
    expect(fillBridgeDefaults(spec(base), options)).toEqual(base);
  });

  it('has no IPv6 on a host without it', () => {
    expect(fillBridgeDefaults(spec({}), { ...options, ipv6: false })['ipv6.address']).toBe('none');
  });

  it('says so when no subnet is free', () => {
    expect(() => fillBridgeDefaults(spec({}), { ...options, used: ['10.0.0.0/8'] })).toThrow('unused IPv4 subnet');
  });
});
