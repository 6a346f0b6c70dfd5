import { mkdir, rm, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { UserNamespaces } from '../../../host/idmap.ts';
import { cloneMount, fitsOverlay, mountOverlay, unmountAll } from '../../../host/mounts.ts';
import type { IdRange } from '../contract.ts';
import type { Layers } from './layers.ts';
import type { Head, LayerRef, OverlayTree, Tree } from './manifest.ts';

/** Layers above which a tree is copied into one. */
const MAX_LAYERS = 30;
const DEFAULT_RANGE = 65_536;

export interface RootMountsOptions {
  readonly layers: Layers;
  readonly namespaces: UserNamespaces;
  /** Root folder of an image volume. */
  readonly imageRoot: (fingerprint: string) => string;
  readonly staging: string;
  readonly newId: () => string;
}

/** Mounts the trees that manifests describe: overlays with the ids of one range, plain folders with guest ids. */
export class RootMounts {
  readonly #options: RootMountsOptions;

  constructor(options: RootMountsOptions) {
    this.#options = options;
  }

  /** The writable root at `target`. An overlay's upper must carry the range's ids already. */
  async mountHead(head: Head, range: IdRange | undefined, target: string): Promise<void> {
    if (head.kind === 'plain') return cloneMount(this.#options.layers.files(head.tree), target);
    const { layers } = this.#options;
    await this.#withLowers(head, range, (lower) =>
      mountOverlay(target, { lower, upper: layers.files(head.upper.id), work: layers.work(head.upper.id) }),
    );
  }

  /** A frozen tree, read-only. */
  async mountTree(tree: Tree, range: IdRange | undefined, target: string): Promise<void> {
    if (tree.kind === 'plain') return cloneMount(this.#options.layers.files(tree.tree), target, { readOnly: true });
    await this.#withLowers(tree, range, async (lower) => {
      const [only] = lower;
      if (lower.length > 1) await mountOverlay(target, { lower });
      else if (only !== undefined) await cloneMount(only, target, { readOnly: true });
    });
  }

  /** Whether the tree should become one layer before another is put on top. */
  isDeep(tree: OverlayTree): boolean {
    const longest = this.#options.layers.files('x'.repeat(40));
    return (
      tree.layers.length >= MAX_LAYERS ||
      !fitsOverlay({ lower: tree.layers.map(() => longest), upper: longest, work: longest })
    );
  }

  /** The tree's whole content as one new layer with guest ids. */
  async flatten(tree: Tree, signal?: AbortSignal): Promise<string> {
    const { layers, staging, newId } = this.#options;
    if (tree.kind === 'plain') return layers.copy(layers.files(tree.tree), { signal });
    const view = join(staging, newId());
    await mkdir(view);
    try {
      await this.mountTree(tree, undefined, view);
      return await layers.copy(view, { signal });
    } finally {
      await unmountAll(view, { lazy: true });
      await rmdir(view).catch(() => undefined);
    }
  }

  /** Folder whose attributes the root of `tree` shows, and the base of its ids. */
  top(tree: OverlayTree): { readonly path: string; readonly base: number } {
    const [layer] = tree.layers;
    if (layer !== undefined) return { path: this.#options.layers.files(layer.id), base: layer.base };
    return { path: this.#options.imageRoot(tree.image ?? ''), base: 0 };
  }

  /** Calls `use` with the lower folders as the range sees them; what had to be mounted for that is gone afterwards. */
  async #withLowers(
    tree: OverlayTree,
    range: IdRange | undefined,
    use: (lower: string[]) => Promise<void>,
  ): Promise<void> {
    const { layers, imageRoot, staging, newId } = this.#options;
    const sources = tree.layers.map((layer) => ({ path: layers.files(layer.id), layer }));
    if (tree.image !== undefined) sources.push({ path: imageRoot(tree.image), layer: { id: tree.image, base: 0 } });
    const scratch = join(staging, newId());
    const mounted: string[] = [];
    try {
      const lower: string[] = [];
      for (const { path, layer } of sources) {
        const usernsFd = await this.#namespace(layer, range);
        if (usernsFd === undefined) {
          lower.push(path);
          continue;
        }
        const target = join(scratch, String(mounted.length));
        await mkdir(target, { recursive: true, mode: 0o700 });
        mounted.push(target);
        await cloneMount(path, target, { usernsFd });
        lower.push(target);
      }
      await use(lower);
    } finally {
      // The new mount holds its own references: these paths are not needed any more.
      for (const target of mounted) await unmountAll(target, { lazy: true });
      if (mounted.length > 0) await rm(scratch, { recursive: true, force: true });
    }
  }

  async #namespace(layer: LayerRef, range: IdRange | undefined): Promise<number | undefined> {
    const to = range?.base ?? 0;
    if (layer.base === to) return undefined;
    const size = range?.size ?? layer.size ?? DEFAULT_RANGE;
    return this.#options.namespaces.get({ from: layer.base, to, size });
  }
}
