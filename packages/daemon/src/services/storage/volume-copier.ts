import type { Ids } from '../../core/ids.ts';
import { UndoStack } from '../../core/undo-stack.ts';
import type {
  CopyOptions,
  ProgressOptions,
  RootOptions,
  SnapshotRef,
  StoragePool,
  VolumeOptions,
  VolumeRef,
} from '../../drivers/storage/contract.ts';
import { bandwidthOf, bytesOf, type CopyFile, type CopyTree, TEMPORARY_PREFIX } from './root-transfer.ts';

export interface VolumeCopy {
  readonly from: StoragePool;
  readonly source: VolumeRef | SnapshotRef;
  readonly to: StoragePool;
  readonly target: VolumeRef;
  /** Of the source, oldest first. */
  readonly snapshots: readonly string[];
}

const plain: RootOptions = { idRange: undefined, clone: 'auto', nesting: false };

/** Copies custom volumes: inside a pool by its driver, between pools state by state. */
export class VolumeCopier {
  readonly #copyTree: CopyTree;
  readonly #copyFile: CopyFile;
  readonly #contentSize: (path: string) => Promise<number>;
  readonly #ids: Ids;

  /** `contentSize`: bytes of a file or a block device. */
  constructor(options: {
    copyTree: CopyTree;
    copyFile: CopyFile;
    contentSize: (path: string) => Promise<number>;
    ids: Ids;
  }) {
    this.#copyTree = options.copyTree;
    this.#copyFile = options.copyFile;
    this.#contentSize = options.contentSize;
    this.#ids = options.ids;
  }

  async copy(copy: VolumeCopy, options: Omit<CopyOptions, 'snapshots'>): Promise<void> {
    if (copy.from === copy.to) {
      await copy.to.volumes.copy(copy.source, copy.target, { ...options, snapshots: copy.snapshots });
      return;
    }
    await using undo = new UndoStack();
    let made = false;
    const step = async (path: string) => {
      if (made) return this.#mirror(path, copy, options);
      await this.#create(path, copy, options);
      undo.add(() => copy.to.volumes.delete(copy.target));
      made = true;
    };
    for (const snapshot of copy.snapshots) {
      await this.#withSnapshot(copy, snapshot, step);
      await copy.to.snapshots.create(copy.target, snapshot, { running: false });
    }
    await this.#withHead(copy, step);
    undo.commit();
  }

  /** Brings an existing target up to date: states it lacks, then the present one. What fails leaves it half done. */
  async refresh(copy: VolumeCopy, options: ProgressOptions & VolumeOptions): Promise<void> {
    for (const snapshot of copy.snapshots) {
      await this.#withSnapshot(copy, snapshot, (path) => this.#mirror(path, copy, options));
      await copy.to.snapshots.create(copy.target, snapshot, { running: false });
    }
    await this.#withHead(copy, (path) => this.#mirror(path, copy, options));
  }

  async #withSnapshot(
    { from, source }: VolumeCopy,
    snapshot: string,
    use: (path: string) => Promise<void>,
  ): Promise<void> {
    const { path } = await from.snapshots.mount(source, snapshot, plain);
    try {
      await use(path);
    } finally {
      await from.snapshots.unmount(source, snapshot);
    }
  }

  /** A snapshot that lives as long as the copy: guests may write to the source, or get it, meanwhile. */
  async #withHead(copy: VolumeCopy, use: (path: string) => Promise<void>): Promise<void> {
    const { from, source } = copy;
    if ('snapshot' in source) return this.#withSnapshot(copy, source.snapshot, use);
    const name = `${TEMPORARY_PREFIX}${this.#ids.secret(6)}`;
    await from.snapshots.create(source, name, { running: true });
    try {
      await this.#withSnapshot(copy, name, use);
    } finally {
      await from.snapshots.delete(source, name);
    }
  }

  async #create(path: string, copy: VolumeCopy, options: ProgressOptions & VolumeOptions): Promise<void> {
    const { to, target } = copy;
    const { signal, onProgress, config = {} } = options;
    const bandwidth = bandwidthOf(copy);
    if (target.contentType === 'filesystem') {
      const fill = (folder: string) =>
        this.#copyTree(path, folder, { mirror: false, signal, onBytes: bytesOf(onProgress), bandwidth });
      await to.volumes.createFilled(target, fill, { config });
      return;
    }
    await to.volumes.create(target, { size: await this.#contentSize(path), config });
    const onBytes = bytesOf(onProgress, 'block');
    await this.#copyFile(path, await to.volumes.mount(target, { config }), { signal, onBytes });
  }

  async #mirror(path: string, copy: VolumeCopy, options: ProgressOptions & VolumeOptions): Promise<void> {
    const { to, target } = copy;
    const { signal, onProgress, config = {} } = options;
    const bandwidth = bandwidthOf(copy);
    const into = await to.volumes.mount(target, { config });
    if (target.contentType === 'filesystem') {
      await this.#copyTree(path, into, { mirror: true, signal, onBytes: bytesOf(onProgress), bandwidth });
    } else await this.#copyFile(path, into, { signal, onBytes: bytesOf(onProgress, 'block') });
  }
}
