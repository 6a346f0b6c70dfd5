import { routes } from '@keelson/api';
import type { InstanceService } from '../../services/instances/instance-service.ts';
import { bindList } from '../list.ts';
import { operation, sync } from '../reply.ts';
import { bind, type RouteBinding } from '../route.ts';
import { instanceOptions, reachOptions } from './instances.ts';

type Parts = Pick<InstanceService, 'snapshots' | 'departures'>;

export function instanceSnapshotRoutes({ snapshots, departures }: Parts): RouteBinding[] {
  return [
    bindList(routes['instance-snapshots.list'], ({ project, params }) => snapshots.list(project, params.name)),
    bind(routes['instance-snapshots.create'], (request) =>
      operation(snapshots.create(request.project, request.params.name, request.body, instanceOptions(request))),
    ),
    bind(routes['instance-snapshots.get'], ({ project, params }) => {
      const { snapshot, etag } = snapshots.get(project, params.name, params.snapshot);
      return sync(snapshot, etag);
    }),
    ...(['instance-snapshots.put', 'instance-snapshots.patch'] as const).map((id) =>
      bind(routes[id], (request) => {
        const at = { project: request.project, ...request.params };
        return operation(snapshots.change(at, request.body, instanceOptions(request)));
      }),
    ),
    bind(routes['instance-snapshots.post'], (request) => {
      const at = { project: request.project, ...request.params };
      if (request.body.migration === true)
        return operation(departures.startSnapshot(at, request.body, reachOptions(request)));
      return operation(snapshots.rename(at, request.body.name ?? '', instanceOptions(request)));
    }),
    bind(routes['instance-snapshots.delete'], (request) => {
      const { name, snapshot } = request.params;
      return operation(snapshots.delete(request.project, name, snapshot, instanceOptions(request)));
    }),
  ];
}
