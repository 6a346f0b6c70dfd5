import { routes } from '@keelson/api';
import type { ClusterMembership } from '../../services/cluster/contract.ts';
import { sync } from '../reply.ts';
import { bind, type RouteBinding } from '../route.ts';

export function clusterRoutes(membership: ClusterMembership): RouteBinding[] {
  return [
    bind(routes['cluster.get'], () => {
      const { cluster, etag } = membership.get();
      return sync(cluster, etag);
    }),
    bind(routes['cluster-members.list'], () => membership.members()),
    bind(routes['cluster-members.get'], () => membership.members()),
  ];
}
