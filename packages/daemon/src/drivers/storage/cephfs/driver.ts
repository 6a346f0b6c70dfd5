import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { errors, isKeelsonError } from '../../../core/errors.ts';
import { cephVersion } from '../../../host/tools/ceph.ts';
import { cephfsClient } from '../../../host/tools/cephfs.ts';
import type { PoolSpec, StorageDriver, StorageDriverInfo, StoragePool } from '../contract.ts';
import { type CephfsHost, CephfsPool } from './pool.ts';
import { sourceOf } from './source.ts';

/** Custom volumes on a Ceph file system, which several hosts can use at once. */
export class CephfsDriver implements StorageDriver {
  readonly name = 'cephfs';
  readonly #host: CephfsHost;

  constructor(host: CephfsHost) {
    this.#host = host;
  }

  async probe(): Promise<StorageDriverInfo> {
    const found = await cephfsClient();
    const version = (await cephVersion('rbd')) ?? (await cephVersion('ceph-fuse'));
    return {
      name: this.name,
      version: version ?? '',
      supported: 'client' in found,
      ...('reason' in found ? { reason: found.reason } : {}),
      remote: true,
      capabilities: {
        cheapClone: false,
        cheapSnapshot: true,
        quota: true,
        shrink: true,
        blockVolumes: false,
        optimizedTransfer: false,
      },
    };
  }

  async prepare(spec: PoolSpec): Promise<Record<string, string>> {
    const config = await this.#config(spec);
    if (!(await new CephfsPool(spec, this.#host).isEmptySource()))
      throw errors.badRequest(`Only empty CEPHFS paths can be used: "${spec.config['source'] ?? ''}" isn't empty`);
    return config;
  }

  async reopen(spec: PoolSpec): Promise<Record<string, string>> {
    const config = await this.#config(spec);
    if (!(await new CephfsPool(spec, this.#host).holdsPool()))
      throw errors.badRequest(`There is no storage pool in "${spec.config['source'] ?? ''}"`);
    return config;
  }

  /** The pool's config with what it leaves out. @throws bad-request. */
  async #config(spec: PoolSpec): Promise<Record<string, string>> {
    const source = sourceOf(spec, this.#host.cephFolder);
    const { client } = await requireClient();
    if (source.fscache && client === 'fuse')
      throw errors.badRequest('Invalid value for option "cephfs.fscache": ceph-fuse has no cache on the local disk');
    return {
      ...spec.config,
      'cephfs.cluster_name': spec.config['cephfs.cluster_name'] ?? 'ceph',
      'cephfs.user.name': spec.config['cephfs.user.name'] ?? 'admin',
      'cephfs.path': spec.config['source'] ?? '',
      'volatile.pool.pristine': 'true',
    };
  }

  async create(spec: PoolSpec): Promise<void> {
    const pool = new CephfsPool(spec, this.#host);
    try {
      await mountOrMake(pool, sourceOf(spec, this.#host.cephFolder).folder);
    } catch (error) {
      await pool.destroy();
      throw error;
    }
  }

  open(spec: PoolSpec): StoragePool {
    return new CephfsPool(spec, this.#host);
  }
}

async function mountOrMake(pool: CephfsPool, folder: string): Promise<void> {
  try {
    await pool.mount();
  } catch (error) {
    if (!isKeelsonError(error, 'not-found')) throw error;
    await pool.withFileSystem((root) => mkdir(join(root, folder), { recursive: true, mode: 0o755 }));
    await pool.mount();
  }
}

async function requireClient(): Promise<{ readonly client: 'kernel' | 'fuse' }> {
  const found = await cephfsClient();
  if ('reason' in found) throw errors.badRequest(`Storage driver "cephfs" is not supported here: ${found.reason}`);
  return found;
}
