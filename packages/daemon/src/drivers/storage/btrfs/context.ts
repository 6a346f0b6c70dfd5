import type { KeyedQueue } from '../../../core/keyed-queue.ts';
import type { Log } from '../../../core/log.ts';
import { errnoOf } from '../../../host/syscalls.ts';
import { setReadOnly } from '../../../host/tools/btrfs-tree.ts';
import type { Trash } from '../common/trash.ts';

/** Modes of volumes' own folders. */
export const MODES = { container: 0o100, 'virtual-machine': 0o100, image: 0o711, custom: 0o711 } as const;

/** What the parts of one `btrfs` pool share. */
export interface BtrfsContext {
  /** Folder of the pool's content. */
  readonly path: string;
  /** Half-made subvolumes; emptied by `recover`. */
  readonly staging: string;
  readonly trash: Trash;
  /** One lane per volume. */
  readonly queue: KeyedQueue;
  readonly newId: () => string;
  readonly log: Log;
}

/** Deletes a subvolume; one that is read-only cannot be moved into the trash. Absent = no effect. */
export async function discardSubvolume({ trash }: BtrfsContext, path: string): Promise<void> {
  try {
    await setReadOnly(path, false);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return;
    throw error;
  }
  await trash.discard(path);
}
