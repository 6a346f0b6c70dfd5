import type { Readable } from 'node:stream';
import type { ContentType, VolumeType } from './types.ts';

/** A volume inside one pool. `name` is already project-qualified (`instanceKey`), or a fingerprint for images. */
export interface VolumeRef {
  readonly type: VolumeType;
  readonly name: string;
  readonly contentType: ContentType;
}

export interface SnapshotRef extends VolumeRef {
  readonly snapshot: string;
}

/** Host ids `base … base+size-1` stand for guest ids 0 … size-1 (both uid and gid). */
export interface IdRange {
  readonly base: number;
  readonly size: number;
}

/** How an instance root is made from an image: see design.md. `auto` lets the pool choose. */
export type CloneMode = 'auto' | 'overlay' | 'reflink' | 'copy';

export interface PoolSpec {
  readonly name: string;
  readonly config: Readonly<Record<string, string>>;
  /** `<state>/storage-pools/<name>`: where the pool's content is reachable while it is mounted. */
  readonly path: string;
  /** Loop file to use when no `source` is given: `<state>/disks/<name>.img`. */
  readonly loopFile: string;
}

export interface ProgressOptions {
  readonly signal?: AbortSignal;
  /** Called at most a few times a second. `bytes` done so far. */
  readonly onProgress?: (progress: {
    readonly stage: string;
    readonly bytes: number;
    readonly percent?: number;
  }) => void;
}

/** What a driver can do; the docs table and `GET /1.0` come from it. */
export interface StorageDriverInfo {
  readonly name: string;
  /** Version of the tool or kernel part behind it, as `environment.storage` shows it. */
  readonly version: string;
  /** False with the reason when this host cannot run it. */
  readonly supported: boolean;
  readonly reason?: string;
  readonly remote: boolean;
  readonly capabilities: {
    /** Snapshots and clones cost no copy. */
    readonly cheapClone: boolean;
    readonly cheapSnapshot: boolean;
    readonly quota: boolean;
    readonly shrink: boolean;
    readonly blockVolumes: boolean;
    /** Native send and receive between like pools. */
    readonly optimizedTransfer: boolean;
  };
}

/** How a volume is made or used. */
export interface VolumeOptions {
  /**
   * The volume's config with the pool's `volume.*` defaults under it, without their prefix: `size` (a size as users write
   * it), `block.filesystem`, `zfs.blocksize`, … A driver takes the keys it knows.
   */
  readonly config?: Readonly<Record<string, string>>;
}

export interface CopyOptions extends ProgressOptions, VolumeOptions {
  /** Snapshots of the source to copy along, oldest first; the target has them under the same names. */
  readonly snapshots?: readonly string[];
  /** A guest may write to the source meanwhile. */
  readonly live?: boolean;
}

/** One kind of pool. Adding a driver: one folder and one line in registry.ts. */
export interface StorageDriver {
  readonly name: string;
  probe(): Promise<StorageDriverInfo>;
  /**
   * Checks a pool definition and returns the config to store (defaults filled in, as LXD fills them).
   * @throws bad-request naming the key.
   */
  prepare(spec: PoolSpec): Promise<Record<string, string>>;
  /** Makes the pool on the host and mounts it. On failure nothing is left behind. */
  create(spec: PoolSpec): Promise<void>;
  /**
   * Checks that a pool of this kind is where `spec` says, made here or by LXD, and returns the config to store. Absent
   * when such pools cannot be found again. @throws bad-request naming what is not there.
   */
  reopen?(spec: PoolSpec): Promise<Record<string, string>>;
  /** An existing pool; no effect until `mount`. */
  open(spec: PoolSpec): StoragePool;
}

/** One pool, mounted or not. All methods are safe to repeat after a crash unless they say otherwise. */
export interface StoragePool {
  readonly spec: PoolSpec;
  /** Makes the content reachable at `spec.path`. Idempotent. @throws unavailable with the reason when the source vanished. */
  mount(): Promise<void>;
  unmount(): Promise<void>;
  /** Whether what was mounted is still there; without it the pool's folder tells. */
  isThere?(): Promise<boolean>;
  /** Removes the pool's content and its loop file; never a source the user brought that holds foreign data. */
  destroy(): Promise<void>;
  /** Applies changed config (for example a grown `size`). @throws bad-request naming a key that cannot change. */
  update(config: Readonly<Record<string, string>>): Promise<void>;
  /** Bytes and inodes. */
  resources(): Promise<{ space: { used: number; total: number }; inodes: { used: number; total: number } }>;
  /** Undoes or finishes what a crash left in this pool (half-made volumes, trash). Called once after mount at daemon start. */
  recover(known: readonly VolumeRef[]): Promise<void>;
  readonly volumes: Volumes;
  readonly roots: Roots;
  readonly snapshots: Snapshots;
  /** Absent when the pool cannot limit volumes here; then `size` on a root is refused or ignored as LXD does on `dir`. */
  readonly quota?: Quota;
  /** Absent when the driver has no stream format of its own; volumes then travel file by file. */
  readonly transfer?: NativeTransfer;
  /** False when a mount cannot show other ids than a volume's files have: only unmapped volumes can then be attached. */
  readonly mapsIds?: boolean;
  /** True when a snapshot of a custom volume takes the time, or the space, of a copy of it. */
  readonly snapshotsCopy?: boolean;
  /** Absent when the pool cannot be read without the records. */
  readonly recovery?: PoolRecovery;
}

