import { applyRuleset } from '../../host/tools/nft.ts';
import type { NicFilter, NicFilters } from './contract.ts';

/** Filters on the host side of a guest's nic, one nftables table of the bridge family per nic. */
export class NftNicFilters implements NicFilters {
  async apply(filter: NicFilter): Promise<void> {
    await applyRuleset(filterRuleset(filter));
  }

  async remove(hostName: string): Promise<void> {
    await applyRuleset(`table bridge ${tableOf(hostName)}\ndelete table bridge ${tableOf(hostName)}\n`);
  }
}

function tableOf(hostName: string): string {
  return `keelson.nic.${hostName.replace(/[^A-Za-z0-9_.-]/g, '_')}`;
}

/** One transaction that replaces the nic's table. Frames from the guest with another address than its own are dropped. */
export function filterRuleset(filter: NicFilter): string {
  const table = tableOf(filter.hostName);
  const from = `iifname "${filter.hostName}"`;
  const rules = [`${from} ether saddr != ${filter.hwaddr} drop`, `${from} arp saddr ether != ${filter.hwaddr} drop`];
  if (filter.ipv4 !== undefined) {
    rules.push(
      `${from} arp saddr ip != { 0.0.0.0, ${filter.ipv4} } drop`,
      `${from} ip saddr 0.0.0.0 ip daddr 255.255.255.255 udp dport 67 accept`,
      `${from} ip saddr != ${filter.ipv4} drop`,
    );
  }
  if (filter.ipv6 !== undefined) {
    rules.push(
      `${from} icmpv6 type nd-router-advert drop`,
      `${from} ip6 saddr != { ::, fe80::/10, ${filter.ipv6} } drop`,
      `${from} icmpv6 type nd-neighbor-advert icmpv6 taddr != { fe80::/10, ${filter.ipv6} } drop`,
    );
  }
  const chain = (hook: string): string =>
    ` chain ${hook} {\n  type filter hook ${hook} priority filter; policy accept;\n${rules.map((rule) => `  ${rule}`).join('\n')}\n }`;
  return `table bridge ${table}\ndelete table bridge ${table}\ntable bridge ${table} {\n${chain('input')}\n${chain('forward')}\n}\n`;
}
