import type { FoundVolume, PoolRecovery, VolumeRef } from '../contract.ts';
import { isRebuilt, RebuiltRoots, type RebuiltRootsOptions } from './rebuilt-root.ts';
import { isNotesVolume } from './volume-notes.ts';
import { VolumeRecovery, type VolumeRecoveryOptions } from './volume-recovery.ts';

export interface OnDemandRecoveryOptions
  extends RebuiltRootsOptions,
    Pick<VolumeRecoveryOptions, 'path' | 'mounter' | 'alone'> {
  /** All volumes of the pool; those that the server keeps for itself are not told. */
  readonly found: () => Promise<readonly FoundVolume[]>;
}

/** Recovery of a pool whose volumes are mounted on demand, and whose snapshots cannot change. */
export function onDemandRecovery({ path, mounter, alone, found, ...building }: OnDemandRecoveryOptions): PoolRecovery {
  const rebuilt = new RebuiltRoots(building);
  const isUsers = (volume: VolumeRef): boolean => !isNotesVolume(volume) && !isRebuilt(volume);
  return new VolumeRecovery({
    path,
    notes: building.notes,
    mounter,
    alone,
    scan: async () => {
      await rebuilt.finish();
      return (await found()).filter(({ volume }) => isUsers(volume));
    },
    adopt: (volume, options) => rebuilt.adopt(volume, options),
  });
}
