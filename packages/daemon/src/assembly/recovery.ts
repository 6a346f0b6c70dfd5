import { recoveryRoutes } from '../http/routes/recovery.ts';
import type { InstanceService } from '../services/instances/instance-service.ts';
import { RecoveryNotes } from '../services/recovery/notes.ts';
import { RecoveryService } from '../services/recovery/recovery-service.ts';
import type { LivePools } from '../services/storage/live-pools.ts';
import type { Foundations } from './foundations.ts';
import type { Vertical } from './vertical.ts';

/** What is kept beside volumes for the day the records are lost, and that day. */
export function recoveryVertical(
  { records, ledger, operations, log, clock }: Foundations,
  { live, instances }: { readonly live: LivePools; readonly instances: InstanceService },
  stack: AsyncDisposableStack,
): Vertical {
  const shared = {
    pools: records.storagePools,
    volumes: records.storageVolumes,
    snapshots: records.storageVolumeSnapshots,
    profiles: records.profiles,
    live,
    log,
  };
  const notes = stack.use(
    new RecoveryNotes({
      ...shared,
      instances: records.instances,
      instanceSnapshots: records.instanceSnapshots,
      instanceMetadata: records.instanceMetadata,
      filesOf: (record) => instances.describe(record),
    }),
  );
  const service = new RecoveryService({
    ...shared,
    ledger,
    operations,
    projects: records.projects,
    networks: records.networks,
    instances: instances.recovered,
    now: () => new Date(clock.now()).toISOString(),
  });
  return {
    routes: recoveryRoutes(service),
    afterReady: async () => notes.start(),
  };
}
