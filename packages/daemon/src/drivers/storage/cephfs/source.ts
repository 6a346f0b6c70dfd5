import { isTrue } from '@keelson/api';
import { errors } from '../../../core/errors.ts';
import type { CephfsMount } from '../../../host/tools/cephfs.ts';
import type { PoolSpec } from '../contract.ts';

/** Where the pool's content is, from its config; `source` is a file system and a folder in it: `fs` or `fs/folder`. @throws bad-request. */
export function sourceOf({ config }: PoolSpec, cephFolder: string): CephfsMount {
  const source = config['source'] ?? '';
  if (source === '') throw errors.badRequest('Missing required source name/path');
  const path = config['cephfs.path'] ?? '';
  if (path !== '' && path !== source) throw errors.badRequest('cephfs.path must match the source');
  const [fileSystem = '', ...folders] = source.split('/');
  const names = folders.filter((name) => name !== '');
  if (
    fileSystem === '' ||
    /[,:\s\0]/.test(source) ||
    names.some((name) => name === '.' || name === '..' || name === '.snap')
  )
    throw errors.badRequest(`Invalid source "${source}": it must be the name of a CephFS and a folder in it`);
  return {
    conf: `${cephFolder}/${clusterName(config['cephfs.cluster_name'])}.conf`,
    user: userName(config['cephfs.user.name']),
    fileSystem,
    folder: `/${names.join('/')}`,
    fscache: isTrue(config['cephfs.fscache'] ?? ''),
  };
}

/** Part of a file's name. @throws bad-request. */
export function clusterName(name: string | undefined): string {
  const cluster = name === undefined || name === '' ? 'ceph' : name;
  if (!/^[\w-][\w.-]*$/.test(cluster)) throw errors.badRequest(`Invalid name of a Ceph cluster "${cluster}"`);
  return cluster;
}

/** One argument and one mount option. @throws bad-request. */
export function userName(name: string | undefined): string {
  const user = name === undefined || name === '' ? 'admin' : name;
  if (!/^[\w.][\w.@-]*$/.test(user)) throw errors.badRequest(`Invalid name of a Ceph user "${user}"`);
  return user;
}
