import type { Log } from '../../core/log.ts';
import type { StatePaths } from '../../core/paths.ts';
import type { IdRange, InstanceDriver } from '../../drivers/instance/contract.ts';
import type { Collection, Ledger } from '../../state/collection.ts';
import type { InstanceMetadataRecord } from '../../state/records/instance-metadata.ts';
import type { InstanceBackupRecord, InstanceRecord, InstanceSnapshotRecord } from '../../state/records/instance.ts';
import type { ProfileRecord } from '../../state/records/profile.ts';
import type { ProjectRecord } from '../../state/records/project.ts';
import type { StoragePoolRecord } from '../../state/records/storage.ts';
import type { Events } from '../events/contract.ts';
import type { Intents } from '../intents/contract.ts';
import type { Migrations } from '../migration/migrations.ts';
import type { Operations } from '../operations/contract.ts';
import type { ProjectGuard } from '../projects/contract.ts';
import type { BackupArchives } from './backup-archives.ts';
import type { GuestFiles } from './guest-files.ts';
import type { HostCapacity } from './plan/limits.ts';
import type { Entropy } from './plan/volatile.ts';
import type { InstanceImages, InstanceNetworks, InstanceStorage, InstanceVolumes } from './ports.ts';

/** The instances room's own records. */
export interface InstanceCollections {
  readonly instances: Collection<InstanceRecord>;
  readonly snapshots: Collection<InstanceSnapshotRecord>;
  readonly backups: Collection<InstanceBackupRecord>;
  readonly metadata: Collection<InstanceMetadataRecord>;
  readonly profiles: Collection<ProfileRecord>;
  readonly projects: Collection<ProjectRecord>;
  readonly pools: Collection<StoragePoolRecord>;
}

/** Restrictions and limits of projects: every new or changed instance passes here. */
export type InstanceGuard = Pick<ProjectGuard, 'checkInstance' | 'checkDiskSource' | 'checkSnapshot' | 'checkBackup'>;

/** Everything the instances room uses; assembly gives it. */
export interface InstanceDeps {
  readonly ledger: Ledger;
  readonly collections: InstanceCollections;
  readonly operations: Operations;
  readonly events: Events;
  readonly intents: Intents;
  readonly driver: InstanceDriver;
  readonly storage: InstanceStorage;
  readonly volumes: InstanceVolumes;
  readonly images: InstanceImages;
  readonly networks: InstanceNetworks;
  readonly guard: InstanceGuard;
  readonly files: GuestFiles;
  readonly archives: BackupArchives;
  readonly migrations: Migrations;
  /** `backups.compression_algorithm` of the server. */
  readonly backupCompression: () => string;
  readonly paths: StatePaths;
  readonly log: Log;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly entropy: Entropy;
  /** As Math.random. */
  readonly random: () => number;
  /** Host ids the daemon may map for guests. */
  readonly hostIds: IdRange;
  readonly capacity: HostCapacity;
  /** LXD's name of the host's architecture, for example `x86_64`. */
  readonly architecture: string;
}
