import { randomInt } from 'node:crypto';
import { NftNicFilters } from '../drivers/network/nic-filter.ts';
import { networkDrivers } from '../drivers/network/registry.ts';
import { SysfsInterfaces } from '../host/interfaces.ts';
import { networkRoutes } from '../http/routes/networks.ts';
import { NetworkService } from '../services/networks/network-service.ts';
import { NicService } from '../services/networks/nic-service.ts';
import { NetworkUsage } from '../services/networks/usage.ts';
import type { ProjectGuard } from '../services/projects/contract.ts';
import { effectiveProject } from '../services/projects/scope.ts';
import type { Foundations } from './foundations.ts';
import type { Vertical } from './vertical.ts';

export interface NetworksVertical extends Vertical {
  readonly service: NetworkService;
  /** What instances need of networks. */
  readonly nics: NicService;
}

/** Networks stay up when the daemon ends; only its watch over their DHCP servers does not. */
export function networksVertical(
  base: Foundations,
  guard: Pick<ProjectGuard, 'checkNewNetwork'>,
  stack: AsyncDisposableStack,
): NetworksVertical {
  const { records, events, intents, operations, log, paths } = base;
  const interfaces = new SysfsInterfaces();
  const drivers = networkDrivers({ interfaces, log, random: randomInt, seed: paths.root });
  for (const driver of drivers.values()) stack.defer(() => driver.dispose());
  const usage = new NetworkUsage(records.instances, records.profiles);
  const service = new NetworkService({
    networks: records.networks,
    usage,
    drivers,
    interfaces,
    events,
    intents,
    operations,
    log,
    guard,
    projectFor: (project) => effectiveProject(records.projects, project, 'networks'),
    path: (name) => paths.network(name),
  });
  const nics = new NicService({ networks: service, interfaces, filters: new NftNicFilters() });
  return { service, nics, routes: networkRoutes(service), start: () => service.startAll() };
}
