import { isTrue } from '@keelson/api';
import { errors } from '../../../core/errors.ts';
import type { CephfsMount } from '../../../host/tools/cephfs.ts';
import { clusterName, userName } from '../common/ceph-names.ts';
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
    !/^\w[\w.-]*$/.test(fileSystem) ||
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
