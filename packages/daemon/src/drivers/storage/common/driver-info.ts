import type { StorageDriverInfo } from '../contract.ts';

/** What a driver says of itself that has everything but perhaps streams of its own. `reason`: why it cannot run here. */
export function fullDriverInfo({
  reason,
  optimizedTransfer,
  ...told
}: Pick<StorageDriverInfo, 'name' | 'version' | 'remote'> & {
  readonly reason: string | undefined;
  readonly optimizedTransfer: boolean;
}): StorageDriverInfo {
  return {
    ...told,
    supported: reason === undefined,
    ...(reason === undefined ? {} : { reason }),
    capabilities: {
      cheapClone: true,
      cheapSnapshot: true,
      quota: true,
      shrink: true,
      blockVolumes: true,
      optimizedTransfer,
    },
  };
}
