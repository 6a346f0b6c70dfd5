export type { ApiBody, ApiCall, ApiMethods, ApiNode, ApiOptions, ApiResponse } from './api-types.ts';
export { BaseClient, type BaseClientOptions, ServerInfo } from './base-client.ts';
export type { Answer, QueryValues, RequestOptions } from './connection.ts';
export * from './errors.ts';
export {
  EventStream,
  type EventMetadata,
  type EventOf,
  type EventsOptions,
  type EventType,
  type ServerEvent,
  type WebSocketFactory,
} from './events.ts';
export {
  type ExecInput,
  type ExecOptions,
  ExecProcess,
  type ExecResult,
  type ShellOptions,
} from './exec.ts';
export { type AllOptions, Manager } from './manager.ts';
export {
  type CallOptions,
  Model,
  type ModelState,
  type ProgressOptions,
  type Sparse,
  type WaitOptions,
} from './model.ts';
export { OutputStream } from './output-stream.ts';
export type { CopyProgress, MigrationMode } from './migration.ts';
export type { WaitForOptions } from './operation-waiter.ts';
export { Certificate, CertificateManager } from './resources/certificate.ts';
export { Cluster, ClusterManager, ClusterMember, ClusterMemberManager } from './resources/cluster.ts';
export { Download } from './resources/common.ts';
export { Image, type ImageCopyOptions, type ImageCreateOptions, ImageManager } from './resources/image.ts';
export {
  FileDownload,
  type FileInfo,
  type FoundFile,
  InstanceFiles,
  type NewFile,
  type PutOptions,
} from './resources/instance-files.ts';
export { InstanceManager } from './resources/instance-manager.ts';
export { InstanceBackups, InstanceLogs, InstanceTemplates } from './resources/instance-extras.ts';
export { type PublishOptions, Snapshot, SnapshotManager } from './resources/instance-parts.ts';
export {
  Instance,
  type InstanceCopyOptions,
  type InstanceMoveOptions,
  type InstanceTarget,
  type SnapshotCopyOptions,
  type StateOptions,
} from './resources/instance.ts';
export { Network, NetworkManager, type NetworkOptions } from './resources/network.ts';
export { Operation, OperationManager } from './resources/operation.ts';
export { Profile, ProfileManager, type ProfileOptions } from './resources/profile.ts';
export { Project, ProjectManager } from './resources/project.ts';
export { StoragePool, StoragePoolManager, StoragePoolResources } from './resources/storage-pool.ts';
export { StorageVolumeBackups, StorageVolumeSnapshots } from './resources/storage-volume-parts.ts';
export {
  type AllVolumesOptions,
  StorageVolume,
  StorageVolumeManager,
  type VolumeCopy,
  type VolumeMove,
  type VolumeTarget,
  type VolumeType,
} from './resources/storage-volume.ts';
export type {
  RequestBody,
  SocketEvent,
  Transport,
  TransportRequest,
  TransportResponse,
  WebSocketLike,
} from './transport/types.ts';
