import type { Collection, Ledger } from '../state/collection.ts';
import type { CertificateRecord } from '../state/records/certificate.ts';
import type { ImageAliasRecord, ImageRecord } from '../state/records/image.ts';
import type { InstanceBackupRecord, InstanceRecord, InstanceSnapshotRecord } from '../state/records/instance.ts';
import type { InstanceMetadataRecord } from '../state/records/instance-metadata.ts';
import type { NetworkRecord } from '../state/records/network.ts';
import type { ProfileRecord } from '../state/records/profile.ts';
import type { ProjectRecord } from '../state/records/project.ts';
import type { ServerRecord } from '../state/records/server.ts';
import type {
  StoragePoolRecord,
  StorageVolumeBackupRecord,
  StorageVolumeRecord,
  StorageVolumeSnapshotRecord,
} from '../state/records/storage.ts';

/** Every collection there is, under the prefix its record file names. */
export interface Records {
  readonly certificates: Collection<CertificateRecord>;
  readonly images: Collection<ImageRecord>;
  readonly imageAliases: Collection<ImageAliasRecord>;
  readonly instances: Collection<InstanceRecord>;
  readonly instanceSnapshots: Collection<InstanceSnapshotRecord>;
  readonly instanceBackups: Collection<InstanceBackupRecord>;
  readonly instanceMetadata: Collection<InstanceMetadataRecord>;
  readonly networks: Collection<NetworkRecord>;
  readonly profiles: Collection<ProfileRecord>;
  readonly projects: Collection<ProjectRecord>;
  readonly server: Collection<ServerRecord>;
  readonly storagePools: Collection<StoragePoolRecord>;
  readonly storageVolumes: Collection<StorageVolumeRecord>;
  readonly storageVolumeSnapshots: Collection<StorageVolumeSnapshotRecord>;
  readonly storageVolumeBackups: Collection<StorageVolumeBackupRecord>;
}

export function openRecords(ledger: Ledger): Records {
  return {
    certificates: ledger.collection('/certificates/'),
    images: ledger.collection('/images/'),
    imageAliases: ledger.collection('/image-aliases/'),
    instances: ledger.collection('/instances/'),
    instanceSnapshots: ledger.collection('/instance-snapshots/'),
    instanceBackups: ledger.collection('/instance-backups/'),
    instanceMetadata: ledger.collection('/instance-metadata/'),
    networks: ledger.collection('/networks/'),
    profiles: ledger.collection('/profiles/'),
    projects: ledger.collection('/projects/'),
    server: ledger.collection('/server/'),
    storagePools: ledger.collection('/storage-pools/'),
    storageVolumes: ledger.collection('/storage-volumes/'),
    storageVolumeSnapshots: ledger.collection('/storage-volume-snapshots/'),
    storageVolumeBackups: ledger.collection('/storage-volume-backups/'),
  };
}
