import type {
  ResourcesStoragePool,
  StoragePool,
  StoragePoolPut,
  StoragePoolsPost,
  StoragePoolVolumeBackup,
  StoragePoolVolumeBackupsPost,
  StorageVolume,
  StorageVolumePost,
  StorageVolumePut,
  StorageVolumeSnapshot,
  StorageVolumeSnapshotPut,
  StorageVolumeSnapshotsPost,
  StorageVolumesPost,
  StorageVolumeState,
} from '@keelson/api';
import type { Readable } from 'node:stream';
import type { RecordList } from '../../core/record-list.ts';
import type { StartedOperation } from '../operations/contract.ts';
import type { ChangeOptions } from '../profiles/contract.ts';

export type { ChangeOptions } from '../profiles/contract.ts';

/** Storage pools as the API needs them. Every method throws not-found (`Storage pool not found`) for an unknown name. */
export interface StoragePools {
  list(): RecordList;
  /** The record, and its ETag source. */
  get(name: string): { readonly pool: StoragePool; readonly etag: readonly unknown[] };
  /** Returns the URL. @throws conflict when the name is taken, bad-request naming the key or the source. */
  create(body: StoragePoolsPost, options?: ChangeOptions): Promise<string>;
  /** Replaces description and config. @throws bad-request naming a key that cannot change. */
  put(name: string, body: StoragePoolPut, options?: ChangeOptions): Promise<void>;
  /** Sets the given config keys and description; leaves the others. */
  patch(name: string, body: StoragePoolPut, options?: ChangeOptions): Promise<void>;
  /** @throws bad-request while something other than images uses it. */
  delete(name: string, options?: ChangeOptions): Promise<void>;
  /** Bytes and inodes. @throws unavailable with the reason. */
  resources(name: string): Promise<ResourcesStoragePool>;
}

/** Whether the caller may make this server connect to another whose certificate it does not name. */
export interface Reach {
  readonly mayFetch?: boolean;
}

/** Names a volume as a URL does. `type` is checked by whoever gets it. */
export interface VolumeAddress {
  readonly pool: string;
  readonly project: string;
  readonly type: string;
  readonly name: string;
}

/**
 * Storage volumes as the API needs them. Every method throws not-found for an unknown pool or volume, bad-request for
 * an unknown type, unavailable when the pool cannot be used.
 */
export interface StorageVolumes {
  /**
   * What `projects` see, undefined for all there are; of one type when `type` is given. Snapshots stand beside their
   * volumes as `volume/snapshot`.
   */
  list(pool: string, projects: readonly string[] | undefined, type?: string): RecordList;
  get(address: VolumeAddress): { readonly volume: StorageVolume; readonly etag: readonly unknown[] };
  /** Undefined when it was made at once, else the operation that copies. @throws conflict when the name is taken. */
  create(
    at: Omit<VolumeAddress, 'name'>,
    body: StorageVolumesPost,
    options?: ChangeOptions & Reach,
  ): Promise<StartedOperation | undefined>;
  /** From the bytes of a backup or an ISO image. */
  upload(
    at: Omit<VolumeAddress, 'name' | 'type'>,
    upload: VolumeUpload,
    options?: ChangeOptions,
  ): Promise<StartedOperation>;
  /** Replaces config and description, or goes back to a snapshot (`restore`). */
  put(address: VolumeAddress, body: StorageVolumePut, options?: ChangeOptions): Promise<void>;
  patch(address: VolumeAddress, body: StorageVolumePut, options?: ChangeOptions): Promise<void>;
  /** Renames (the new URL), or moves to another pool or project (the operation). */
  post(
    address: VolumeAddress,
    body: StorageVolumePost,
    options?: ChangeOptions & Reach,
  ): Promise<string | StartedOperation>;
  /** @throws bad-request while it is attached. */
  delete(address: VolumeAddress, options?: ChangeOptions): Promise<void>;
  state(address: VolumeAddress): Promise<StorageVolumeState>;
}

export interface VolumeUpload {
  /** Empty: the name in the backup. */
  readonly name: string;
  readonly kind: 'backup' | 'iso';
  readonly content: AsyncIterable<Uint8Array>;
  /** Aborted when the client goes away before all was read. */
  readonly signal: AbortSignal;
}

/** Snapshots of volumes. */
export interface StorageVolumeSnapshots {
  list(address: VolumeAddress): RecordList;
  get(
    address: VolumeAddress,
    name: string,
  ): { readonly snapshot: StorageVolumeSnapshot; readonly etag: readonly unknown[] };
  create(address: VolumeAddress, body: StorageVolumeSnapshotsPost, options?: ChangeOptions): StartedOperation;
  put(address: VolumeAddress, name: string, body: StorageVolumeSnapshotPut, options?: ChangeOptions): Promise<void>;
  patch(address: VolumeAddress, name: string, body: StorageVolumeSnapshotPut, options?: ChangeOptions): Promise<void>;
  rename(address: VolumeAddress, name: string, newName: string, options?: ChangeOptions): StartedOperation;
  delete(address: VolumeAddress, name: string, options?: ChangeOptions): StartedOperation;
}

/** Backups of custom volumes. */
export interface StorageVolumeBackups {
  list(address: VolumeAddress): RecordList;
  get(address: VolumeAddress, name: string): StoragePoolVolumeBackup;
  create(address: VolumeAddress, body: StoragePoolVolumeBackupsPost, options?: ChangeOptions): StartedOperation;
  rename(address: VolumeAddress, name: string, newName: string, options?: ChangeOptions): StartedOperation;
  delete(address: VolumeAddress, name: string, options?: ChangeOptions): StartedOperation;
  export(
    address: VolumeAddress,
    name: string,
    options?: ChangeOptions,
  ): Promise<{ readonly body: Readable; readonly size: number }>;
}
