import * as v from '../values/index.ts';
import { type ConfigKey, key } from './table.ts';

const off = { default: 'false' } as const;
const live = { live: true } as const;
const ipv4Routes = v.listOf(v.ipv4Network);
const ipv6Routes = v.listOf(v.ipv6Network);
const gateway: v.ValueType = {
  name: 'one of auto, none, or an address',
  check: (value) =>
    ['auto', 'none'].includes(value) || v.ipAddress.check(value) === undefined
      ? undefined
      : `Invalid gateway: ${value}`,
};
const automatic: v.ValueType = {
  name: 'one of auto, none',
  check: (value) => (['auto', 'none'].includes(value) ? undefined : `Invalid gateway: ${value}`),
};
const vlanRanges: v.ValueType = {
  name: 'VLAN ids and ranges',
  check: (value) =>
    value.split(',').every((part) => /^\s*\d{1,4}(-\d{1,4})?\s*$/.test(part))
      ? undefined
      : `Invalid VLAN range input: ${value}`,
};

const nictype = key('nictype', v.anyText, 'Kind of nic; decided by the network when one is given.');
const parent = key('parent', v.anyText, 'Host interface.', { required: true });
const network = key('network', v.anyText, 'Managed network to plug into, instead of nictype.');
const vlan = key('vlan', v.vlanId, 'VLAN to join.');
const gvrp = key('gvrp', v.bool, 'Register the VLAN by GVRP.', off);
const bootPriority = key('boot.priority', v.uint32, 'Boot order; higher boots first.', { only: 'virtual-machine' });
const hostName = key('host_name', v.anyText, 'Interface on the host; generated unless given.');
const acls = [
  key('security.acls', v.anyText, 'Network ACLs of the nic, separated by commas.', live),
  key(
    'security.acls.default.egress.action',
    v.oneOf('allow', 'reject', 'drop'),
    'Outgoing traffic that no rule matches.',
    { ...live, default: 'reject' },
  ),
  key('security.acls.default.egress.logged', v.bool, 'Log outgoing traffic that no rule matches.', { ...live, ...off }),
  key(
    'security.acls.default.ingress.action',
    v.oneOf('allow', 'reject', 'drop'),
    'Incoming traffic that no rule matches.',
    { ...live, default: 'reject' },
  ),
  key('security.acls.default.ingress.logged', v.bool, 'Log incoming traffic that no rule matches.', {
    ...live,
    ...off,
  }),
];

const link = [
  nictype,
  key('hwaddr', v.macAddress, 'MAC address; generated unless given.'),
  key('mtu', v.mtu, 'MTU of the interface; that of the parent unless given.'),
  key('name', v.interfaceName, 'Interface in the instance; the kernel chooses unless given.'),
];

const maas = [
  key('maas.subnet.ipv4', v.anyText, 'MAAS subnet to register the IPv4 address in.'),
  key('maas.subnet.ipv6', v.anyText, 'MAAS subnet to register the IPv6 address in.'),
];

const rates = [
  key('limits.egress', v.bitRate, 'Bits per second out of the instance, such as 10Mbit.', live),
  key('limits.ingress', v.bitRate, 'Bits per second into the instance, such as 10Mbit.', live),
  key('limits.max', v.bitRate, 'Bits per second in each direction.', live),
];

const routes = [
  key('ipv4.routes', ipv4Routes, 'Subnets to route to the nic, separated by commas.', live),
  key('ipv6.routes', ipv6Routes, 'Subnets to route to the nic, separated by commas.', live),
];

const externalRoutes = [
  key(
    'ipv4.routes.external',
    ipv4Routes,
    'Subnets to route to the nic and announce outside, separated by commas.',
    live,
  ),
  key(
    'ipv6.routes.external',
    ipv6Routes,
    'Subnets to route to the nic and announce outside, separated by commas.',
    live,
  ),
];

const addresses = [
  key(
    'ipv4.address',
    v.anyOf(v.oneOf('none'), v.ipv4Address),
    'Address to hand out by DHCP; none with filtering blocks IPv4.',
    live,
  ),
  key(
    'ipv6.address',
    v.anyOf(v.oneOf('none'), v.ipv6Address),
    'Address to hand out by DHCP; none with filtering blocks IPv6.',
    live,
  ),
];

