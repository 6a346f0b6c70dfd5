import { isIPv4, isIPv6 } from 'node:net';
import { isTrue, names, values, type ValueType } from '@keelson/api';
import ipaddr from 'ipaddr.js';
import { errors } from '../../core/errors.ts';
import type { NetworkRecord } from '../../state/records/network.ts';

type Device = Readonly<Record<string, string>>;

/** What the value of a key must be, where one is given. */
const TYPES: Readonly<Record<string, ValueType>> = {
  name: names.interfaceName,
  host_name: names.interfaceName,
  parent: names.interfaceName,
  hwaddr: values.macAddress,
  mtu: values.mtu,
  'boot.priority': values.uint32,
};

/** Keys of nics Keelson plugs in. */
const KEYS: ReadonlySet<string> = new Set([
  'type',
  'network',
  'nictype',
  'parent',
  'name',
  'hwaddr',
  'host_name',
  'mtu',
  'ipv4.address',
  'ipv6.address',
  'security.mac_filtering',
  'security.ipv4_filtering',
  'security.ipv6_filtering',
  'boot.priority',
]);

/** LXD's keys that this server does not offer yet. */
const UNSUPPORTED: ReadonlySet<string> = new Set([
  'ipv4.routes',
  'ipv6.routes',
  'ipv4.routes.external',
  'ipv6.routes.external',
  'limits.ingress',
  'limits.egress',
  'limits.max',
  'vlan',
  'vlan.tagged',
  'security.port_isolation',
  'security.acls',
  'queue.tx.length',
  'maas.subnet.ipv4',
  'maas.subnet.ipv6',
  'ipv4.gateway',
  'ipv6.gateway',
  'ipv4.host_address',
  'ipv6.host_address',
  'ipv4.neighbor_probe',
  'ipv6.neighbor_probe',
  'mode',
  'gvrp',
]);

const NIC_TYPES = ['bridged', 'macvlan', 'physical'];
const OTHER_NIC_TYPES = ['p2p', 'ipvlan', 'routed', 'sriov', 'ovn'];

/**
 * Checks a nic device by itself and against its managed network.
 * @throws bad-request with LXD's text, naming the option.
 */
export function checkNic(device: Device, network: NetworkRecord | undefined): void {
  checkKind(device);
  for (const key of Object.keys(device)) {
    if (KEYS.has(key) || key.startsWith('user.')) continue;
    if (UNSUPPORTED.has(key)) throw errors.badRequest(`Device option "${key}" is not supported by this server`);
    throw errors.badRequest(`Invalid device option "${key}"`);
  }
  checkValues(device);
  checkAddresses(device, network);
}

function checkKind(device: Device): void {
  if (device['network']) {
    for (const key of ['nictype', 'parent', 'mtu', 'vlan', 'maas.subnet.ipv4', 'maas.subnet.ipv6']) {
      if (device[key]) throw errors.badRequest(`Cannot use "${key}" property in conjunction with "network" property`);
    }
    return;
  }
  const type = device['nictype'] ?? '';
  if (OTHER_NIC_TYPES.includes(type))
    throw errors.badRequest(`Nics of type "${type}" are not supported by this server`);
  if (!NIC_TYPES.includes(type)) throw errors.badRequest('Unsupported device type');
  if (!device['parent']) throw invalid('parent', 'Required value');
}

function checkValues(device: Device): void {
  for (const [key, type] of Object.entries(TYPES)) {
    const value = device[key];
    const problem = value ? type.check(value) : undefined;
    if (problem !== undefined) throw invalid(key, problem);
  }
}

function checkAddresses(device: Device, network: NetworkRecord | undefined): void {
  const own = network === undefined ? undefined : `on network "${network.name}"`;
  for (const family of [4, 6] as const) {
    const key = `ipv${family}.address`;
    const address = device[key];
    if (isTrue(device[`security.ipv${family}_filtering`]) && !address) {
      throw invalid(`security.ipv${family}_filtering`, `Needs a fixed "${key}"`);
    }
    if (!address || address === 'none') continue;
    if (
      family === 6 &&
      network !== undefined &&
      !isTrue(network.config['ipv6.dhcp.stateful']) &&
      !isTrue(device['security.ipv6_filtering'])
    ) {
      throw errors.badRequest(
        `Cannot specify "ipv6.address" when DHCP or "ipv6.dhcp.stateful" are disabled (unless using security.ipv6_filtering) ${own}`,
      );
    }
    if (!(family === 4 ? isIPv4(address) : isIPv6(address)) || !inSubnet(address, network?.config[key])) {
      throw errors.badRequest(
        `Device IP address "${address}" not within network "${network?.name ?? device['parent']}" subnet`,
      );
    }
  }
}

/** True also when there is no managed subnet to compare with. */
function inSubnet(address: string, subnet: string | undefined): boolean {
  if (subnet === undefined || subnet === 'none') return subnet === undefined;
  const [base, prefix] = ipaddr.parseCIDR(subnet);
  const parsed = ipaddr.parse(address);
  return parsed.kind() === base.kind() && parsed.match([base, prefix]);
}

function invalid(key: string, problem: string): Error {
  return errors.badRequest(`Invalid value for device option "${key}": ${problem}`);
}
