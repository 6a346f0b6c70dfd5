import * as v from '../values/index.ts';
import { type ConfigKey, type ConfigOf, type ConfigTable, key } from './table.ts';

/** Network types that can be created. */
export const networkTypes = ['bridge', 'macvlan', 'sriov', 'physical', 'ovn'] as const;
export type NetworkTypeName = (typeof networkTypes)[number];

const local = { scope: 'local' } as const;
const aclAction = v.oneOf('allow', 'reject', 'drop');
const off = { default: 'false' } as const;
const ipv4Routes = v.listOf(v.ipv4Network);
const ipv6Routes = v.listOf(v.ipv6Network);
const ipv4Ranges = v.listOf(v.ipv4Range);
const ipv6Ranges = v.listOf(v.ipv6Range);

/** `auto`, `none`, or the address with prefix. */
const bridgeIpv4 = v.anyOf(v.oneOf('none', 'auto'), v.ipv4HostCidr);
const bridgeIpv6 = v.anyOf(v.oneOf('none', 'auto'), v.ipv6HostCidr);
const interfaces = v.listOf(v.interfaceName);

const acls = [
  key('security.acls', v.anyText, 'Network ACLs applied to every nic, separated by commas.'),
  key('security.acls.default.egress.action', aclAction, 'Outgoing traffic that no rule matches.', {
    default: 'reject',
  }),
  key('security.acls.default.egress.logged', v.bool, 'Log outgoing traffic that no rule matches.', off),
  key('security.acls.default.ingress.action', aclAction, 'Incoming traffic that no rule matches.', {
    default: 'reject',
  }),
  key('security.acls.default.ingress.logged', v.bool, 'Log incoming traffic that no rule matches.', off),
];

const bgpPeers = [
  key('bgp.peers.*.address', v.ipAddress, 'Address of a BGP peer.'),
  key('bgp.peers.*.asn', v.integerBetween(1, 4_294_967_294), 'AS number of a BGP peer.'),
  key('bgp.peers.*.password', v.anyText, 'Password of the session with a BGP peer.'),
];

const dnsZones = [
  key('dns.domain', v.anyText, 'Domain of the guests.', { default: 'lxd' }),
  key('dns.search', v.anyText, 'Domains guests search, separated by commas.', { default: 'dns.domain' }),
  key('dns.zone.forward', v.anyText, 'DNS zone of the guests.'),
  key('dns.zone.reverse.ipv4', v.anyText, 'DNS zone of the IPv4 addresses.'),
  key('dns.zone.reverse.ipv6', v.anyText, 'DNS zone of the IPv6 addresses.'),
];

const user = key('user.*', v.anyText, 'Free text.');

const bridgeLink = [
  key('bgp.ipv4.nexthop', v.ipv4Address, 'Next hop announced for IPv4.', local),
  key('bgp.ipv6.nexthop', v.ipv6Address, 'Next hop announced for IPv6.', local),
  key('bridge.driver', v.oneOf('native', 'openvswitch'), 'Kind of bridge.', { default: 'native' }),
  key('bridge.external_interfaces', interfaces, 'Host interfaces to add to the bridge, separated by commas.', local),
  key('bridge.hwaddr', v.macAddress, 'MAC address of the bridge.', { default: 'generated' }),
  key('bridge.mode', v.oneOf('standard', 'fan'), 'standard, or an overlay by fan.', { default: 'standard' }),
  key('bridge.mtu', v.mtu, 'MTU of the bridge.', { default: '1500, less with tunnels' }),
  key(
    'dns.mode',
    v.oneOf('dynamic', 'managed', 'none'),
    'Names of guests: as they ask for them, fixed to the instance, or none.',
    { default: 'managed' },
  ),
  key('fan.overlay_subnet', v.ipv4Network, 'Overlay subnet of the fan.', { default: '240.0.0.0/8' }),
  key('fan.type', v.oneOf('vxlan', 'ipip'), 'Tunnel of the fan.', { default: 'vxlan' }),
  key('fan.underlay_subnet', v.anyOf(v.oneOf('auto'), v.ipv4Network), 'Underlay subnet of the fan.', {
    default: 'auto',
  }),
  key('maas.subnet.ipv4', v.anyText, 'MAAS subnet to register IPv4 addresses in.'),
  key('maas.subnet.ipv6', v.anyText, 'MAAS subnet to register IPv6 addresses in.'),
  key('raw.dnsmasq', v.anyText, 'Lines added to the dnsmasq configuration.'),
];