export interface Volumes {
  /** Empty volume; bytes for block content. @throws conflict when it exists. */
  create(volume: VolumeRef, options: { readonly size?: number } & VolumeOptions): Promise<void>;
  /**
   * New volume filled by `fill(path)`; appears under its name only when `fill` succeeded (crash-safe).
   * Files keep the ids `fill` wrote (unshifted). An image volume holds `rootfs/` (container) or `root.img`
   * (virtual machine), made by `fill` inside the folder it gets.
   */
  createFilled(volume: VolumeRef, fill: (path: string) => Promise<void>, options?: VolumeOptions): Promise<void>;
  /** Full or cheap copy inside the pool, of a volume or one of its snapshots; crash-safe. @throws conflict when the target exists. */
  copy(source: VolumeRef | SnapshotRef, target: VolumeRef, options?: CopyOptions): Promise<void>;
  rename(volume: VolumeRef, newName: string): Promise<void>;
  /** Volume with its snapshots; returns once the name is free (content may go in the background). Absent = no effect. */
  delete(volume: VolumeRef): Promise<void>;
  exists(volume: VolumeRef): Promise<boolean>;
  /** Host path of a custom or image volume's content (folder, or file/device for block). Idempotent. */
  mount(volume: VolumeRef, options?: VolumeOptions): Promise<string>;
  unmount(volume: VolumeRef): Promise<void>;
  /** Bytes used; undefined when the driver cannot tell cheaply. */
  usage(volume: VolumeRef): Promise<number | undefined>;
}

/** A root file system ready for a container. */
export interface RootMount {
  /** Host folder of `/`; of a virtual machine the folder that holds `root.img`. */
  readonly path: string;
  /**
   * `shifted`: files at `path` already carry host ids (base + guest id); the instance driver mounts it as is.
   * `plain`: files carry guest ids; the instance driver must map them (`lxc.rootfs.options = idmap=container`).
   */
  readonly ids: 'shifted' | 'plain';
}

/** Instance root volumes (types container and virtual-machine). */
export interface Roots {
  /** Clone of an image volume of this pool. `idRange` undefined = privileged. @throws conflict when it exists. */
  createFromImage(volume: VolumeRef, image: VolumeRef, options: RootOptions): Promise<void>;
  /**
   * Empty root (source `none`), or filled by `fill` with guest (unshifted) ids at the given path: the root folder of a
   * container, the folder of `root.img` of a virtual machine.
   */
  createFilled(volume: VolumeRef, options: RootOptions, fill?: (path: string) => Promise<void>): Promise<void>;
  /** Copy of another root, or of one of its snapshots, in this pool. */
  copy(source: VolumeRef | SnapshotRef, target: VolumeRef, options: RootOptions & CopyOptions): Promise<void>;
  /** Mounted root for `idRange`; idempotent; safe to call while the instance runs. */
  mount(volume: VolumeRef, options: RootOptions): Promise<RootMount>;
  /** Idempotent. The caller guarantees that no guest process uses it. */
  unmount(volume: VolumeRef): Promise<void>;
  /** The image volume this root stands on (must not be deleted), if it does. */
  imageOf(volume: VolumeRef): Promise<string | undefined>;
}

export interface RootOptions extends VolumeOptions {
  readonly idRange: IdRange | undefined;
  readonly clone: CloneMode;
  /** `security.nesting`: the guest will mount overlayfs on its root. */
  readonly nesting: boolean;
}

export interface Snapshots {
  /** `running`: the volume is in use by a guest right now (crash-consistent snapshot). */
  create(volume: VolumeRef, snapshot: string, options: { readonly running: boolean }): Promise<void>;
  list(volume: VolumeRef): Promise<readonly string[]>;
  rename(volume: VolumeRef, snapshot: string, newName: string): Promise<void>;
  delete(volume: VolumeRef, snapshot: string): Promise<void>;
  /** The volume becomes what the snapshot holds; the snapshot stays. Atomic: after a crash it is the old or the new. */
  restore(volume: VolumeRef, snapshot: string, options?: VolumeOptions): Promise<void>;
  /** Read-only host path of a snapshot's content, with guest ids as `ids` says. */
  mount(volume: VolumeRef, snapshot: string, options: RootOptions): Promise<RootMount>;
  unmount(volume: VolumeRef, snapshot: string): Promise<void>;
}

