import { routes } from '@keelson/api';
import type { InstanceService } from '../../services/instances/instance-service.ts';
import { bindList } from '../list.ts';
import { operation, raw, sync } from '../reply.ts';
import { bind, type RouteBinding } from '../route.ts';
import { instanceOptions } from './instances.ts';

export function instanceBackupRoutes({ backups }: Pick<InstanceService, 'backups'>): RouteBinding[] {
  return [
    bindList(routes['instance-backups.list'], ({ project, params }) => backups.list(project, params.name)),
    bind(routes['instance-backups.create'], (request) =>
      operation(backups.create(request.project, request.params.name, request.body, instanceOptions(request))),
    ),
    bind(routes['instance-backups.get'], ({ project, params }) =>
      sync(backups.get(project, params.name, params.backup)),
    ),
    bind(routes['instance-backups.rename'], (request) => {
      const { name, backup } = request.params;
      return operation(
        backups.rename(request.project, name, { from: backup, to: request.body.name }, instanceOptions(request)),
      );
    }),
    bind(routes['instance-backups.delete'], (request) => {
      const { name, backup } = request.params;
      return operation(backups.delete(request.project, name, backup, instanceOptions(request)));
    }),
    bind(routes['instance-backups.export'], async (request) => {
      const { name, backup } = request.params;
      const { body, size } = await backups.export(request.project, name, backup, instanceOptions(request));
      return raw(body, { 'Content-Type': 'application/octet-stream', 'Content-Length': String(size) });
    }),
  ];
}
