import type { KeyedQueue } from '../../../core/keyed-queue.ts';
import type { Log } from '../../../core/log.ts';
import type { Trash } from '../common/trash.ts';
import type { Layers } from './layers.ts';
import type { FolderProjects } from './projects.ts';
import type { RootIndex } from './root-index.ts';
import type { RootMounts } from './root-mounts.ts';

/** What the parts of one `dir` pool share. */
export interface DirContext {
  /** Folder of the pool's content. */
  readonly path: string;
  /** Half-made things; emptied by `recover`. */
  readonly staging: string;
  readonly layers: Layers;
  readonly index: RootIndex;
  readonly mounts: RootMounts;
  readonly trash: Trash;
  readonly projects: FolderProjects;
  /** One lane per volume. */
  readonly queue: KeyedQueue;
  readonly newId: () => string;
  readonly log: Log;
}
