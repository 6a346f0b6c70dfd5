import type { RouteDefinition } from '@keelson/api';
import type { Reply } from './reply.ts';
import type { RouteRequest } from './request.ts';

export type Handler<R extends RouteDefinition> = (request: RouteRequest<R>) => Reply | Promise<Reply>;

/** An endpoint of the contract with the code behind it. */
export interface RouteBinding {
  readonly route: RouteDefinition;
  handle(request: RouteRequest): Reply | Promise<Reply>;
}

/**
 * Ties a handler to its endpoint. A handler parses nothing and decides nothing: it calls one service method and
 * returns a reply.
 *
 * ```ts
 * export function profileRoutes(profiles: ProfilesApi): RouteBinding[] {
 *   return [bind(routes['profiles.get'], ({ project, params }) => sync(profiles.get(project, params.name)))];
 * }
 * ```
 */
export function bind<R extends RouteDefinition>(route: R, handler: Handler<R>): RouteBinding {
  // The front door built the request from `route` itself, so its params and body have the route's types.
  return { route, handle: (request) => handler(request as RouteRequest<R>) };
}
