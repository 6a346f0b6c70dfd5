import type { RouteDefinition } from '@keelson/api';
import { errors, type KeelsonError } from '../core/errors.ts';
import { isAdmin, mayUseProject, type Caller } from '../services/certificates/caller.ts';

/** What the front door knows about projects. */
export interface ProjectLookup {
  exists(project: string): boolean;
  /** The project that holds the objects of a feature for `project`: itself, or `default`. */
  homeOf(project: string, feature: SharedFeature): string;
}

/** Objects that a project may share with `default` instead of having its own (`features.*`). */
export type SharedFeature = 'images' | 'profiles' | 'networks' | 'storage.volumes';

const SHARED: readonly (readonly [path: RegExp, feature: SharedFeature])[] = [
  [/^\/1\.0\/images(\/|$)/, 'images'],
  [/^\/1\.0\/profiles(\/|$)/, 'profiles'],
  [/^\/1\.0\/networks(\/|$)/, 'networks'],
  [/^\/1\.0\/storage-pools\/:pool\/volumes(\/|$)/, 'storage.volumes'],
];

/** The server's own: a project is named only to tell which uses are shown, and need not exist, as with LXD. */
const SERVER_WIDE = /^\/1\.0(\/storage-pools(\/:pool(\/resources)?)?)?$/;

/** What has a project of its own, whatever the request names: its handler asks for the right to that. */
const OWN_PROJECT = /^\/1\.0\/operations\/:id(\/|$)/;

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
  if (SERVER_WIDE.test(route.path) || OWN_PROJECT.test(route.path)) return;
  // A project the caller may not use looks the same whether it exists or not; but what is open to all is to them.
  if (caller.kind === 'restricted' && route.access !== 'untrusted' && !mayUseProject(caller, scope.project))
    throw forbidden();
  if (!projects.exists(scope.project)) {
    throw errors.notFound(`Failed loading project "${scope.project}": Project not found`);
  }
  if (caller.kind === 'restricted' && route.method !== 'GET') checkHome(route, caller, scope.project, projects);
}

/** What a project shares with another one is read there; only who may use that one too may change it. */
function checkHome(route: RouteDefinition, caller: Caller, project: string, projects: ProjectLookup): void {
  const feature = SHARED.find(([path]) => path.test(route.path))?.[1];
  if (feature !== undefined && !mayUseProject(caller, projects.homeOf(project, feature))) throw forbidden();
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
