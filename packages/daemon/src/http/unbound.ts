import { allRoutes } from '@keelson/api';
import { errors } from '../core/errors.ts';
import type { RouteBinding } from './route.ts';

/** The contract's endpoints nobody has bound: behind the same access check they say that they are not there yet. */
export function unboundRoutes(bindings: readonly RouteBinding[]): RouteBinding[] {
  const bound = new Set(bindings.map(({ route }) => route.id));
  return allRoutes
    .filter(({ id }) => !bound.has(id))
    .map((route) => ({
      route,
      handle: () => {
        throw errors.notImplemented(`${route.method} ${route.path} is not available on this server`);
      },
    }));
}
