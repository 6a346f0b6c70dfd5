import { Cluster, ClusterMember } from '../resources/cluster.ts';
import { defineRoute, ListOf, ListQuery } from './define.ts';

export const clusterRoutes = {
  'cluster.get': defineRoute({
    id: 'cluster.get',
    method: 'GET',
    path: '/1.0/cluster',
    kind: 'sync',
    access: 'user',
    extension: 'clustering',
    etag: true,
    response: Cluster,
  }),
  'cluster-members.list': defineRoute({
    id: 'cluster-members.list',
    method: 'GET',
    path: '/1.0/cluster/members',
    kind: 'sync',
    access: 'user',
    extension: 'clustering',
    query: ListQuery,
    response: ListOf(ClusterMember),
  }),
  'cluster-members.get': defineRoute({
    id: 'cluster-members.get',
    method: 'GET',
    path: '/1.0/cluster/members/:name',
    kind: 'sync',
    access: 'user',
    extension: 'clustering',
    etag: true,
    response: ClusterMember,
  }),
} as const;