export interface Quota {
  /** Bytes; undefined removes the limit. @throws bad-request when it cannot shrink below what is used. */
  set(volume: VolumeRef, size: number | undefined, options?: VolumeOptions): Promise<void>;
}

/** Native send and receive between pools of one kind: what LXD calls an optimized transfer. */
export interface NativeTransfer {
  /** The stream format; both ends must have the same. */
  readonly format: 'btrfs' | 'zfs' | 'rbd';
  /** False: backups have no such format, in LXD neither. Default true. */
  readonly backups?: boolean;
  /**
   * Freezes `source` as it is now; disposing the send removes what it needed for that.
   * `running`: the volume is in use by a guest right now. `beside`: small files (path → content) that go along in the
   * volume's own folder, out of its guest's reach; snapshots stay as they are.
   */
  send(
    source: VolumeRef | SnapshotRef,
    options: { readonly running: boolean; readonly beside?: ReadonlyMap<string, string> },
  ): Promise<NativeSend>;
  /**
   * Begins a volume under `target`; nothing is visible under that name before `commit`, and disposing without a commit
   * removes every part. With `refresh` the target exists: parts are added to it, and `commit` replaces its content.
   * @throws conflict when the target exists and `refresh` is not set.
   */
  receive(target: VolumeRef, options: { readonly refresh: boolean } & VolumeOptions): Promise<NativeReceive>;
  /**
   * By the name of each snapshot names of its content, which mean the same on any server: one never stands for two
   * contents. A stream that builds on a snapshot finds any that shares a name with it. Absent: a refresh goes file by file.
   */
  identities?(volume: VolumeRef): Promise<ReadonlyMap<string, readonly string[]>>;
}

/** What lies inside a part and has a stream of its own: on btrfs a subvolume that a guest made. */
export interface NativeInner {
  /** Below the volume's own folder, without a slash at its start. */
  readonly path: string;
  readonly readOnly: boolean;
}

/** One volume on its way out. */
export interface NativeSend extends AsyncDisposable {
  /**
   * Stream of one part: a snapshot by its name, or the frozen volume itself (`undefined`). With `parent`, a snapshot that
   * the other end has, only what changed since. The stream fails when the command behind it does.
   */
  open(
    part: string | undefined,
    parent: string | undefined,
    options?: ProgressOptions & { readonly inside?: string },
  ): Promise<Readable>;
  /** What `part` holds beside its own stream, parents first; each is opened with its path as `inside`. Absent: nothing. */
  inside?(part: string | undefined): Promise<readonly NativeInner[]>;
}

/** One volume on its way in. Parts come oldest first, the volume itself (`undefined`) last; what is inside a part after it. */
export interface NativeReceive extends AsyncDisposable {
  /** Reads `content` to its end. @throws bad-request when it is not a stream of this format. */
  accept(
    part: string | undefined,
    content: Readable,
    options?: ProgressOptions & { readonly inside?: NativeInner },
  ): Promise<void>;
  /** Makes the volume and its snapshots appear under their names. */
  commit(): Promise<void>;
}

/** What a pool tells about itself without the records, so that they can be made again. */
export interface PoolRecovery {
  /** Instance roots and custom volumes. Their names may come from another machine: the caller checks them. */
  scan(): Promise<readonly FoundVolume[]>;
  /**
   * Keeps small files (path → content) with the volume, out of its guest's reach, each replaced in one step. The volume
   * undefined means the pool itself. A volume that is not there is no error.
   */
  describe(volume: VolumeRef | undefined, files: ReadonlyMap<string, string>): Promise<void>;
  /** Drops what `describe` kept apart from the volume. Absent = no effect. */
  forget(volume: VolumeRef): Promise<void>;
  /** One of those files, of the volume or a snapshot of it; undefined when it is not there or no small plain file. */
  read(volume: VolumeRef | SnapshotRef | undefined, name: string): Promise<string | undefined>;
  /** All that tells about a volume, the newest that is known; absent where `read` does. @throws bad-request. */
  files?(volume: VolumeRef): Promise<ReadonlyMap<string, string>>;
  /**
   * Makes an instance root that LXD laid out one of this pool; no effect on those that are.
   * @throws bad-request when this pool cannot have it.
   */
  adopt(volume: VolumeRef, options: AdoptOptions): Promise<void>;
}

/** Host ids that files of a root carry where guest ids are wanted; undefined: they carry guest ids. */
export interface AdoptOptions {
  readonly idRange: IdRange | undefined;
  /** The same of its snapshots. */
  readonly snapshots: ReadonlyMap<string, IdRange | undefined>;
  /** `security.nesting`: the guest may have made overlays of its own. */
  readonly nesting: boolean;
}

export interface FoundVolume {
  readonly volume: VolumeRef;
  readonly snapshots: readonly string[];
}
