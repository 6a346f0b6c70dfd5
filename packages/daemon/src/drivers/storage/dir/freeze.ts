import { join } from 'node:path';
import type { UndoStack } from '../../../core/undo-stack.ts';
import { isMountPoint, unmountAll } from '../../../host/mounts.ts';
import { errnoOf } from '../../../host/syscalls.ts';
import type { VolumeRef } from '../contract.ts';
import { volumePath } from '../common/volume-names.ts';
import type { DirContext } from './context.ts';
import { frozen, headOver, type OverlayTree, type RootManifest, type Tree, withoutUpper } from './manifest.ts';

export interface FreezeOptions {
  /** A guest uses the root: its upper is copied, not frozen. */
  readonly running: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Takes the layers made for the tree alone. */
  readonly undo: UndoStack;
  /** The caller replaces the head itself: no new upper is committed. */
  readonly keepUpper?: boolean;
}

/**
 * What the root holds right now, as a tree nobody writes to any more. Of a root that no guest uses the upper itself is
 * frozen and the volume goes on with an empty one: no byte is copied. The caller holds the volume's lane.
 */
export async function freeze(dir: DirContext, volume: VolumeRef, options: FreezeOptions): Promise<Tree> {
  const { index, layers } = dir;
  const manifest = index.get(volume);
  const { head } = manifest;
  const live = options.running || !(await released(dir, volume));
  const copy = async (path: string) => {
    const id = await layers.copy(path, { live, signal: options.signal });
    options.undo.add(() => layers.discard(id));
    return id;
  };
  if (head.kind === 'plain') return { kind: 'plain', tree: await copy(layers.files(head.tree)) };
  if (await layers.isEmpty(head.upper.id)) return withoutUpper(head);
  if (live) {
    const layer = { ...head.upper, id: await copy(layers.files(head.upper.id)) };
    return { ...withoutUpper(head), layers: [layer, ...head.layers] };
  }
  const tree = frozen(head);
  if (tree.kind === 'plain' || options.keepUpper === true) return tree;
  return freezeUpper(dir, volume, manifest, tree);
}

/** Commits a new empty upper over `tree`, made one layer first when it got too deep. */
async function freezeUpper(
  dir: DirContext,
  volume: VolumeRef,
  manifest: RootManifest,
  tree: OverlayTree,
): Promise<Tree> {
  const { index, layers, mounts } = dir;
  const { head } = manifest;
  if (head.kind === 'plain') return head;
  const bottom: OverlayTree = mounts.isDeep(tree)
    ? { kind: 'overlay', layers: [{ id: await mounts.flatten(tree), base: 0 }] }
    : tree;
  const top = mounts.top(bottom);
  const upper = { ...head.upper, id: await layers.createOver(top.path, top.base, head.upper.base) };
  await index.commit(volume, { ...manifest, head: headOver(bottom, upper) });
  return bottom;
}

/** Unmounts the root unless something uses it. */
async function released(dir: DirContext, volume: VolumeRef): Promise<boolean> {
  const target = join(volumePath(dir.path, volume), 'rootfs');
  if (!isMountPoint(target)) return true;
  try {
    await unmountAll(target);
    return true;
  } catch (error) {
    if (errnoOf(error) === 'EBUSY') return false;
    throw error;
  }
}
