import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { writeFileAtomic } from '../../../host/files.ts';

/** A folder `layers/<id>/fs` whose files carry host ids that start at `base` (0: guest ids). */
export interface LayerRef {
  readonly id: string;
  readonly base: number;
  /** Length of the range, when it has a base of its own. */
  readonly size?: number;
}

/** Frozen layers, topmost first, over the root of an image volume when `image` is set. */
export interface OverlayTree {
  readonly kind: 'overlay';
  readonly image?: string;
  readonly layers: readonly LayerRef[];
}

/** One ordinary folder `layers/<tree>/fs` with guest ids. */
export interface PlainTree {
  readonly kind: 'plain';
  readonly tree: string;
  /** Image it was copied from. */
  readonly image?: undefined;
}

export type Tree = OverlayTree | PlainTree;
export type Head = (OverlayTree & { readonly upper: LayerRef }) | PlainTree;

/**
 * What an instance root consists of. The manifest is the only commit point: a layer that no manifest names is garbage.
 */
export interface RootManifest {
  readonly version: 1;
  readonly head: Head;
  readonly snapshots: Readonly<Record<string, Tree>>;
}

export const MANIFEST = 'volume.json';

/** @throws internal when the file is not a manifest. */
export async function readManifest(folder: string): Promise<RootManifest> {
  const text = await readFile(join(folder, MANIFEST), 'utf8');
  const value: unknown = JSON.parse(text);
  if (typeof value !== 'object' || value === null || !('version' in value) || value.version !== 1) {
    throw errors.internal(`Unknown volume format in ${join(folder, MANIFEST)}`);
  }
  const manifest = value as RootManifest;
  // A pool can come from another machine: a name must not lead out of it.
  for (const name of [...layersOf(manifest), ...imagesOf(manifest)]) {
    if (typeof name !== 'string' || !/^[\w.:-]+$/.test(name) || name === '.' || name === '..')
      throw errors.internal(`Invalid name in ${join(folder, MANIFEST)}`);
  }
  return manifest;
}

export function writeManifest(folder: string, manifest: RootManifest): Promise<void> {
  return writeFileAtomic(join(folder, MANIFEST), `${JSON.stringify(manifest)}\n`);
}

/** The layer that takes what the guest writes. */
export function headLayer({ head }: Pick<RootManifest, 'head'>): string {
  return head.kind === 'plain' ? head.tree : head.upper.id;
}

/** Ids of all layers a manifest names. */
export function layersOf(manifest: RootManifest): Set<string> {
  const ids = new Set<string>();
  for (const tree of [manifest.head, ...Object.values(manifest.snapshots)]) {
    for (const id of layersOfTree(tree)) ids.add(id);
  }
  return ids;
}

export function layersOfTree(tree: Head | Tree): string[] {
  if (tree.kind === 'plain') return [tree.tree];
  return [...('upper' in tree ? [tree.upper.id] : []), ...tree.layers.map(({ id }) => id)];
}

/** Images any part of the root stands on. */
export function imagesOf(manifest: RootManifest): string[] {
  const trees = [manifest.head, ...Object.values(manifest.snapshots)];
  return [...new Set(trees.flatMap(({ image }) => (image === undefined ? [] : [image])))];
}

/** The head as a frozen tree: its upper becomes the topmost layer. */
export function frozen(head: Head): Tree {
  if (head.kind === 'plain') return head;
  return overlayTree([head.upper, ...head.layers], head.image);
}

/** The head's tree without its upper: what a head with an empty upper holds. */
export function withoutUpper(head: Head & { kind: 'overlay' }): OverlayTree {
  return overlayTree(head.layers, head.image);
}

export function overlayTree(layers: readonly LayerRef[], image: string | undefined): OverlayTree {
  return image === undefined ? { kind: 'overlay', layers } : { kind: 'overlay', layers, image };
}

export function headOver(tree: OverlayTree, upper: LayerRef): Head {
  return { ...overlayTree(tree.layers, tree.image), upper };
}
