import type { Readable } from 'node:stream';
import type { IdRange, NicSpec } from '../../drivers/instance/contract.ts';
import type {
  AdoptOptions,
  CloneMode,
  ProgressOptions,
  RootMount,
  RootOptions,
  StoragePool,
  VolumeRef,
} from '../../drivers/storage/contract.ts';
import type { ImageRecord } from '../../state/records/image.ts';
import type { InstanceRecord } from '../../state/records/instance.ts';
import type { ProfileRecord } from '../../state/records/profile.ts';

/** A root volume: where it is and how it must look. */
export interface RootVolume {
  readonly pool: string;
  readonly project: string;
  /** Instance name, without project prefix. */
  readonly instance: string;
  readonly type: 'container' | 'virtual-machine';
  readonly idRange: IdRange | undefined;
  readonly nesting: boolean;
}

/** One state of a root that is made from several, in the order of time. */
export interface RootState {
  /** Set when the state becomes a snapshot; the last state is the root itself. */
  readonly snapshot?: { readonly name: string; readonly createdAt: string; readonly expiresAt: string };
  /** Writes the state with guest ids into an empty folder. */
  fill(path: string): Promise<void>;
  /** Has the state with guest ids in a folder while `use` runs. */
  with(use: (folder: string) => Promise<void>): Promise<void>;
}

/** A root on its way into a backup, in its driver's own format. Disposing it removes what it needed. */
export interface NativeBackup extends AsyncDisposable {
  /** Text of optimized_header.yaml. */
  readonly header: string;
  /** Members of the backup, in their order. */
  readonly parts: readonly { readonly name: string; open(): Promise<Readable> }[];
}

/** A backup in a driver's own format that comes in. */
export interface NativeSource {
  /** Oldest first. */
  readonly snapshots: readonly { readonly name: string; readonly createdAt: string; readonly expiresAt: string }[];
  /** Text of optimized_header.yaml. */
  readonly header: string | undefined;
  /** Driver of the pool it was made on. */
  readonly backend: string;
  open(member: string): Promise<Readable>;
}

/** A root volume in the hands of its pool. */
export interface OpenedRoot {
  readonly pool: StoragePool;
  readonly ref: VolumeRef;
  readonly options: RootOptions;
}

/** What the instances service needs from storage. Every method keeps volume records in step with the pool. */
export interface InstanceStorage {
  /** Root volume from a cached image (the image volume is made on first use). `size`: bytes or undefined. */
  createFromImage(
    root: RootVolume,
    image: ImageRecord,
    options: { size: number | undefined; clone?: CloneMode } & ProgressOptions,
  ): Promise<void>;
  /** Empty root (source none), or filled by `fill` with guest ids. */
  createFilled(
    root: RootVolume,
    options: { size: number | undefined },
    fill?: (path: string) => Promise<void>,
  ): Promise<void>;
  /** Root with snapshots from states, oldest first. */
  createFromStates(
    root: RootVolume,
    states: readonly RootState[],
    /** `plain`: a state holds what no overlay can show. */
    options: { size: number | undefined; plain: boolean } & ProgressOptions,
  ): Promise<void>;
  /**
   * Root with snapshots from a driver's own streams. `shift`: host ids that files there carry.
   * @throws bad-request when the pool's driver is not the source's.
   */
  createFromNative(
    root: RootVolume,
    source: NativeSource,
    options: { size: number | undefined; shift: AdoptOptions } & ProgressOptions,
  ): Promise<void>;
  /**
   * From another instance or its snapshot, in the same or another pool. `snapshots`: those to copy along, oldest first.
   * `size`: bytes a root in another pool has room for; a copy in the same pool starts with the source's.
   */
  copy(
    source: RootVolume & { readonly snapshot?: string },
    target: RootVolume,
    options: { snapshots: readonly string[]; size?: number | undefined } & ProgressOptions,
  ): Promise<void>;
  /** Root that `make` creates with the pool's own means; it tells the snapshots it made. */
  createWith(
    root: RootVolume,
    options: { size: number | undefined },
    make: (opened: OpenedRoot) => Promise<readonly { name: string; createdAt: string; expiresAt: string }[]>,
  ): Promise<void>;
  /** Calls `use` with the root as its pool has it. */
  withRoot<T>(root: RootVolume, use: (opened: OpenedRoot) => Promise<T>): Promise<T>;
  rename(root: RootVolume, newName: string): Promise<void>;
  /** With its snapshots; absent = no effect. */
  delete(root: RootVolume): Promise<void>;
  mount(root: RootVolume): Promise<RootMount>;
  unmount(root: RootVolume): Promise<void>;
  usage(root: RootVolume): Promise<number | undefined>;
  /** @throws bad-request with the reason when the pool cannot. */
  resize(root: RootVolume, size: number | undefined): Promise<void>;
  /** `made`: the pool has it already, and it is recorded only. */
  snapshot(
    root: RootVolume,
    name: string,
    options: { running: boolean; expiresAt: string; made?: boolean },
  ): Promise<void>;
  renameSnapshot(root: RootVolume, name: string, newName: string): Promise<void>;
  deleteSnapshot(root: RootVolume, name: string): Promise<void>;
  /** Returns the names of later snapshots that had to go (`zfs.remove_snapshots`). */
  restoreSnapshot(root: RootVolume, name: string): Promise<readonly string[]>;
  /** The root as it is now, read-only, until it is disposed; a guest may write to it meanwhile. */
  freeze(root: RootVolume): Promise<{ readonly mount: RootMount } & AsyncDisposable>;
  /** Whether the pool has a format of its own for backups. */
  hasNative(pool: string): Promise<boolean>;
  /** Undefined when the pool has no format of its own. `beside`: small files that go along beside the root. */
  nativeBackup(
    root: RootVolume,
    options: {
      readonly snapshots: readonly string[];
      readonly running: boolean;
      readonly beside: ReadonlyMap<string, string>;
      /** Member of a state in the backup, without its end. */
      readonly member: (snapshot: string | undefined) => string;
    },
  ): Promise<NativeBackup | undefined>;
  /** A small file beside the root; undefined when it is not there. */
  readBeside(root: RootVolume, name: string): Promise<string | undefined>;
  mountSnapshot(root: RootVolume, name: string): Promise<RootMount>;
  unmountSnapshot(root: RootVolume, name: string): Promise<void>;
  poolExists(pool: string): boolean;
}

