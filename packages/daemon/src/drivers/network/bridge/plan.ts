import { join } from 'node:path';
import type { IpAddress, IpCommand } from '../../../host/tools/ip.ts';
import type { NetworkSpec, Reservation } from '../contract.ts';
import { type Cidr, fromNumber, hostRange, parseCidr, subnetOf } from '../subnets.ts';
import { isTrue, splitList } from './config.ts';

/** A bridge's config, read once. */
export interface BridgePlan {
  readonly name: string;
  readonly mtu: string;
  readonly hwaddr: string;
  readonly ipv4: Cidr | undefined;
  readonly ipv6: Cidr | undefined;
  readonly config: Readonly<Record<string, string>>;
  readonly path: string;
}

export function readBridge(spec: NetworkSpec, hwaddr: string): BridgePlan {
  return {
    name: spec.name,
    mtu: spec.config['bridge.mtu'] || '1500',
    hwaddr: spec.config['bridge.hwaddr'] || hwaddr,
    ipv4: parseCidr(spec.config['ipv4.address'] ?? ''),
    ipv6: parseCidr(spec.config['ipv6.address'] ?? ''),
    config: spec.config,
    path: spec.path,
  };
}

/** Commands that make the interface as wanted from what is there; none when it is already so. */
export function interfaceCommands(
  plan: BridgePlan,
  now: {
    readonly exists: boolean;
    readonly addresses: readonly IpAddress[];
    readonly mtu?: number;
    readonly hwaddr?: string;
    readonly up?: boolean;
  },
): IpCommand[] {
  const commands: IpCommand[] = [];
  if (!now.exists) commands.push(['link', 'add', 'dev', plan.name, 'address', plan.hwaddr, 'type', 'bridge']);
  else if (now.hwaddr !== plan.hwaddr) commands.push(['link', 'set', 'dev', plan.name, 'address', plan.hwaddr]);
  if (now.mtu !== Number(plan.mtu)) commands.push(['link', 'set', 'dev', plan.name, 'mtu', plan.mtu]);
  if (now.up !== true) commands.push(['link', 'set', 'dev', plan.name, 'up']);
  const wanted = [plan.ipv4, plan.ipv6].filter((cidr) => cidr !== undefined);
  for (const have of now.addresses) {
    if (have.scope !== 'global' || wanted.some((cidr) => cidr.address === have.address && cidr.prefix === have.prefix))
      continue;
    commands.push(['addr', 'del', 'dev', plan.name, `${have.address}/${have.prefix}`]);
  }
  for (const cidr of wanted) {
    if (now.addresses.some((have) => cidr.address === have.address && cidr.prefix === have.prefix)) continue;
    const flags = cidr.family === 6 ? ['nodad'] : [];
    // In a batch ip takes no options such as -6; the address names its family.
    commands.push(['addr', 'add', 'dev', plan.name, `${cidr.address}/${cidr.prefix}`, ...flags]);
  }
  return commands;
}

/** Static routes of the bridge (`ipv4.routes`, `ipv6.routes`). */
export function routeCommands(plan: BridgePlan): IpCommand[] {
  const routes = ([4, 6] as const).flatMap((family) => splitList(plan.config[`ipv${family}.routes`]));
  return routes.map((route) => ['route', 'replace', route, 'dev', plan.name, 'proto', 'static']);
}

/** Name of the nftables table that holds everything of one network. */
export function tableOf(network: string): string {
  return `keelson.${network.replace(/[^A-Za-z0-9_.-]/g, '_')}`;
}

/** One transaction that replaces the network's table; an empty plan only removes it. */
export function ruleset(plan: BridgePlan | undefined, network: string): string {
  const table = tableOf(network);
  const head = [`table inet ${table}`, `delete table inet ${table}`];
  if (plan === undefined) return `${head.join('\n')}\n`;
  const chains = [natChain(plan), ...filterChains(plan)].filter((chain) => chain !== undefined);
  return `${head.join('\n')}\ntable inet ${table} {\n${chains.join('\n')}\n}\n`;
}

function chain(name: string, hook: string, rules: readonly string[]): string | undefined {
  if (rules.length === 0) return undefined;
  return ` chain ${name} {\n  ${hook}; policy accept;\n${rules.map((rule) => `  ${rule}`).join('\n')}\n }`;
}