const bridgeIpv4Keys = [
  key('ipv4.address', bridgeIpv4, 'Address of the bridge with prefix; none, or auto for a free subnet.', {
    default: 'auto',
    checkEmpty: true,
  }),
  key('ipv4.dhcp', v.bool, 'Hand out addresses by DHCP.', { default: 'true' }),
  key('ipv4.dhcp.expiry', v.singleLine, 'Time a lease is good for, as dnsmasq reads it.', { default: '1h' }),
  key('ipv4.dhcp.gateway', v.ipv4Address, 'Gateway told to guests.', { default: 'ipv4.address' }),
  key('ipv4.dhcp.ranges', ipv4Ranges, 'Ranges to lease from, separated by commas.', { default: 'all addresses' }),
  key('ipv4.firewall', v.bool, 'Make firewall rules for the network.', { default: 'true' }),
  key('ipv4.nat', v.bool, 'Translate addresses of outgoing traffic.', {
    default: 'false; true with ipv4.address=auto',
  }),
  key('ipv4.nat.address', v.ipv4Address, 'Source address of translated traffic.'),
  key('ipv4.nat.order', v.oneOf('before', 'after'), 'Place of the NAT rules among others.', { default: 'before' }),
  key('ipv4.ovn.ranges', ipv4Ranges, 'Ranges for OVN routers, separated by commas.'),
  key('ipv4.routes', ipv4Routes, 'More subnets to route to the bridge, separated by commas.'),
  key('ipv4.routing', v.bool, 'Route traffic in and out.', { default: 'true' }),
];

const bridgeIpv6Keys = [
  key('ipv6.address', bridgeIpv6, 'Address of the bridge with prefix; none, or auto for a random subnet.', {
    default: 'auto',
  }),
  key('ipv6.dhcp', v.bool, 'Give more network settings by DHCP.', { default: 'true' }),
  key('ipv6.dhcp.expiry', v.singleLine, 'Time a lease is good for, as dnsmasq reads it.', { default: '1h' }),
  key('ipv6.dhcp.ranges', ipv6Ranges, 'Ranges to lease from, separated by commas.', { default: 'all addresses' }),
  key('ipv6.dhcp.stateful', v.bool, 'Hand out addresses by DHCP.', off),
  key('ipv6.firewall', v.bool, 'Make firewall rules for the network.', { default: 'true' }),
  key('ipv6.nat', v.bool, 'Translate addresses of outgoing traffic.', {
    default: 'false; true with ipv6.address=auto',
  }),
  key('ipv6.nat.address', v.ipv6Address, 'Source address of translated traffic.'),
  key('ipv6.nat.order', v.oneOf('before', 'after'), 'Place of the NAT rules among others.', { default: 'before' }),
  key('ipv6.ovn.ranges', ipv6Ranges, 'Ranges for OVN routers, separated by commas.'),
  key('ipv6.routes', ipv6Routes, 'More subnets to route to the bridge, separated by commas.'),
  key('ipv6.routing', v.bool, 'Route traffic in and out.', { default: 'true' }),
];

const tunnels = [
  key('tunnel.*.group', v.ipAddress, 'Multicast address of a vxlan tunnel.', { default: '239.0.0.1' }),
  key('tunnel.*.id', v.integer, 'Number of a vxlan tunnel.', { default: '0' }),
  key('tunnel.*.interface', v.interfaceName, 'Host interface of a tunnel.'),
  key('tunnel.*.local', v.ipAddress, 'Local address of a tunnel.'),
  key('tunnel.*.port', v.port, 'Port of a vxlan tunnel.', { default: '0' }),
  key('tunnel.*.protocol', v.oneOf('gre', 'vxlan'), 'Kind of tunnel.'),
  key('tunnel.*.remote', v.ipAddress, 'Remote address of a tunnel.'),
  key('tunnel.*.ttl', v.integerBetween(1, 255), 'Hops a multicast packet may take.', { default: '1' }),
];

const parentKeys = [
  key('gvrp', v.bool, 'Register the VLAN by GVRP.', off),
  key('maas.subnet.ipv4', v.anyText, 'MAAS subnet to register IPv4 addresses in.'),
  key('maas.subnet.ipv6', v.anyText, 'MAAS subnet to register IPv6 addresses in.'),
  key('mtu', v.mtu, 'MTU of the new interfaces.'),
  key('parent', v.anyText, 'Host interface to work on.', { ...local, required: true }),
  key('vlan', v.vlanId, 'VLAN to join.'),
  user,
];

