import type { Cluster } from '@keelson/api';

/** This server's place in a cluster. */
export interface ClusterMembership {
  /** `enabled` is false for a server that stands alone; `member_config` is what another would have to answer to join it. */
  get(): { readonly cluster: Cluster; readonly etag: readonly unknown[] };
  /** @throws bad-request on a server that stands alone. */
  members(): never;
}
