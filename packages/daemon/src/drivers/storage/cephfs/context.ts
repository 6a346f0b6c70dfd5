import { join } from 'node:path';
import type { KeyedQueue } from '../../../core/keyed-queue.ts';
import type { Trash } from '../common/trash.ts';

/** What the parts of one `cephfs` pool share. */
export interface CephfsContext {
  /** Folder of the pool's content. */
  readonly path: string;
  /** Half-made volumes and the journals of restores; seen to by `recover`. */
  readonly staging: string;
  readonly trash: Trash;
  /** One lane per volume. */
  readonly queue: KeyedQueue;
  readonly newId: () => string;
  /** Resolves when the file system answers; to be asked before anything in it is touched. @throws unavailable. */
  readonly ready: () => Promise<void>;
}

/** Snapshots of a folder of CephFS are folders in it that nothing lists. */
export function snapshotFolder(folder: string, snapshot = ''): string {
  return join(folder, '.snap', snapshot);
}

/** Snapshots the driver makes for itself. */
export const OWN_PREFIX = '.own-';

/** Names of a user's snapshots; CephFS shows those of folders above as `_<name>_<inode>`. */
export function isUserSnapshot(name: string): boolean {
  return !name.startsWith('_') && !name.startsWith(OWN_PREFIX);
}
