import { isTrue } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import type { NicSpec } from '../../drivers/instance/contract.ts';
import type { HostInterfaces, NicFilters } from '../../drivers/network/contract.ts';
import type { InstanceRecord } from '../../state/records/instance.ts';
import type { NetworkRecord } from '../../state/records/network.ts';
import type { InstanceNetworks } from '../instances/ports.ts';
import type { NetworkService } from './network-service.ts';
import { checkNic } from './nic-rules.ts';

type Device = Readonly<Record<string, string>>;

export interface NicServiceOptions {
  readonly networks: Pick<NetworkService, 'managed' | 'refreshReservations'>;
  readonly interfaces: HostInterfaces;
  readonly filters: NicFilters;
}

/** Plugs instances into networks: checks nic devices, makes the host ready for them. */
export class NicService implements InstanceNetworks {
  readonly #options: NicServiceOptions;

  constructor(options: NicServiceOptions) {
    this.#options = options;
  }

  validateNic(project: string, device: Device): void {
    const network = this.#network(project, device);
    checkNic(device, network);
  }

  async prepareNic(instance: InstanceRecord, device: string, config: Device, volatile: Device): Promise<NicSpec> {
    const network = this.#network(instance.project, config);
    checkNic(config, network);
    const link = network?.name ?? config['parent'] ?? '';
    const mtu = await this.#options.interfaces.mtu(link);
    if (mtu === undefined) throw errors.badRequest(`Parent device "${link}" of nic "${device}" does not exist`);
    const nic: NicSpec = {
      device,
      name: config['name'] || volatile['name'] || device,
      kind: kindOf(config),
      link,
      hostName: config['host_name'] || volatile['host_name'] || '',
      hwaddr: config['hwaddr'] || volatile['hwaddr'] || '',
      mtu: Number(config['mtu'] || network?.config['bridge.mtu'] || mtu) || undefined,
    };
    await this.#options.networks.refreshReservations(link);
    await this.#filter(nic, config);
    return nic;
  }

  async releaseNic(_instance: InstanceRecord, _device: string, config: Device, volatile: Device): Promise<void> {
    const hostName = config['host_name'] || volatile['host_name'] || '';
    if (filters(config) && hostName !== '') await this.#options.filters.remove(hostName);
  }

  async refreshReservations(network: string): Promise<void> {
    await this.#options.networks.refreshReservations(network);
  }

  #network(project: string, device: Device): NetworkRecord | undefined {
    const name = device['network'] || (device['nictype'] === 'bridged' ? device['parent'] : undefined);
    if (name === undefined || name === '') return undefined;
    const found = this.#options.networks.managed(project, name);
    if (found === undefined && device['network']) {
      throw errors.notFound(`Failed to load network "${name}" for project "${project}": Network not found`);
    }
    return found;
  }

  async #filter(nic: NicSpec, config: Device): Promise<void> {
    if (!filters(config)) return;
    await this.#options.filters.apply({
      hostName: nic.hostName,
      hwaddr: nic.hwaddr,
      ipv4: isTrue(config['security.ipv4_filtering']) ? config['ipv4.address'] : undefined,
      ipv6: isTrue(config['security.ipv6_filtering']) ? config['ipv6.address'] : undefined,
    });
  }
}

function filters(config: Device): boolean {
  return ['mac', 'ipv4', 'ipv6'].some((kind) => isTrue(config[`security.${kind}_filtering`]));
}

function kindOf(config: Device): NicSpec['kind'] {
  if (config['nictype'] === 'macvlan') return 'macvlan';
  return config['nictype'] === 'physical' ? 'phys' : 'veth';
}
