import { type Cluster, storageDrivers, storagePoolConfig } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import type { Collection } from '../../state/collection.ts';
import type { StoragePoolRecord } from '../../state/records/storage.ts';
import type { ClusterMembership } from './contract.ts';

type MemberKeys = NonNullable<Cluster['member_config']>;

/** A server that stands alone. */
export class SingleServer implements ClusterMembership {
  readonly #pools: Collection<StoragePoolRecord>;

  constructor(pools: Collection<StoragePoolRecord>) {
    this.#pools = pools;
  }

  get(): { cluster: Cluster; etag: readonly unknown[] } {
    const cluster = {
      server_name: '',
      enabled: false,
      member_config: this.#pools.list().flatMap(({ value }) => memberKeys(value)),
    };
    return { cluster, etag: [cluster.enabled] };
  }

  members(): never {
    throw errors.badRequest('Server is not clustered');
  }
}

/** The keys of a pool that differ from member to member. */
function memberKeys({ name, driver, config }: StoragePoolRecord): MemberKeys {
  const known = storageDrivers.find((one) => one === driver);
  if (known === undefined) return [];
  return storagePoolConfig(known)
    .keys.filter(({ key, scope, internal }) => scope === 'local' && internal !== true && config[key] !== undefined)
    .map(({ key }) => key)
    .toSorted()
    .map((key) => ({
      entity: 'storage-pool',
      name,
      key,
      value: '',
      description: `"${key}" property for storage pool "${name}"`,
    }));
}
