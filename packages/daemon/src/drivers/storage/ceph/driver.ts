import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { cephVersion } from '../../../host/tools/ceph.ts';
import { findMapper } from '../../../host/tools/rbd-map.ts';
import { fullDriverInfo } from '../common/driver-info.ts';
import type { PoolSpec, StorageDriver, StorageDriverInfo, StoragePool } from '../contract.ts';
import { reopenedConfig } from './adopt.ts';
import { type CephHost, CephPool } from './pool.ts';

/** Pools of RBD images on a Ceph cluster. */
export class CephDriver implements StorageDriver {
  readonly name = 'ceph';
  readonly #host: CephHost;

  constructor(host: CephHost) {
    this.#host = host;
  }

  async probe(): Promise<StorageDriverInfo> {
    const version = await cephVersion();
    const reason = version === undefined ? 'the tools of Ceph are not installed (ceph-common)' : await unmappable();
    return fullDriverInfo({ name: this.name, version: version ?? '', reason, remote: true, optimizedTransfer: true });
  }

  async prepare(spec: PoolSpec): Promise<Record<string, string>> {
    const [source, pool] = [spec.config['source'] ?? '', spec.config['ceph.osd.pool_name'] ?? ''];
    if (source !== '' && pool !== '' && source !== pool)
      throw errors.badRequest(`Invalid value for option "source": it must match ceph.osd.pool_name`);
    return new CephPool(spec, this.#host).prepare();
  }

  reopen(spec: PoolSpec): Promise<Record<string, string>> {
    return reopenedConfig(spec, this.#host.cephFolder);
  }

  async create(spec: PoolSpec): Promise<void> {
    const pool = new CephPool(spec, this.#host);
    try {
      await pool.create();
    } catch (error) {
      await pool.destroy();
      throw error;
    }
  }

  open(spec: PoolSpec): StoragePool {
    return new CephPool(spec, this.#host);
  }
}

/** Why images cannot be mapped here; undefined when they can. */
async function unmappable(): Promise<string | undefined> {
  const found = await findMapper(join('/', 'nowhere'));
  return 'reason' in found ? found.reason : undefined;
}