function natChain(plan: BridgePlan): string | undefined {
  const rules = families(plan).flatMap(({ family, cidr }) => {
    if (!isTrue(plan.config[`ipv${family}.nat`])) return [];
    const words = family === 4 ? 'ip' : 'ip6';
    const subnet = subnetOf(cidr);
    const address = plan.config[`ipv${family}.nat.address`];
    return [
      `${words} saddr ${subnet} ${words} daddr != ${subnet} ${address ? `snat ${words} to ${address}` : 'masquerade'}`,
    ];
  });
  const after = plan.config['ipv4.nat.order'] === 'after' || plan.config['ipv6.nat.order'] === 'after';
  return chain('postrouting', `type nat hook postrouting priority ${after ? 'srcnat + 1' : 'srcnat'}`, rules);
}

const ICMP4 = 'icmp type { destination-unreachable, time-exceeded, parameter-problem }';
const ICMP6_IN =
  'icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem, nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert, mld2-listener-report }';

/** Opens DHCP, DNS and forwarding in tables of ours; other tables' drops still hold, as nftables defines it. */
function filterChains(plan: BridgePlan): (string | undefined)[] {
  const forward: string[] = [];
  const input: string[] = [];
  for (const { family } of families(plan)) {
    if (!isTrue(plan.config[`ipv${family}.firewall`], true)) continue;
    const protocol = family === 4 ? 'ipv4' : 'ipv6';
    const verdict = isTrue(plan.config[`ipv${family}.routing`], true) ? 'accept' : 'reject';
    forward.push(
      `meta nfproto ${protocol} oifname "${plan.name}" ${verdict}`,
      `meta nfproto ${protocol} iifname "${plan.name}" ${verdict}`,
    );
    input.push(
      `iifname "${plan.name}" meta nfproto ${protocol} meta l4proto { tcp, udp } th dport 53 accept`,
      `iifname "${plan.name}" ${family === 4 ? ICMP4 : ICMP6_IN} accept`,
      `iifname "${plan.name}" udp dport ${family === 4 ? 67 : 547} accept`,
    );
  }
  return [
    chain('forward', 'type filter hook forward priority filter', forward),
    chain('input', 'type filter hook input priority filter', input),
  ];
}

function families(plan: BridgePlan): { family: 4 | 6; cidr: Cidr }[] {
  const all: { family: 4 | 6; cidr: Cidr | undefined }[] = [
    { family: 4, cidr: plan.ipv4 },
    { family: 6, cidr: plan.ipv6 },
  ];
  return all.filter((one): one is { family: 4 | 6; cidr: Cidr } => one.cidr !== undefined);
}

export const dnsmasqFiles = (path: string): Record<'pid' | 'leases' | 'hosts' | 'raw' | 'args', string> => ({
  pid: join(path, 'dnsmasq.pid'),
  leases: join(path, 'dnsmasq.leases'),
  hosts: join(path, 'dnsmasq.hosts'),
  raw: join(path, 'dnsmasq.raw'),
  args: join(path, 'dnsmasq.args'),
});

/** dnsmasq's arguments; undefined when the bridge has no address to serve. */
export function dnsmasqArgs(plan: BridgePlan): string[] | undefined {
  if (plan.ipv4 === undefined && plan.ipv6 === undefined) return undefined;
  const files = dnsmasqFiles(plan.path);
  const args = [
    '--strict-order',
    '--bind-interfaces',
    '--except-interface=lo',
    `--interface=${plan.name}`,
    '--no-ping',
    '--dhcp-rapid-commit',
    '--quiet-dhcp',
    '--quiet-dhcp6',
    '--quiet-ra',
    '--dhcp-no-override',
    '--dhcp-authoritative',
    `--dhcp-leasefile=${files.leases}`,
    `--dhcp-hostsfile=${files.hosts}`,
    `--conf-file=${files.raw}`,
    '--user=nobody',
    ...dnsArgs(plan),
    ...dhcp4Args(plan),
    ...dhcp6Args(plan),
  ];
  return args;
}

