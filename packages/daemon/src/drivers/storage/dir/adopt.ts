import { createHash } from 'node:crypto';
import { chmod, lstat, mkdir, readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { pathExists } from '../../../host/files.ts';
import { errnoOf } from '../../../host/syscalls.ts';
import { isRootVolume, snapshotsPath, volumeKey, volumePath } from '../common/volume-names.ts';
import type { AdoptOptions, IdRange, VolumeRef } from '../contract.ts';
import type { DirContext } from './context.ts';
import type { FolderVolumes } from './folder-volumes.ts';
import {
  type Head,
  headOver,
  type LayerRef,
  overlayTree,
  type RootManifest,
  type Tree,
  writeManifest,
} from './manifest.ts';

/** Snapshots of a volume, also of a root that LXD laid out. */
export async function snapshotNames(
  dir: DirContext,
  folders: FolderVolumes,
  volume: VolumeRef,
): Promise<readonly string[]> {
  if (!isRootVolume(volume)) return folders.listSnapshots(volume);
  const manifest = dir.index.find(volume);
  return manifest === undefined ? foreignSnapshots(dir, volume) : Object.keys(manifest.snapshots);
}

async function foreignSnapshots(dir: DirContext, volume: VolumeRef): Promise<string[]> {
  const entries = await readdir(snapshotsPath(dir.path, volume), { withFileTypes: true }).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

/**
 * Makes a root of plain folders, as LXD has them, one with a manifest: each folder becomes a layer by a rename. Names of
 * the layers follow from the volume's, so that a second run goes on where a first was cut off; until the manifest is
 * there the pool sweeps no layer.
 */
export async function adoptRoot(
  dir: DirContext,
  volume: VolumeRef,
  { idRange, snapshots: ranges, nesting }: AdoptOptions,
): Promise<void> {
  if (volume.type !== 'container') return;
  await dir.queue.run({ exclusive: [volumeKey(volume)] }, async () => {
    if (dir.index.find(volume) !== undefined) return;
    const folder = volumePath(dir.path, volume);
    const snapshots: Record<string, Tree> = {};
    const shifted: string[] = [];
    const settle = async (id: string, range: IdRange | undefined): Promise<Tree> => {
      const tree = treeOf({ id, base: 0 }, range);
      if (tree.kind === 'plain' || !nesting) return tree;
      shifted.push(id); // an overlay would hide what the guest's own overlays are made of
      return { kind: 'plain', tree: await dir.mounts.flatten(tree) };
    };
    for (const name of await foreignSnapshots(dir, volume)) {
      const id = await adoptFolder(
        dir,
        join(snapshotsPath(dir.path, volume), name, 'rootfs'),
        `${volume.name}/${name}`,
      );
      snapshots[name] = await settle(id, ranges.get(name));
    }
    const id = await adoptFolder(dir, join(folder, 'rootfs'), volume.name);
    const manifest: RootManifest = {
      version: 1,
      head: await headOf(dir, await settle(id, idRange), idRange),
      snapshots,
    };
    await mkdir(join(folder, 'rootfs'), { recursive: true });
    await writeManifest(folder, manifest);
    await chmod(folder, 0o100);
    dir.index.adopt(volume, manifest);
    for (const old of shifted) await dir.layers.discard(old);
    await dir.index.rescan();
    await dir.trash.discard(snapshotsPath(dir.path, volume)); // what was beside the snapshots' roots
  });
}

/** The folder as a layer; its name tells where it came from. */
async function adoptFolder(dir: DirContext, source: string, origin: string): Promise<string> {
  const id = createHash('sha256').update(origin).digest('hex').slice(0, 16);
  const files = dir.layers.files(id);
  await mkdir(dir.layers.work(id), { recursive: true });
  if (await pathExists(files)) return id;
  // A link there would lead out of the pool.
  const isFolder = await lstat(source).then(
    (found) => found.isDirectory(),
    () => false,
  );
  if (!isFolder) throw errors.badRequest(`"${source}" holds no root file system`);
  await rename(source, files);
  return id;
}

/** Files with guest ids stay a plain folder; others are seen through an id-mapped mount. */
function treeOf(layer: LayerRef, idRange: IdRange | undefined): Tree {
  if (idRange === undefined) return { kind: 'plain', tree: layer.id };
  return overlayTree([{ ...layer, ...idRange }], undefined);
}

async function headOf(dir: DirContext, tree: Tree, idRange: IdRange | undefined): Promise<Head> {
  if (tree.kind === 'plain') return tree;
  const top = dir.mounts.top(tree);
  const upper = await dir.layers.createOver(top.path, top.base, top.base);
  return headOver(tree, idRange === undefined ? { id: upper, base: 0 } : { id: upper, ...idRange });
}
