import { type Network, type NetworkLease, type NetworkState, routes } from '@keelson/api';
import type { HostInterface, Lease, NetworkService } from '../../services/networks/network-service.ts';
import { projectUrl } from '../../services/projects/scope.ts';
import { created, empty, sync } from '../reply.ts';
import { changeOptions } from '../request.ts';
import { bind, type RouteBinding } from '../route.ts';
import { hideForeignUsers } from '../used-by.ts';

export type NetworksApi = Pick<
  NetworkService,
  'list' | 'get' | 'create' | 'replace' | 'patch' | 'rename' | 'delete' | 'state' | 'leases'
>;

export function networkRoutes(networks: NetworksApi): RouteBinding[] {
  return [
    bind(routes['networks.list'], async ({ caller, project, recursion }) => {
      const list = await networks.list(project);
      return sync(
        recursion === 0 ? list.map(({ name }) => url(name, project)) : list.map((one) => hideForeignUsers(caller, one)),
      );
    }),
    bind(routes['networks.create'], async (request) => {
      await networks.create(request.project, request.body, changeOptions(request));
      return created(url(request.body.name, request.project));
    }),
    bind(routes['networks.get'], async ({ caller, project, params }) => {
      const { network, etag } = await networks.get(project, params.name);
      return sync(hideForeignUsers(caller, network satisfies ReadonlyRecord<Network>), etag);
    }),
    bind(routes['networks.put'], async (request) => {
      await networks.replace(request.project, request.params.name, request.body, changeOptions(request));
      return empty();
    }),
    bind(routes['networks.patch'], async (request) => {
      await networks.patch(request.project, request.params.name, request.body, changeOptions(request));
      return empty();
    }),
    bind(routes['networks.rename'], async (request) => {
      await networks.rename(request.project, request.params.name, request.body.name, changeOptions(request));
      return created(url(request.body.name, request.project));
    }),
    bind(routes['networks.delete'], async (request) => {
      await networks.delete(request.project, request.params.name, changeOptions(request));
      return empty();
    }),
    bind(routes['networks.state'], async ({ project, params }) =>
      sync(stateOf(await networks.state(project, params.name))),
    ),
    bind(routes['networks.leases'], async ({ project, params }) => {
      const leases = await networks.leases(project, params.name);
      return sync(leases.map(leaseOf));
    }),
  ];
}

type ReadonlyRecord<T> = { readonly [K in keyof T]: T[K] extends (infer I)[] | null ? readonly I[] | null : T[K] };

function url(name: string, project: string): string {
  return projectUrl(`/1.0/networks/${encodeURIComponent(name)}`, project);
}

function leaseOf(lease: Lease): NetworkLease {
  return {
    hostname: lease.hostname,
    hwaddr: lease.hwaddr,
    address: lease.address,
    type: lease.type,
    location: lease.type === 'gateway' ? '' : 'none',
  };
}

function stateOf(state: HostInterface): NetworkState {
  const { counters, bridge } = state;
  return {
    addresses: state.addresses.map((address) => ({ ...address })),
    counters: {
      bytes_received: counters.bytesReceived,
      bytes_sent: counters.bytesSent,
      packets_received: counters.packetsReceived,
      packets_sent: counters.packetsSent,
    },
    hwaddr: state.hwaddr,
    mtu: state.mtu,
    state: state.state,
    type: state.type,
    bond: null,
    bridge:
      bridge === undefined
        ? null
        : {
            id: bridge.id,
            stp: bridge.stp,
            forward_delay: bridge.forwardDelay,
            vlan_default: bridge.vlanDefault,
            vlan_filtering: bridge.vlanFiltering,
            upper_devices: [...bridge.upperDevices],
          },
    vlan: null,
    ovn: null,
  };
}
