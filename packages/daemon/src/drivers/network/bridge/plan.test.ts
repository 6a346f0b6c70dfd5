import { describe, expect, it } from 'vitest';
import { dnsmasqArgs, hostsFile, interfaceCommands, parseLeases, readBridge, routeCommands, ruleset } from './plan.ts';

const plan = (config: Record<string, string>) =>
  readBridge({ name: 'br7', config, path: '/n/br7' }, '00:16:3e:00:00:01');
const both = { 'ipv4.address': '10.31.7.1/24', 'ipv4.nat': 'true', 'ipv6.address': 'fd42:1::1/64' };

describe('interfaceCommands', () => {
  it('makes a bridge from nothing', () => {
    expect(interfaceCommands(plan(both), { exists: false, addresses: [] })).toEqual([
      ['link', 'add', 'dev', 'br7', 'address', '00:16:3e:00:00:01', 'type', 'bridge'],
      ['link', 'set', 'dev', 'br7', 'mtu', '1500'],
      ['link', 'set', 'dev', 'br7', 'up'],
      ['addr', 'add', 'dev', 'br7', '10.31.7.1/24'],
      ['addr', 'add', 'dev', 'br7', 'fd42:1::1/64', 'nodad'],
    ]);
  });

  it('changes nothing that is already right', () => {
    const addresses = [
      { family: 'inet', address: '10.31.7.1', prefix: 24, scope: 'global' },
      { family: 'inet6', address: 'fe80::1', prefix: 64, scope: 'link' },
      { family: 'inet6', address: 'fd42:1::1', prefix: 64, scope: 'global' },
    ] as const;
    expect(
      interfaceCommands(plan(both), { exists: true, addresses, mtu: 1500, hwaddr: '00:16:3e:00:00:01', up: true }),
    ).toEqual([]);
  });

  it('moves to another subnet', () => {
    const addresses = [{ family: 'inet', address: '10.1.1.1', prefix: 24, scope: 'global' }] as const;
    const now = { exists: true, addresses, mtu: 1500, hwaddr: '00:16:3e:00:00:01', up: true };
    expect(interfaceCommands(plan({ 'ipv4.address': '10.31.7.1/24' }), now)).toEqual([
      ['addr', 'del', 'dev', 'br7', '10.1.1.1/24'],
      ['addr', 'add', 'dev', 'br7', '10.31.7.1/24'],
    ]);
  });
});

describe('ruleset', () => {
  it('replaces the table of the network in one transaction', () => {
    const text = ruleset(plan(both), 'br7');
    expect(text.startsWith('table inet keelson.br7\ndelete table inet keelson.br7\ntable inet keelson.br7 {')).toBe(
      true,
    );
    expect(text).toContain('ip saddr 10.31.7.0/24 ip daddr != 10.31.7.0/24 masquerade');
    expect(text).not.toContain('ip6 saddr');
    expect(text).toContain('iifname "br7" udp dport 67 accept');
    expect(text).toContain('iifname "br7" udp dport 547 accept');
  });

  it('translates to a fixed address and rejects what must not be routed', () => {
    const text = ruleset(
      plan({ ...both, 'ipv4.nat.address': '192.0.2.7', 'ipv4.routing': 'false', 'ipv6.firewall': 'false' }),
      'br7',
    );
    expect(text).toContain('snat ip to 192.0.2.7');
    expect(text).toContain('meta nfproto ipv4 oifname "br7" reject');
    expect(text).not.toContain('udp dport 547');
  });

  it('only removes the table of a network that goes', () => {
    expect(ruleset(undefined, 'br7')).toBe('table inet keelson.br7\ndelete table inet keelson.br7\n');
  });
});

describe('dnsmasqArgs', () => {
  it('serves nothing without an address', () => {
    expect(dnsmasqArgs(plan({ 'ipv4.address': 'none' }))).toBeUndefined();
  });

  it('hands out the whole subnet but the own address', () => {
    expect(dnsmasqArgs(plan(both))).toEqual(
      expect.arrayContaining([
        '--listen-address=10.31.7.1',
        '--dhcp-range=10.31.7.2,10.31.7.254,1h',
        '--enable-ra',
        '--dhcp-range=::,constructor:br7,ra-stateless,ra-names',
        '--domain=keelson',
      ]),
    );
  });

  it('follows ranges, expiry, gateway, stateful IPv6 and DNS mode', () => {
    const args = dnsmasqArgs(
      plan({
        ...both,
        'ipv4.dhcp.ranges': '10.31.7.5-10.31.7.9, 10.31.7.20-10.31.7.30',
        'ipv4.dhcp.expiry': '5m',
        'ipv4.dhcp.gateway': '10.31.7.2',
        'ipv6.dhcp.stateful': 'true',
        'dns.mode': 'none',
      }),
    );
    expect(args).toEqual(
      expect.arrayContaining([
        '--port=0',
        '--dhcp-option-force=3,10.31.7.2',
        '--dhcp-range=10.31.7.5,10.31.7.9,5m',
        '--dhcp-range=10.31.7.20,10.31.7.30,5m',
        '--dhcp-range=fd42:1::2,fd42:1::ffff:ffff:ffff:fffe,64,1h',
      ]),
    );
    expect(args?.some((arg) => arg.startsWith('--domain'))).toBe(false);
  });
});

describe('files', () => {
  it('names every guest whatever it calls itself', () => {
    const text = hostsFile([
      { instance: 'web', project: 'default', hwaddr: '00:16:3e:00:00:03', ipv4: '10.31.7.9', ipv6: 'fd42:1::9' },
      { instance: 'db', project: 'shop', hwaddr: '00:16:3e:00:00:02', ipv4: undefined, ipv6: undefined },
    ]);
    expect(text).toBe('00:16:3e:00:00:02,db.shop\n00:16:3e:00:00:03,10.31.7.9,[fd42:1::9],web\n');
  });

  it('reads leases of both families', () => {
    const text =
      '1700000000 00:16:3e:aa:bb:cc 10.31.7.44 web 01:00:16:3e:aa:bb:cc\nduid 00:01\n1700000000 123456 fd42:1::44 * 00:01:00\n';
    expect(parseLeases(text)).toEqual([
      { address: '10.31.7.44', hwaddr: '00:16:3e:aa:bb:cc', hostname: 'web' },
      { address: 'fd42:1::44', hwaddr: '', hostname: '' },
    ]);
  });

  it('routes subnets of both families to the bridge', () => {
    expect(routeCommands(plan({ ...both, 'ipv4.routes': '192.0.2.0/25', 'ipv6.routes': 'fd42:9::/64' }))).toEqual([
      ['route', 'replace', '192.0.2.0/25', 'dev', 'br7', 'proto', 'static'],
      ['route', 'replace', 'fd42:9::/64', 'dev', 'br7', 'proto', 'static'],
    ]);
  });
});
