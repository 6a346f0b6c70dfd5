import { describe, expect, it } from 'vitest';
import type { NetworkRecord } from '../../state/records/network.ts';
import { checkNic } from './nic-rules.ts';

const network: NetworkRecord = {
  project: 'default',
  name: 'br7',
  type: 'bridge',
  description: '',
  status: 'Created',
  config: { 'ipv4.address': '10.77.0.1/24', 'ipv6.address': 'none' },
};
const nic = (extra: Record<string, string>): Record<string, string> => ({ type: 'nic', network: 'br7', ...extra });

describe('checkNic', () => {
  it.each([
    [{ type: 'nic', nictype: 'bridged' }, 'Invalid value for device option "parent": Required value'],
    [{ type: 'nic', nictype: 'foo', parent: 'x' }, 'Unsupported device type'],
    [{ type: 'nic' }, 'Unsupported device type'],
    [{ type: 'nic', nictype: 'ovn', parent: 'xy' }, 'Nics of type "ovn" are not supported by this server'],
    [nic({ nictype: 'bridged' }), 'Cannot use "nictype" property in conjunction with "network" property'],
    [nic({ parent: 'br7' }), 'Cannot use "parent" property in conjunction with "network" property'],
    [nic({ mtu: '1500' }), 'Cannot use "mtu" property in conjunction with "network" property'],
    [nic({ 'ipv4.address': '10.1.1.1' }), 'Device IP address "10.1.1.1" not within network "br7" subnet'],
    [nic({ 'ipv4.address': 'x' }), 'Device IP address "x" not within network "br7" subnet'],
    [nic({ 'ipv6.address': 'fd42::1' }), '"ipv6.dhcp.stateful" are disabled'],
    [nic({ hwaddr: 'x' }), 'Invalid MAC address'],
    [nic({ foo: 'x' }), 'Invalid device option "foo"'],
    [nic({ name: 'x/y' }), 'Invalid value for device option "name": Network interface contains invalid characters'],
    [nic({ host_name: 'x y' }), 'Invalid value for device option "host_name"'],
    [nic({ 'limits.ingress': '10Mbit' }), 'Device option "limits.ingress" is not supported by this server'],
    [nic({ 'security.ipv4_filtering': 'true' }), 'Needs a fixed "ipv4.address"'],
  ])('refuses %j', (device, message) => {
    expect(() => checkNic(device, device['network'] === undefined ? undefined : network)).toThrow(message);
  });

  it.each([
    [nic({ 'ipv4.address': '10.77.0.44', hwaddr: '00:16:3e:01:02:03', 'security.ipv4_filtering': 'true' })],
    [nic({ 'ipv4.address': 'none', 'boot.priority': '3' })],
  ])('takes %j', (device) => {
    expect(() => checkNic(device, network)).not.toThrow();
  });

  it('takes a nic on a bridge that the host manages', () => {
    expect(() =>
      checkNic({ type: 'nic', nictype: 'bridged', parent: 'br0', mtu: '1400', 'ipv4.address': '10.9.9.9' }, undefined),
    ).not.toThrow();
  });
});