function dnsArgs(plan: BridgePlan): string[] {
  const mode = plan.config['dns.mode'] || 'managed';
  const domain = plan.config['dns.domain'] || 'keelson';
  const search = splitList(plan.config['dns.search']);
  const listen = [plan.ipv4, plan.ipv6]
    .filter((cidr) => cidr !== undefined)
    .map((cidr) => `--listen-address=${cidr.address}`);
  const option = search.length === 0 ? [] : [`--dhcp-option-force=119,${search.join(',')}`];
  if (mode === 'none') return [...listen, '--port=0', ...option];
  return [
    ...listen,
    `--domain=${domain}`,
    `--interface-name=_gateway.${domain},${plan.name}`,
    `--server=/${domain}/`,
    ...option,
  ];
}

function dhcp4Args(plan: BridgePlan): string[] {
  if (plan.ipv4 === undefined || !isTrue(plan.config['ipv4.dhcp'], true)) return [];
  const expiry = plan.config['ipv4.dhcp.expiry'] || '1h';
  const gateway = plan.config['ipv4.dhcp.gateway'];
  const mtu = plan.mtu === '1500' ? [] : [`--dhcp-option-force=26,${plan.mtu}`];
  const ranges = splitList(plan.config['ipv4.dhcp.ranges']).map((range) => range.split('-').map((end) => end.trim()));
  if (ranges.length === 0) ranges.push(defaultRange(plan.ipv4));
  return [
    ...(gateway ? [`--dhcp-option-force=3,${gateway}`] : []),
    ...mtu,
    ...ranges.map(([first, last]) => `--dhcp-range=${first},${last},${expiry}`),
  ];
}

/** The whole subnet but the bridge's own address, which stands at one end or is skipped by dnsmasq itself. */
function defaultRange(cidr: Cidr): string[] {
  const { first, last } = hostRange(cidr);
  const start = fromNumber(first, 4) === cidr.address && first < last ? first + 1n : first;
  return [fromNumber(start, 4), fromNumber(last, 4)];
}

function dhcp6Args(plan: BridgePlan): string[] {
  if (plan.ipv6 === undefined) return [];
  const advertise = ['--enable-ra'];
  if (!isTrue(plan.config['ipv6.dhcp'], true))
    return [...advertise, `--dhcp-range=::,constructor:${plan.name},ra-only`];
  if (!isTrue(plan.config['ipv6.dhcp.stateful']))
    return [...advertise, `--dhcp-range=::,constructor:${plan.name},ra-stateless,ra-names`];
  const expiry = plan.config['ipv6.dhcp.expiry'] || '1h';
  const ranges = splitList(plan.config['ipv6.dhcp.ranges']).map((range) => range.split('-').map((end) => end.trim()));
  if (ranges.length === 0) {
    const { first, last } = hostRange(plan.ipv6);
    ranges.push([fromNumber(first + 1n, 6), fromNumber(last, 6)]);
  }
  return [
    ...advertise,
    ...ranges.map(([first, last]) => `--dhcp-range=${first},${last},${plan.ipv6?.prefix ?? 64},${expiry}`),
  ];
}

/** dnsmasq's hosts file: one line per nic, so that DNS knows a guest by its own name whatever it sends. */
export function hostsFile(reservations: readonly Reservation[]): string {
  const lines = reservations.map((one) => {
    const name = one.project === 'default' ? one.instance : `${one.instance}.${one.project}`;
    const addresses = [one.ipv4, one.ipv6 === undefined ? undefined : `[${one.ipv6}]`].filter(
      (address) => address !== undefined,
    );
    return [one.hwaddr, ...addresses, name].join(',');
  });
  return lines
    .sort()
    .map((line) => `${line}\n`)
    .join('');
}

/** Lines of a lease file: `expiry hwaddr address hostname client-id` (IPv6 lines carry the DUID and iaid). */
export function parseLeases(text: string): { address: string; hwaddr: string; hostname: string }[] {
  return text
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields.length >= 4 && fields[0] !== 'duid')
    .map(([, identity = '', address = '', hostname = '']) => ({
      address,
      hwaddr: /^([0-9a-f]{2}:){5}[0-9a-f]{2}$/i.test(identity) ? identity : '',
      hostname: hostname === '*' ? '' : hostname,
    }));
}
