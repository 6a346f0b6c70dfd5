import { routes } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import { type Caller, mayUseProject } from '../../services/certificates/caller.ts';
import type { Projects } from '../../services/projects/contract.ts';
import { bindList } from '../list.ts';
import { created, empty, operation, sync } from '../reply.ts';
import { changeOptions } from '../request.ts';
import { bind, type RouteBinding } from '../route.ts';

export function projectRoutes(projects: Projects): RouteBinding[] {
  return [
    bindList(routes['projects.list'], ({ caller }) => projects.list(caller)),
    bind(routes['projects.create'], async (request) =>
      created(await projects.create(request.body, changeOptions(request))),
    ),
    bind(routes['projects.get'], ({ caller, params }) => {
      checkVisible(caller, params.name);
      const { project, etag } = projects.get(params.name);
      return sync(project, etag);
    }),
    bind(routes['projects.put'], async (request) => {
      await projects.put(request.params.name, request.body, changeOptions(request));
      return empty();
    }),
    bind(routes['projects.patch'], async (request) => {
      await projects.patch(request.params.name, request.body, changeOptions(request));
      return empty();
    }),
    bind(routes['projects.rename'], (request) =>
      operation(projects.rename(request.params.name, request.body.name, changeOptions(request))),
    ),
    bind(routes['projects.delete'], async (request) => {
      await projects.delete(request.params.name, changeOptions(request));
      return empty();
    }),
    bind(routes['projects.state'], ({ caller, params }) => {
      checkVisible(caller, params.name);
      return sync(projects.state(params.name));
    }),
  ];
}

/** A project the caller may not use does not exist for it. @throws not-found */
function checkVisible(caller: Caller, project: string): void {
  if (!mayUseProject(caller, project)) throw errors.notFound('Project not found');
}
