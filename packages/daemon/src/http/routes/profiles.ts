import { routes } from '@keelson/api';
import type { Profiles } from '../../services/profiles/contract.ts';
import { bindList } from '../list.ts';
import { created, empty, sync } from '../reply.ts';
import { changeOptions } from '../request.ts';
import { bind, type RouteBinding } from '../route.ts';

export function profileRoutes(profiles: Profiles): RouteBinding[] {
  return [
    bindList(routes['profiles.list'], ({ project }) => profiles.list(project)),
    bind(routes['profiles.create'], async (request) =>
      created(await profiles.create(request.project, request.body, changeOptions(request))),
    ),
    bind(routes['profiles.get'], ({ project, params }) => {
      const { profile, etag } = profiles.get(project, params.name);
      return sync(profile, etag);
    }),
    bind(routes['profiles.put'], async (request) => {
      await profiles.put(request.project, request.params.name, request.body, changeOptions(request));
      return empty();
    }),
    bind(routes['profiles.patch'], async (request) => {
      await profiles.patch(request.project, request.params.name, request.body, changeOptions(request));
      return empty();
    }),
    bind(routes['profiles.rename'], async ({ project, params, body, caller }) =>
      created(await profiles.rename(project, params.name, body.name, { requestor: caller.requestor })),
    ),
    bind(routes['profiles.delete'], async (request) => {
      await profiles.delete(request.project, request.params.name, changeOptions(request));
      return empty();
    }),
  ];
}
