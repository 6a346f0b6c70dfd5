import type { Ids } from '../../core/ids.ts';
import { UndoStack } from '../../core/undo-stack.ts';
import type {
  ProgressOptions,
  RootOptions,
  SnapshotRef,
  StoragePool,
  VolumeRef,
} from '../../drivers/storage/contract.ts';

/** Content of a folder into another, with everything files have; with `mirror` what is only in the target goes. */
export type CopyTree = (
  source: string,
  target: string,
  options: {
    readonly mirror: boolean;
    readonly signal?: AbortSignal | undefined;
    /** Bytes read so far. */
    readonly onBytes?: ((bytes: number) => void) | undefined;
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
        else await copy.to.roots.createFilled(copy.target, how, (target) => this.#copy(path, target, false, options));
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

  async #refresh({ to, target }: RootCopy, source: string, options: RootOptions & ProgressOptions): Promise<void> {
    const { path } = await to.roots.mount(target, options);
    try {
      await this.#copy(source, path, true, options);
    } finally {
      await to.roots.unmount(target);
    }
  }

  #copy(source: string, target: string, mirror: boolean, { signal, onProgress }: ProgressOptions): Promise<void> {
    return this.#options.copyTree(source, target, { mirror, signal, onBytes: bytesOf(onProgress) });
  }
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