/** What it needs from custom volumes, which disk devices attach. `project`: the instance's. */
export interface InstanceVolumes {
  /** Its path on the host. @throws not-found naming the volume. */
  mount(
    pool: string,
    project: string,
    volume: string,
  ): Promise<{ readonly path: string; readonly block: boolean; readonly shifted: boolean }>;
  unmount(pool: string, project: string, volume: string): Promise<void>;
  /** Whether the pool holds the volume for instances of `project`. */
  exists(pool: string, project: string, volume: string): boolean;
  /** Whether it is a block device to its users. */
  isBlock(pool: string, project: string, volume: string): boolean;
  /** Whether the server keeps something of its own on it. */
  isServers(pool: string, project: string, volume: string): boolean;
}

/** What it needs from images. */
export interface InstanceImages {
  /**
   * Finds the image of an instance source in the project: alias, fingerprint (prefix), properties; from a remote server it
   * downloads. @throws not-found / bad-request with LXD's text.
   */
  resolve(
    project: string,
    source: Readonly<Record<string, unknown>>,
    type: 'container' | 'virtual-machine',
    options: ProgressOptions,
  ): Promise<ImageRecord>;
  touch(project: string, fingerprint: string): Promise<void>;
  /** Image metadata.yaml `templates` part and template files, for instance start/create. */
  templates(image: ImageRecord): Promise<ImageTemplates>;
}

export interface ImageTemplates {
  /** metadata.yaml, parsed. */
  readonly metadata: Readonly<Record<string, unknown>>;
  /** File name below `templates/` → content. */
  readonly files: ReadonlyMap<string, string>;
}

/** What it needs from networks. */
export interface InstanceNetworks {
  /** Checks a nic device (`network` or `nictype`+`parent`). @throws bad-request with LXD's text. */
  validateNic(project: string, device: Readonly<Record<string, string>>): void;
  /** Makes the host ready for this nic (reservation, filters) and says how to plug it. `volatile` holds hwaddr, host_name. */
  prepareNic(
    instance: InstanceRecord,
    device: string,
    config: Readonly<Record<string, string>>,
    volatile: Readonly<Record<string, string>>,
  ): Promise<NicSpec>;
  /** After the guest stopped or the nic was detached. Idempotent. */
  releaseNic(
    instance: InstanceRecord,
    device: string,
    config: Readonly<Record<string, string>>,
    volatile: Readonly<Record<string, string>>,
  ): Promise<void>;
  /** Nics of the instance changed or it was deleted/renamed: refresh DHCP reservations. */
  refreshReservations(network: string): Promise<void>;
}

export interface InstanceProfiles {
  /** @throws not-found naming the profile. In the given order. */
  resolve(project: string, names: readonly string[]): readonly ProfileRecord[];
}