const physicalKeys = [
  ...bgpPeers,
  key('dns.nameservers', v.listOf(v.ipAddress), 'DNS servers of the uplink, separated by commas.'),
  key('ipv4.gateway', v.ipv4Cidr, 'Gateway of the uplink with prefix.'),
  key('ipv4.ovn.ranges', ipv4Ranges, 'Ranges for OVN routers, separated by commas.'),
  key('ipv4.routes', ipv4Routes, 'Subnets OVN networks may use, separated by commas.'),
  key('ipv4.routes.anycast', v.bool, 'Let several networks use the same routes.', off),
  key('ipv6.gateway', v.ipv6Cidr, 'Gateway of the uplink with prefix.'),
  key('ipv6.ovn.ranges', ipv6Ranges, 'Ranges for OVN routers, separated by commas.'),
  key('ipv6.routes', ipv6Routes, 'Subnets OVN networks may use, separated by commas.'),
  key('ipv6.routes.anycast', v.bool, 'Let several networks use the same routes.', off),
  key('ovn.ingress_mode', v.oneOf('l2proxy', 'routed'), 'How outside traffic reaches OVN networks.', {
    default: 'l2proxy',
  }),
  key('volatile.last_state.created', v.anyText, 'Whether the host interface was made for the network.', {
    internal: true,
  }),
];

const ovnKeys = [
  ...acls,
  ...dnsZones,
  key('bridge.hwaddr', v.macAddress, 'MAC address of the router.'),
  key('bridge.mtu', v.mtu, 'MTU of the network.', { default: '1442' }),
  key('ipv4.address', bridgeIpv4, 'Address of the router with prefix; none, or auto for a free subnet.', {
    default: 'auto',
  }),
  key('ipv4.dhcp', v.bool, 'Hand out addresses by DHCP.', { default: 'true' }),
  key('ipv4.l3only', v.bool, 'Give guests an address without the subnet.', off),
  key('ipv4.nat', v.bool, 'Translate addresses of outgoing traffic.', off),
  key('ipv4.nat.address', v.ipv4Address, 'Source address of translated traffic.'),
  key('ipv6.address', bridgeIpv6, 'Address of the router with prefix; none, or auto for a random subnet.', {
    default: 'auto',
  }),
  key('ipv6.dhcp', v.bool, 'Give network settings by DHCP.', { default: 'true' }),
  key('ipv6.dhcp.stateful', v.bool, 'Hand out addresses by DHCP.', off),
  key('ipv6.l3only', v.bool, 'Give guests an address without the subnet.', off),
  key('ipv6.nat', v.bool, 'Translate addresses of outgoing traffic.', off),
  key('ipv6.nat.address', v.ipv6Address, 'Source address of translated traffic.'),
  key('network', v.anyText, 'Network to use as uplink.'),
  key('volatile.network.ipv4.address', v.anyText, 'IPv4 address on the uplink.', { internal: true }),
  key('volatile.network.ipv6.address', v.anyText, 'IPv6 address on the uplink.', { internal: true }),
  user,
];

const tables = {
  bridge: [
    ...bridgeLink,
    ...bridgeIpv4Keys,
    ...bridgeIpv6Keys,
    ...bgpPeers,
    ...dnsZones,
    ...acls,
    ...tunnels,
    key('volatile.bridge.hwaddr', v.macAddress, 'MAC address generated for the bridge.', { internal: true }),
    user,
  ],
  macvlan: parentKeys,
  sriov: parentKeys.filter((row) => row.key !== 'gvrp'),
  physical: [...parentKeys, ...physicalKeys],
  ovn: ovnKeys,
} satisfies Readonly<Record<NetworkTypeName, readonly ConfigKey[]>>;

/** Config of a network of any type, with completion. */
export type NetworkConfig = ConfigOf<(typeof tables)[NetworkTypeName][number]>;

/** Config of a network; `name` of the context is the network's. */
export function networkConfig(type: NetworkTypeName): ConfigTable {
  return {
    noun: `network-${type}`,
    keys: tables[type],
    unknown: (name, _value, context) =>
      `Invalid option for network ${v.quote(context.name ?? '')} option ${v.quote(name)}`,
    invalid: (name, _value, problem, context) =>
      `Invalid value for network ${v.quote(context.name ?? '')} option ${v.quote(name)}: ${problem}`,
  };
}
