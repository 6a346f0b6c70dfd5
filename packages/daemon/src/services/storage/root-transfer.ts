import { stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { parseSize } from '@keelson/api';
import type { Ids } from '../../core/ids.ts';
import { UndoStack } from '../../core/undo-stack.ts';
import type {
  ProgressOptions,
  RootMount,
  RootOptions,
  SnapshotRef,
  StoragePool,
  VolumeRef,
} from '../../drivers/storage/contract.ts';
import type { RootState } from '../instances/ports.ts';

/** Content of a folder into another, with everything files have; with `mirror` what is only in the target goes. */
export type CopyTree = (
  source: string,
  target: string,
  options: {
    readonly mirror: boolean;
    /** Contents are compared also where size and time are the same: archives may round times. */
    readonly exact?: boolean;
    readonly signal?: AbortSignal | undefined;
    /** Bytes read so far. */
    readonly onBytes?: ((bytes: number) => void) | undefined;
    /** `rsync.bwlimit` of a pool that takes part. */
    readonly bandwidth?: string | undefined;
  },
) => Promise<void>;

/** One file or device with its holes into another, which a file is made for. */
export type CopyFile = (
  source: string,
  target: string,
  options: {
    readonly signal?: AbortSignal | undefined;
    /** Bytes done so far. */
    readonly onBytes?: ((bytes: number) => void) | undefined;
  },
) => Promise<void>;

export interface RootTransferOptions {
  readonly copyTree: CopyTree;
  readonly copyFile: CopyFile;
  /** Bytes of a file or a block device. */
  readonly contentSize: (path: string) => Promise<number>;
  readonly ids: Ids;
}

export interface RootCopy {
  readonly from: StoragePool;
  readonly source: VolumeRef | SnapshotRef;
  readonly to: StoragePool;
  readonly target: VolumeRef;
  /** Of the source, oldest first. */
  readonly snapshots: readonly string[];
}

/** File of a virtual machine's disk in the folder of its root; on some pools a link to a device. */
export const DISK = 'root.img';

interface Transport extends RootOptions, ProgressOptions {
  readonly exact?: boolean;
  readonly bandwidth?: string | undefined;
  /** Bytes a disk has at least. */
  readonly diskSize?: number;
}

/** Guest ids, so that a file has the same owner in both pools. */
const guestIds: Pick<RootOptions, 'idRange'> = { idRange: undefined };

/** Copies instance roots between pools, snapshot by snapshot: files of containers, disks of virtual machines. */
export class RootTransfer {
  readonly #options: RootTransferOptions;

  constructor(options: RootTransferOptions) {
    this.#options = options;
  }

  async copy(copy: RootCopy, options: RootOptions & ProgressOptions): Promise<void> {
    await using undo = new UndoStack();
    const how = { ...options, ...guestIds };
    let made = false;
    const step = async (snapshot: string) => {
      const { path } = await copy.from.snapshots.mount(copy.source, snapshot, how);
      try {
        const transport = { ...how, bandwidth: bandwidthOf(copy) };
        if (made) await this.#mirrorInto(copy.to, copy.target, path, transport);
        else await this.#create(copy.to, copy.target, path, transport);
      } finally {
        await copy.from.snapshots.unmount(copy.source, snapshot);
      }
      if (!made) undo.add(() => copy.to.volumes.delete(copy.target));
      made = true;
    };
    for (const snapshot of copy.snapshots) {
      await step(snapshot);
      await copy.to.snapshots.create(copy.target, snapshot, { running: false });
    }
    if ('snapshot' in copy.source) await step(copy.source.snapshot);
    else await this.#withTemporary(copy.from, copy.source, step);
    undo.commit();
  }

  /** The volume as it is now, until it is disposed; it may run meanwhile. */
  async freeze(
    pool: StoragePool,
    volume: VolumeRef,
    options: RootOptions,
  ): Promise<{ readonly mount: RootMount } & AsyncDisposable> {
    const name = `${TEMPORARY_PREFIX}${this.#options.ids.secret(6)}`;
    await using undo = new UndoStack();
    await pool.snapshots.create(volume, name, { running: true });
    undo.add(() => pool.snapshots.delete(volume, name));
    const mount = await pool.snapshots.mount(volume, name, options);
    undo.commit();
    const dispose = async () => {
      await pool.snapshots.unmount(volume, name);
      await pool.snapshots.delete(volume, name);
    };
    return { mount, [Symbol.asyncDispose]: dispose };
  }

  /** A root from states that come from elsewhere, oldest first; leaves nothing when it fails. */
  async fill(
    to: StoragePool,
    target: VolumeRef,
    states: readonly RootState[],
    options: RootOptions & ProgressOptions,
  ): Promise<void> {
    await using undo = new UndoStack();
    let made = false;
    for (const state of states) {
      if (made) {
        await state.with((folder) => this.#mirrorInto(to, target, folder, { ...options, ...guestIds, exact: true }));
      } else {
        await to.roots.createFilled(target, options, (path) => state.fill(path));
        undo.add(() => to.volumes.delete(target));
        made = true;
      }
      if (state.snapshot !== undefined) await to.snapshots.create(target, state.snapshot.name, { running: false });
      options.signal?.throwIfAborted();
    }
    undo.commit();
  }

  /** A snapshot that lives as long as the copy: the source may run, or start, meanwhile. */
  async #withTemporary(pool: StoragePool, volume: VolumeRef, use: (snapshot: string) => Promise<void>): Promise<void> {
    const name = `${TEMPORARY_PREFIX}${this.#options.ids.secret(6)}`;
    await pool.snapshots.create(volume, name, { running: true });
    try {
      await use(name);
    } finally {
      await pool.snapshots.delete(volume, name);
    }
  }

  async #create(to: StoragePool, target: VolumeRef, source: string, options: Transport): Promise<void> {
    if (target.type === 'virtual-machine') return this.#createDisk(to, target, source, options);
    const { signal, onProgress, bandwidth } = options;
    const how = { mirror: false, signal, onBytes: bytesOf(onProgress), bandwidth };
    await to.roots.createFilled(target, options, (folder) => this.#options.copyTree(source, folder, how));
  }

  /** A disk of the size it has, or was asked for if that is more; no folder of files that a device would be put in. */
  async #createDisk(to: StoragePool, target: VolumeRef, source: string, options: Transport): Promise<void> {
    const asked = parseSize(options.config?.['size'] ?? '');
    const size = Math.max(await this.#options.contentSize(join(source, DISK)), asked.ok ? asked.value : 0);
    await using undo = new UndoStack();
    await to.roots.createFilled(target, { ...options, config: { ...options.config, size: String(size) } });
    undo.add(() => to.volumes.delete(target));
    await this.#mirrorInto(to, target, source, { ...options, diskSize: size });
    undo.commit();
  }

  async #mirrorInto(to: StoragePool, target: VolumeRef, source: string, options: Transport): Promise<void> {
    const { path } = await to.roots.mount(target, options);
    try {
      const { signal, onProgress, exact = false, bandwidth } = options;
      if (target.type === 'virtual-machine') {
        const disk = join(path, DISK);
        await this.#options.copyFile(join(source, DISK), disk, { signal, onBytes: bytesOf(onProgress, 'block') });
        const made = await stat(disk);
        if (made.isFile() && made.size < (options.diskSize ?? 0)) await truncate(disk, options.diskSize);
        return;
      }
      const onBytes = bytesOf(onProgress);
      await this.#options.copyTree(source, path, { mirror: true, exact, signal, onBytes, bandwidth });
    } finally {
      await to.roots.unmount(target);
    }
  }
}

/** What rsync may use between two pools: the target's limit, or the source's. */
export function bandwidthOf({
  from,
  to,
}: {
  readonly from: StoragePool;
  readonly to: StoragePool;
}): string | undefined {
  return to.spec.config['rsync.bwlimit'] || from.spec.config['rsync.bwlimit'];
}

/** Progress of a copy of files, under LXD's name for it. */
export function bytesOf(
  onProgress: ProgressOptions['onProgress'],
  stage = 'fs',
): ((bytes: number) => void) | undefined {
  return onProgress === undefined ? undefined : (bytes) => onProgress({ stage, bytes });
}

/** Snapshots that a copy makes for itself; a user's cannot start so. */
export const TEMPORARY_PREFIX = '.copy-';
