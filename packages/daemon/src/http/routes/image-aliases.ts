import { routes } from '@keelson/api';
import { mayUseProject } from '../../services/certificates/caller.ts';
import type { ImageAliases } from '../../services/images/contract.ts';
import { bindList } from '../list.ts';
import { created, empty, sync } from '../reply.ts';
import { changeOptions } from '../request.ts';
import { bind, type RouteBinding } from '../route.ts';

export function imageAliasRoutes(aliases: ImageAliases): RouteBinding[] {
  return [
    bindList(routes['image-aliases.list'], ({ project }) => aliases.list(project)),
    bind(routes['image-aliases.create'], async (request) =>
      created(await aliases.create(request.project, request.body, changeOptions(request))),
    ),
    bind(routes['image-aliases.get'], ({ project, params, caller }) => {
      const { alias, etag } = aliases.get(project, params.name, mayUseProject(caller, project));
      return sync(alias, etag);
    }),
    bind(routes['image-aliases.put'], async (request) => {
      await aliases.put(request.project, request.params.name, request.body, changeOptions(request));
      return empty();
    }),
    bind(routes['image-aliases.patch'], async (request) => {
      await aliases.patch(request.project, request.params.name, request.body, changeOptions(request));
      return empty();
    }),
    bind(routes['image-aliases.rename'], async (request) =>
      created(await aliases.rename(request.project, request.params.name, request.body.name, changeOptions(request))),
    ),
    bind(routes['image-aliases.delete'], async (request) => {
      await aliases.delete(request.project, request.params.name, changeOptions(request));
      return empty();
    }),
  ];
}
