import { routes } from '@keelson/api';
import type { StoragePools } from '../../services/storage/contract.ts';
import { bindList } from '../list.ts';
import { created, empty, sync } from '../reply.ts';
import { changeOptions } from '../request.ts';
import { bind, type RouteBinding } from '../route.ts';
import { hideIn, hidePool } from '../used-by.ts';

export function storagePoolRoutes(pools: StoragePools): RouteBinding[] {
  return [
    bindList(routes['storage-pools.list'], ({ caller }) => hideIn(caller, pools.list(), hidePool)),
    bind(routes['storage-pools.create'], async (request) =>
      created(await pools.create(request.body, changeOptions(request))),
    ),
    bind(routes['storage-pools.get'], ({ caller, params }) => {
      const { pool, etag } = pools.get(params.pool);
      return sync(hidePool(caller, pool), etag);
    }),
    bind(routes['storage-pools.put'], async (request) => {
      await pools.put(request.params.pool, request.body, changeOptions(request));
      return empty();
    }),
    bind(routes['storage-pools.patch'], async (request) => {
      await pools.patch(request.params.pool, request.body, changeOptions(request));
      return empty();
    }),
    bind(routes['storage-pools.delete'], async (request) => {
      await pools.delete(request.params.pool, changeOptions(request));
      return empty();
    }),
    bind(routes['storage-pools.resources'], async ({ params }) => sync(await pools.resources(params.pool))),
  ];
}
