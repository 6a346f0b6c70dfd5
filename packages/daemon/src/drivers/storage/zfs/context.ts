import type { KeyedQueue } from '../../../core/keyed-queue.ts';
import type { Log } from '../../../core/log.ts';
import { retry } from '../../../core/retry.ts';
import { CommandError } from '../../../host/run.ts';
import { zfs, type ZfsCommand, zfsIfThere } from '../../../host/tools/zfs.ts';
import {
  type Dataset,
  deletionPlan,
  getProperties,
  listAllSnapshots,
  listDatasets,
  listSnapshots,
  parseDatasets,
  parseNames,
  parseProperties,
} from './plan.ts';

const BUSY = {
  attempts: 8,
  delay: 25,
  maxDelay: 1000,
  retryable: (error: unknown) => error instanceof CommandError && /is busy$/m.test(error.stderr),
};

/** The datasets of one pool. */
export class Datasets {
  /** Dataset that holds the pool: a zpool's own, or one below. */
  readonly root: string;

  constructor(root: string) {
    this.root = root;
  }

  /** Whoever looks at a device for a moment, such as udev, does not make a change fail. */
  run(command: ZfsCommand): Promise<string> {
    return retry(() => zfs(command), BUSY);
  }

  async all(below: string = this.root): Promise<readonly Dataset[]> {
    const text = await zfsIfThere(listDatasets(below));
    return text === undefined ? [] : parseDatasets(text);
  }

  async exists(name: string): Promise<boolean> {
    return (await zfsIfThere(['zfs', 'list', '-H', '-o', 'name', name])) !== undefined;
  }

  /** As `dataset@name`, oldest first. */
  async snapshots(dataset: string): Promise<readonly string[]> {
    const text = await zfsIfThere(listSnapshots(dataset));
    return text === undefined ? [] : parseNames(text);
  }

  /** Of all datasets of the pool. */
  async snapshotsBelow(): Promise<readonly string[]> {
    const text = await zfsIfThere(listAllSnapshots(this.root));
    return text === undefined ? [] : parseNames(text);
  }

  async property(dataset: string, name: string): Promise<string | undefined> {
    const text = await zfsIfThere(getProperties(dataset, [name]));
    return text === undefined ? undefined : parseProperties(text).get(name);
  }

  /** Deletes it now, or once the last clone of it is gone. Absent = no effect. */
  async delete(dataset: string, id: string): Promise<void> {
    const datasets = await this.all();
    if (!datasets.some(({ name }) => name === dataset)) return;
    const snapshots = new Map([[dataset, await this.snapshots(dataset)]]);
    for (const command of deletionPlan({ datasets, snapshots }, dataset, { root: this.root, id }))
      await this.run(command);
  }
}

/** What the parts of one `zfs` pool share. */
export interface ZfsContext {
  /** Folder of the pool's mount points. */
  readonly path: string;
  /** Mount points of what is being made. */
  readonly staging: string;
  readonly datasets: Datasets;
  /** The pool's own config, as it is now. */
  readonly config: () => Readonly<Record<string, string>>;
  /** Whether a mount can show other ids than files have. */
  readonly mapsIds: () => boolean;
  /** One lane per volume. */
  readonly queue: KeyedQueue;
  readonly newId: () => string;
  readonly log: Log;
}
