/** Stored under `/storage-pools/<name>`. */
export interface StoragePoolRecord {
  readonly name: string;
  readonly driver: string;
  readonly description: string;
  readonly config: Readonly<Record<string, string>>;
  readonly status: 'Created' | 'Pending' | 'Errored';
}

export type VolumeType = 'container' | 'virtual-machine' | 'image' | 'custom';
export type ContentType = 'filesystem' | 'block' | 'iso';

/** Stored under `/storage-volumes/<pool>/<project>/<type>/<name>`. Images belong to project default. */
export interface StorageVolumeRecord {
  readonly pool: string;
  readonly project: string;
  readonly type: VolumeType;
  readonly name: string;
  readonly contentType: ContentType;
  readonly description: string;
  readonly config: Readonly<Record<string, string>>;
  readonly createdAt: string;
  /** Of an image volume that is being made or removed: whether it is there, and whole, is not known after a crash. */
  readonly unfinished?: boolean;
}

/** Stored under `/storage-volume-snapshots/<pool>/<project>/<type>/<volume>/<name>`. */
export interface StorageVolumeSnapshotRecord {
  readonly pool: string;
  readonly project: string;
  readonly type: VolumeType;
  readonly volume: string;
  readonly name: string;
  readonly contentType: ContentType;
  readonly description: string;
  readonly config: Readonly<Record<string, string>>;
  readonly createdAt: string;
  readonly expiresAt: string;
}

/** Stored under `/storage-volume-backups/<pool>/<project>/custom/<volume>/<name>`. Files lie in `StatePaths.backups`. */
export interface StorageVolumeBackupRecord {
  readonly pool: string;
  readonly project: string;
  readonly volume: string;
  readonly name: string;
  readonly createdAt: string;
  readonly expiresAt: string;
  readonly volumeOnly: boolean;
  readonly optimizedStorage: boolean;
  readonly compressionAlgorithm: string;
  /** Bytes of the file; absent in records of old. */
  readonly bytes?: number;
}
