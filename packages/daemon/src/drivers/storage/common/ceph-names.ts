import { errors } from '../../../core/errors.ts';

/** A cluster's name is part of a file's. @throws bad-request. */
export function clusterName(name: string | undefined): string {
  const cluster = name === undefined || name === '' ? 'ceph' : name;
  if (!/^[\w-][\w.-]*$/.test(cluster)) throw errors.badRequest(`Invalid name of a Ceph cluster "${cluster}"`);
  return cluster;
}

/** A user's name is one argument and one mount option. @throws bad-request. */
export function userName(name: string | undefined): string {
  const user = name === undefined || name === '' ? 'admin' : name;
  if (!/^[\w.][\w.@-]*$/.test(user)) throw errors.badRequest(`Invalid name of a Ceph user "${user}"`);
  return user;
}