const filtering = [
  key('security.ipv4_filtering', v.bool, 'Drop IPv4 from addresses that are not its own.', { ...live, ...off }),
  key('security.ipv6_filtering', v.bool, 'Drop IPv6 from addresses that are not its own.', { ...live, ...off }),
  key('security.mac_filtering', v.bool, 'Drop frames from MAC addresses that are not its own.', { ...live, ...off }),
];

const routedFamily = <const F extends 4 | 6>(family: F, gateway: v.ValueType) => {
  const address = family === 4 ? v.ipv4Address : v.ipv6Address;
  return [
    key(
      `ipv${family}.address` as const,
      v.listOf(address),
      `IPv${family} addresses of the instance, separated by commas.`,
    ),
    key(`ipv${family}.gateway` as const, gateway, `Whether to add a default IPv${family} gateway.`, {
      default: 'auto',
    }),
    key(`ipv${family}.host_table` as const, v.uint32, 'Routing table to add the routes to, beside the main one.'),
  ];
};

const hostAddresses = [
  key('ipv4.host_address', v.ipv4Address, 'Address of the host side.', { default: '169.254.0.1' }),
  key('ipv4.neighbor_probe', v.bool, 'Look whether the address is in use on the parent.', { default: 'true' }),
  key('ipv6.host_address', v.ipv6Address, 'Address of the host side.', { default: 'fe80::1' }),
  key('ipv6.neighbor_probe', v.bool, 'Look whether the address is in use on the parent.', { default: 'true' }),
];

/** Options of each kind of nic. */
export const nicKeys = {
  bridged: [
    ...link,
    ...maas,
    ...rates,
    ...routes,
    ...externalRoutes,
    ...addresses,
    ...filtering,
    bootPriority,
    hostName,
    network,
    key('parent', v.anyText, 'Bridge on the host.'),
    key('security.port_isolation', v.bool, 'Cut the nic off from other isolated ones on the bridge.', {
      ...live,
      ...off,
    }),
    key('vlan', v.anyOf(v.oneOf('none'), v.vlanId), 'VLAN of untagged traffic; none leaves the default.', live),
    key('vlan.tagged', vlanRanges, 'VLANs of tagged traffic, separated by commas.', live),
  ],
  ipvlan: [
    ...link,
    ...routedFamily(4, gateway),
    ...routedFamily(6, gateway),
    gvrp,
    parent,
    vlan,
    key(
      'mode',
      {
        name: 'one of l3s, l2',
        check: (value) => (['l3s', 'l2'].includes(value) ? undefined : 'Must be one of: l3s, l2'),
      },
      'IPVLAN mode.',
      { default: 'l3s' },
    ),
  ],
  macvlan: [...link, ...maas, bootPriority, gvrp, network, key('parent', v.anyText, 'Host interface.'), vlan],
  ovn: [
    ...link,
    ...acls,
    ...addresses,
    ...routes,
    ...externalRoutes,
    bootPriority,
    hostName,
    network,
    key('acceleration', v.oneOf('none', 'sriov'), 'Hardware offload.', { default: 'none' }),
    key('nested', v.anyText, 'nic to nest this one under.'),
    vlan,
  ],
  p2p: [...link, ...rates, ...routes, bootPriority, hostName],
  physical: [
    ...link,
    ...maas,
    bootPriority,
    gvrp,
    network,
    key('parent', v.anyText, 'Host interface to hand over.'),
    vlan,
  ],
  routed: [
    ...link,
    ...rates,
    ...routes,
    ...routedFamily(4, automatic),
    ...routedFamily(6, automatic),
    ...hostAddresses,
    gvrp,
    hostName,
    key('parent', v.anyText, 'Host interface to join the network of.'),
    vlan,
  ],
  sriov: [
    ...link,
    ...maas,
    bootPriority,
    network,
    key('parent', v.anyText, 'Host interface to take a virtual function of.'),
    key('security.mac_filtering', v.bool, 'Drop frames from MAC addresses that are not its own.', off),
    vlan,
  ],
} as const satisfies Readonly<Record<string, readonly ConfigKey[]>>;

export type NicTypeName = keyof typeof nicKeys;
