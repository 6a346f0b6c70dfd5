import { instanceKey } from '../core/paths.ts';
import type { InstanceDriver } from '../drivers/instance/contract.ts';
import { StorageDrivers } from '../drivers/storage/registry.ts';
import { VolumeArchives } from '../host/archives/volume-archive.ts';
import { copyFile, copyTree, folderIdentity, mirrorTree, mirrorTreeExactly } from '../host/files.ts';
import { contentSize } from '../host/tools/block-fs.ts';
import { storagePoolRoutes } from '../http/routes/storage-pools.ts';
import { storageVolumeBackupRoutes } from '../http/routes/storage-volume-backups.ts';
import { storageVolumeSnapshotRoutes } from '../http/routes/storage-volume-snapshots.ts';
import { storageVolumeRoutes } from '../http/routes/storage-volumes.ts';
import { VolumeBackupFiles } from '../services/storage/backup-files.ts';
import { ImageVolumeService, type UnpackImage } from '../services/storage/image-volumes.ts';
import { AttachableVolumes } from '../services/storage/attachable-volumes.ts';
import { InstanceStorageService } from '../services/storage/instance-storage.ts';
import { LivePools } from '../services/storage/live-pools.ts';
import { PoolService } from '../services/storage/pool-service.ts';
import { type CopyTree, RootTransfer } from '../services/storage/root-transfer.ts';
import { StorageUsage } from '../services/storage/usage.ts';
import { VolumeBackupService } from '../services/storage/volume-backup-service.ts';
import { VolumeContext, type VolumeDeps } from '../services/storage/volume-context.ts';
import { VolumeCopier } from '../services/storage/volume-copier.ts';
import { VolumeCreator } from '../services/storage/volume-creator.ts';
import { VolumeImporter } from '../services/storage/volume-importer.ts';
import { VolumeMigration } from '../services/storage/volume-migration.ts';
import { VolumeMover } from '../services/storage/volume-mover.ts';
import { VolumeRefresh } from '../services/storage/volume-refresh.ts';
import { VolumeSchedule } from '../services/storage/volume-schedule.ts';
import { VolumeService } from '../services/storage/volume-service.ts';
import { VolumeSnapshotService } from '../services/storage/volume-snapshot-service.ts';
import type { WarningSink } from '../services/warnings/contract.ts';
import type { Migrations } from '../services/migration/migrations.ts';
import type { Foundations } from './foundations.ts';
import { openMigrations } from './migrations.ts';
import type { Vertical } from './vertical.ts';
import type { RouteBinding } from '../http/route.ts';

export interface StorageVertical extends Vertical {
  /** What the host can run; `GET /1.0` shows it. */
  readonly drivers: StorageDrivers;
  readonly forInstances: InstanceStorageService;
  readonly attachable: AttachableVolumes;
  readonly live: LivePools;
  readonly usage: StorageUsage;
  readonly migrations: Migrations;
  /** For images: their unpacked copies go with them. */
  readonly imageVolumes: ImageVolumeService;
}

export interface StorageNeeds {
  /** Fills the volumes of images. */
  readonly images: { readonly unpackImage: UnpackImage };
  /** Knows which instances run, by `instanceKey`. */
  readonly guests: Pick<InstanceDriver, 'state'>;
  /** Server keys in force. */
  readonly config: { value(key: string): string };
  readonly guard: VolumeDeps['guard'];
  readonly warnings: WarningSink;
  /** Where the configurations of Ceph clusters are. */
  readonly cephFolder: string | undefined;
}

/** Pools and volumes. */
export function storageVertical(base: Foundations, needs: StorageNeeds, stack: AsyncDisposableStack): StorageVertical {
  const { ledger, log, clock, ids, paths, events, intents, operations } = base;
  const { storagePools: pools, storageVolumes: volumes, storageVolumeSnapshots: snapshots } = base.records;
  const { instances, instanceSnapshots, profiles, projects, images } = base.records;
  const drivers = stack.use(new StorageDrivers(log, { cephFolder: needs.cephFolder }));
  const { warnings } = needs;
  const live = stack.use(
    new LivePools({ pools, volumes, drivers, paths, clock, log, warnings, identity: folderIdentity }),
  );
  const usage = new StorageUsage({
    instances,
    instanceSnapshots,
    profiles,
    projects,
    volumes,
    volumeSnapshots: snapshots,
    server: base.records.server,
  });
  const service = new PoolService({ pools, volumes, live, usage, events, intents, operations });
  const imageVolumes = new ImageVolumeService({
    live,
    volumes,
    images,
    unpack: (...args) => needs.images.unpackImage(...args),
    clock,
    log,
  });
  const transfer = new RootTransfer({ copyTree: copyOrMirror, copyFile, contentSize, ids });
  const shared = { ledger, live, volumes, snapshots, projects, clock, log };
  const forInstances = new InstanceStorageService({ ...shared, images: imageVolumes, transfer });
  const context = new VolumeContext({
    ...shared,
    backups: base.records.storageVolumeBackups,
    instances,
    profiles,
    usage,
    operations,
    intents,
    events,
    ids,
    guard: needs.guard,
    isRunning: ({ project, name }) => needs.guests.state(instanceKey(project, name)).status !== 'Stopped',
  });
  const migrations = openMigrations(base, stack);
  const custom = customVolumes(base, context, { ...needs, volumes: imageVolumes, migrations });
  stack.use(custom.schedule);
  return {
    drivers,
    live,
    usage,
    forInstances,
    attachable: new AttachableVolumes({ live, volumes, projects, usage }),
    imageVolumes,
    migrations,
    routes: [...storagePoolRoutes(service), ...custom.routes],
    start: async () => {
      await live.startAll();
      await imageVolumes.finish();
      await forInstances.removeTemporaries();
    },
    afterReady: async () => {
      custom.schedule.start();
      await imageVolumes.sweep();
    },
  };
}

function customVolumes(
  { paths, ids, gates }: Foundations,
  context: VolumeContext,
  {
    config,
    volumes: images,
    migrations,
  }: Pick<StorageNeeds, 'config'> & { readonly volumes: ImageVolumeService; readonly migrations: Migrations },
): { readonly routes: RouteBinding[]; readonly schedule: VolumeSchedule } {
  const files = new VolumeBackupFiles(paths.backups, new VolumeArchives(paths.incomingBackups, gates.backups));
  const refresher = new VolumeRefresh(context);
  const copier = new VolumeCopier({ copyTree: copyOrMirror, copyFile, contentSize, ids });
  const creator = new VolumeCreator(context, { copier, refresher });
  const mover = new VolumeMover(context, creator, files);
  const migration = new VolumeMigration(context, creator, { migrations, refresher });
  const importer = new VolumeImporter({ context, creator, files, copyTree: copyOrMirror, copyFile });
  const volumes = new VolumeService(context, { creator, mover, importer, images, migration });
  const snapshots = new VolumeSnapshotService(context);
  const backups = new VolumeBackupService({
    context,
    files,
    defaultCompression: () => config.value('backups.compression_algorithm'),
  });
  return {
    schedule: new VolumeSchedule(context, snapshots, backups),
    routes: [
      ...storageVolumeRoutes(volumes),
      ...storageVolumeSnapshotRoutes(snapshots),
      ...storageVolumeBackupRoutes(backups),
    ],
  };
}

const copyOrMirror: CopyTree = (source, target, { mirror, exact = false, signal, onBytes, bandwidth }) => {
  if (!mirror) return copyTree(source, target, { signal, onBytes, bandwidth });
  return exact ? mirrorTreeExactly(source, target, signal) : mirrorTree(source, target, signal, { onBytes, bandwidth });
};
