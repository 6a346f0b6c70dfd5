import type { RouteDefinition } from '@keelson/api';
import { errors, type KeelsonError } from '../core/errors.ts';
import { isAdmin, mayUseProject, type Caller } from '../services/certificates/caller.ts';

/** What the front door knows about projects. */
export interface ProjectLookup {
  exists(project: string): boolean;
}

const forbidden = (): KeelsonError => errors.unauthorized('not authorized');

/**
 * The one access check: what the route declares against who asks and for which projects, the same for every
 * recursion mode. Routes for untrusted callers decide in their service what such a caller may see.
 * @throws unauthorized; not-found when the project does not exist.
 */
export function checkAccess(
  route: RouteDefinition,
  caller: Caller,
  scope: RequestScope,
  projects: ProjectLookup,
): void {
  if (caller.kind !== 'unix' && route.access !== 'untrusted') {
    if (caller.kind === 'untrusted' || caller.kind === 'metrics') throw forbidden();
    if (route.access === 'admin' && !isAdmin(caller)) throw forbidden();
  }
  if (!isScoped(route)) return;
  // A project the caller may not use looks the same whether it exists or not.
  if (caller.kind === 'restricted' && !mayUseProject(caller, scope.project)) throw forbidden();
  if (!projects.exists(scope.project)) {
    throw errors.notFound(`Failed loading project "${scope.project}": Project not found`);
  }
}

/** The part of a request's query that decides which projects it touches. */
export interface RequestScope {
  readonly project: string;
  readonly allProjects: boolean;
}

/** True when the route's query has a `project`: its objects belong to projects. */
export function isScoped(route: RouteDefinition): boolean {
  const query: unknown = route.query;
  if (typeof query !== 'object' || query === null || !('properties' in query)) return false;
  return typeof query.properties === 'object' && query.properties !== null && 'project' in query.properties;
}
