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

export interface RootTransferOptions {
  readonly copyTree: CopyTree;
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

/** Guest ids, so that a file has the same owner in both pools. */
const guestIds: Pick<RootOptions, 'idRange'> = { idRange: undefined };

/** Copies instance roots between pools, snapshot by snapshot. */
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
        if (made) await this.#refresh(copy, path, how);
        else
          await copy.to.roots.createFilled(copy.target, how, (target) =>
            this.#copy(path, target, { ...options, bandwidth: bandwidthOf(copy) }),
          );
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

  #refresh(copy: RootCopy, source: string, options: RootOptions & ProgressOptions): Promise<void> {
    return this.#mirrorInto(copy.to, copy.target, source, { ...options, bandwidth: bandwidthOf(copy) });
  }

  async #mirrorInto(
    to: StoragePool,
    target: VolumeRef,
    source: string,
    options: RootOptions & ProgressOptions & { readonly exact?: boolean; readonly bandwidth?: string | undefined },
  ): Promise<void> {
    const { path } = await to.roots.mount(target, options);
    try {
      const { signal, onProgress, exact = false, bandwidth } = options;
      const onBytes = bytesOf(onProgress);
      await this.#options.copyTree(source, path, { mirror: true, exact, signal, onBytes, bandwidth });
    } finally {
      await to.roots.unmount(target);
    }
  }

  #copy(
    source: string,
    target: string,
    { signal, onProgress, bandwidth }: ProgressOptions & { readonly bandwidth: string | undefined },
  ): Promise<void> {
    return this.#options.copyTree(source, target, { mirror: false, signal, onBytes: bytesOf(onProgress), bandwidth });
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
