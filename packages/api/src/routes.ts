import { certificateRoutes } from './routes/certificates.ts';
import { clusterRoutes } from './routes/cluster.ts';
import type { ParamsOf, QueryOf, QueryValue, RouteDefinition } from './routes/define.ts';
import { imageAliasRoutes } from './routes/image-aliases.ts';
import { imageRoutes } from './routes/images.ts';
import { instanceBackupRoutes } from './routes/instance-backups.ts';
import { instanceFileRoutes } from './routes/instance-files.ts';
import { instanceSnapshotRoutes } from './routes/instance-snapshots.ts';
import { instanceRoutes } from './routes/instances.ts';
import { networkRoutes } from './routes/networks.ts';
import { operationRoutes } from './routes/operations.ts';
import { profileRoutes } from './routes/profiles.ts';
import { projectRoutes } from './routes/projects.ts';
import { recoveryRoutes } from './routes/recovery.ts';
import { serverRoutes } from './routes/server.ts';
import { storagePoolRoutes } from './routes/storage-pools.ts';
import { storageVolumeBackupRoutes } from './routes/storage-volume-backups.ts';
import { storageVolumeSnapshotRoutes } from './routes/storage-volume-snapshots.ts';
import { storageVolumeRoutes } from './routes/storage-volumes.ts';
import { warningRoutes } from './routes/warnings.ts';

export * from './routes/define.ts';

/** Every endpoint by id. */
export const routes = {
  ...serverRoutes,
  ...operationRoutes,
  ...certificateRoutes,
  ...profileRoutes,
  ...imageRoutes,
  ...imageAliasRoutes,
  ...storagePoolRoutes,
  ...storageVolumeRoutes,
  ...storageVolumeSnapshotRoutes,
  ...storageVolumeBackupRoutes,
  ...networkRoutes,
  ...instanceRoutes,
  ...instanceFileRoutes,
  ...instanceSnapshotRoutes,
  ...instanceBackupRoutes,
  ...projectRoutes,
  ...clusterRoutes,
  ...warningRoutes,
  ...recoveryRoutes,
} as const;

export type Routes = typeof routes;
export type RouteId = keyof Routes;

/** Every endpoint, in the order of declaration. */
export const allRoutes: readonly RouteDefinition[] = Object.values(routes);

/** Older collections of the same instances: path segment to the type they are limited to. */
export const instancePathAliases = { containers: 'container', 'virtual-machines': 'virtual-machine' } as const;

/** Version prefix of every path but `/`; a path without it means the current version. */
export const apiVersion = '1.0';

/**
 * URL path of an endpoint with parameters and query encoded; undefined query values are left out.
 *
 * @throws Error when a parameter of the path is missing or empty
 */
export function pathFor<R extends RouteDefinition>(route: R, params: ParamsOf<R>, query?: QueryOf<R>): string {
  const values: Readonly<Record<string, string>> = params;
  const path = route.path.replaceAll(/:([a-z]+)/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined || value === '') {
      throw new Error(`Path parameter "${name}" of ${route.id} is missing`);
    }
    return encodeURIComponent(value);
  });
  const search = queryString(query);
  return search === '' ? path : `${path}?${search}`;
}

function queryString(query: Readonly<Record<string, QueryValue>> | undefined): string {
  return Object.entries(query ?? {})
    .flatMap(([key, value]) =>
      value === undefined ? [] : [`${encodeURIComponent(key)}=${encodeURIComponent(String(value))}`],
    )
    .join('&');
}
