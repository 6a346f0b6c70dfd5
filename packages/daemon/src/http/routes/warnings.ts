import { routes } from '@keelson/api';
import type { Warnings } from '../../services/warnings/contract.ts';
import { bindList } from '../list.ts';
import { empty, sync } from '../reply.ts';
import { changeOptions } from '../request.ts';
import { bind, type RouteBinding } from '../route.ts';

export function warningRoutes(warnings: Warnings): RouteBinding[] {
  return [
    // Without a project in the query, those of all.
    bindList(routes['warnings.list'], ({ query }) => warnings.list(query['project'])),
    bind(routes['warnings.get'], ({ params }) => {
      const { warning, etag } = warnings.get(params.uuid);
      return sync(warning, etag);
    }),
    bind(routes['warnings.put'], async (request) => {
      await warnings.setStatus(request.params.uuid, request.body, changeOptions(request));
      return empty();
    }),
    bind(routes['warnings.patch'], async (request) => {
      await warnings.setStatus(request.params.uuid, request.body, changeOptions(request));
      return empty();
    }),
    bind(routes['warnings.delete'], async (request) => {
      await warnings.delete(request.params.uuid, changeOptions(request));
      return empty();
    }),
  ];
}
