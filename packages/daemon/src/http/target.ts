import type { RouteDefinition } from '@keelson/api';
import { errors } from '../core/errors.ts';

/** Name of the only member a server outside a cluster has. */
const SELF = 'none';
/** What lives on one member of a cluster; elsewhere LXD ignores `target`. */
const ON_MEMBER = /^\/1\.0(\/resources|\/(storage-pools|networks)(\/.*)?)?$/;
const COLLECTION = /^\/1\.0\/(storage-pools|networks)$/;

/** `target=` names a member that must be there. @throws not-found, bad-request for a new instance */
export function checkTarget({ method, path }: RouteDefinition, target: string | undefined): void {
  if (target === undefined || target === '' || target === SELF) return;
  if (method === 'POST' && path === '/1.0/instances') throw errors.badRequest('Target only allowed when clustered');
  if (method === 'GET' && COLLECTION.test(path)) return;
  if (ON_MEMBER.test(path)) throw errors.notFound('Cluster member not found');
}
