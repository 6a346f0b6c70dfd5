import { StorageDrivers } from '../drivers/storage/registry.ts';
import { copyTree } from '../host/files.ts';
import { storagePoolRoutes } from '../http/routes/storage-pools.ts';
import { ImageVolumeService, type UnpackImage } from '../services/storage/image-volumes.ts';
import { InstanceStorageService } from '../services/storage/instance-storage.ts';
import { LivePools } from '../services/storage/live-pools.ts';
import { PoolService } from '../services/storage/pool-service.ts';
import { type CopyTree, RootTransfer } from '../services/storage/root-transfer.ts';
import { StorageUsage } from '../services/storage/usage.ts';
import type { Foundations } from './foundations.ts';
import type { Vertical } from './vertical.ts';

export interface StorageVertical extends Vertical {
  /** What the host can run; `GET /1.0` shows it. */
  readonly drivers: StorageDrivers;
  readonly forInstances: InstanceStorageService;
  /** For images: their unpacked copies go with them. */
  readonly imageVolumes: ImageVolumeService;
}

/** Pools and volumes; `unpack` fills the volume of an image. */
export function storageVertical(base: Foundations, unpack: UnpackImage, stack: AsyncDisposableStack): StorageVertical {
  const { ledger, log, clock, ids, paths, events, intents, operations } = base;
  const { storagePools: pools, storageVolumes: volumes, storageVolumeSnapshots: snapshots } = base.records;
  const { instances, instanceSnapshots, profiles, projects, images } = base.records;
  const drivers = stack.use(new StorageDrivers(log));
  const live = new LivePools({ pools, volumes, drivers, paths, log });
  const usage = new StorageUsage({
    instances,
    instanceSnapshots,
    profiles,
    projects,
    volumes,
    volumeSnapshots: snapshots,
  });
  const service = new PoolService({ pools, volumes, live, usage, events, intents, operations });
  const imageVolumes = new ImageVolumeService({ live, volumes, images, unpack, clock, log });
  const transfer = new RootTransfer({ copyTree: mirrorTree, ids });
  const shared = { ledger, live, volumes, snapshots, projects, clock, log };
  const forInstances = new InstanceStorageService({ ...shared, images: imageVolumes, transfer });
  return {
    drivers,
    forInstances,
    imageVolumes,
    routes: storagePoolRoutes(service),
    prepare: () => live.startAll(),
    afterReady: async () => {
      await forInstances.removeTemporaries();
      await imageVolumes.sweep();
    },
  };
}

const mirrorTree: CopyTree = (source, target, { mirror, signal }) => copyTree(source, target, { live: mirror, signal });
