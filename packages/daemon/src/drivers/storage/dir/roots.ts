import { chmod, chown, mkdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { UndoStack } from '../../../core/undo-stack.ts';
import { copyFile, pathExists } from '../../../host/files.ts';
import { isMountPoint, unmountAll } from '../../../host/mounts.ts';
import type { CopyOptions, IdRange, RootMount, RootOptions, Roots, SnapshotRef, VolumeRef } from '../contract.ts';
import { machineIn } from '../common/plain-content.ts';
import { isSnapshot, snapshotsPath, volumeKey, volumePath } from '../common/volume-names.ts';
import { renameOrConflict } from '../common/publish.ts';
import type { DirContext } from './context.ts';
import { freeze } from './freeze.ts';
import {
  type Head,
  headOver,
  imagesOf,
  type LayerRef,
  overlayTree,
  type RootManifest,
  type Tree,
  writeManifest,
} from './manifest.ts';

/** Instance roots as stacks of layers over an image, or as plain folders. */
export class DirRoots implements Roots {
  readonly #dir: DirContext;

  constructor(dir: DirContext) {
    this.#dir = dir;
  }

  async createFromImage(volume: VolumeRef, image: VolumeRef, options: RootOptions): Promise<void> {
    const { layers, queue } = this.#dir;
    await queue.run({ exclusive: [volumeKey(volume)], shared: [volumeKey(image)] }, async () => {
      this.#assertAbsent(volume);
      await using undo = this.#undo();
      const source = volumePath(this.#dir.path, image);
      let head: Head;
      if (volume.type === 'virtual-machine') {
        const tree = await this.#newLayer(undo, () => layers.create(0, 0o700));
        await copyFile(join(source, 'root.img'), join(layers.files(tree), 'root.img'));
        head = { kind: 'plain', tree };
      } else if (isPlain(options)) {
        const reflink = options.clone === 'reflink' ? 'always' : options.clone === 'copy' ? 'never' : 'auto';
        head = {
          kind: 'plain',
          tree: await this.#newLayer(undo, () => layers.copy(join(source, 'rootfs'), { reflink })),
        };
      } else {
        const base = baseOf(options);
        const id = await this.#newLayer(undo, () => layers.createOver(join(source, 'rootfs'), 0, base));
        head = headOver(overlayTree([], image.name), layerRef(id, options.idRange));
      }
      await this.#publish(volume, { version: 1, head, snapshots: {} }, baseOf(options));
      undo.commit();
    });
  }

  async createFilled(volume: VolumeRef, options: RootOptions, fill?: (path: string) => Promise<void>): Promise<void> {
    const { layers, queue } = this.#dir;
    await queue.run({ exclusive: [volumeKey(volume)] }, async () => {
      this.#assertAbsent(volume);
      await using undo = this.#undo();
      const bottom = await this.#newLayer(undo, () => layers.create(0));
      await fill?.(layers.files(bottom));
      let head: Head = { kind: 'plain', tree: bottom };
      if (volume.type === 'container' && !isPlain(options)) {
        const upper = await this.#newLayer(undo, () => layers.createOver(layers.files(bottom), 0, baseOf(options)));
        head = headOver(overlayTree([{ id: bottom, base: 0 }], undefined), layerRef(upper, options.idRange));
      }
      await this.#publish(volume, { version: 1, head, snapshots: {} }, baseOf(options));
      undo.commit();
    });
  }

  async copy(source: VolumeRef | SnapshotRef, target: VolumeRef, options: RootOptions & CopyOptions): Promise<void> {
    const { queue, index } = this.#dir;
    // Both lanes: the source's layers cannot be freed before the target's manifest names them.
    await queue.run({ exclusive: [volumeKey(source), volumeKey(target)], signal: options.signal }, async () => {
      this.#assertAbsent(target);
      await using undo = this.#undo();
      const tree = isSnapshot(source)
        ? snapshotOf(index.get(source), source.snapshot)
        : await freeze(this.#dir, source, {
            running: isMountPoint(this.#mountPoint(source)),
            signal: options.signal,
            undo,
          });
      const snapshots: Record<string, Tree> = {};
      for (const name of options.snapshots ?? []) {
        snapshots[name] = await this.#copyTree(snapshotOf(index.get(source), name), target, options, undo);
      }
      const copied = await this.#copyTree(tree, target, options, undo);
      const head = copied.kind === 'plain' ? copied : await this.#headOver(copied, options.idRange, undo);
      await this.#publish(target, { version: 1, head, snapshots }, baseOf(options));
      undo.commit();
    });
  }

  async mount(volume: VolumeRef, options: RootOptions): Promise<RootMount> {
    const { queue, index, mounts, layers, path } = this.#dir;
    return queue.run({ exclusive: [volumeKey(volume)] }, async () => {
      const manifest = index.get(volume);
      if (volume.type === 'virtual-machine') {
        return machineIn(headFolder(manifest.head, (id) => layers.files(id)));
      }
      const folder = volumePath(path, volume);
      const target = join(folder, 'rootfs');
      const base = baseOf(options);
      const mounted = (head: Head): RootMount => ({ path: target, ids: head.kind === 'plain' ? 'plain' : 'shifted' });
      if (isMountPoint(target)) {
        if (manifest.head.kind === 'plain' || manifest.head.upper.base === base) return mounted(manifest.head);
        await unmountAll(target);
      }
      await chown(folder, base, base);
      const head = await this.#suited(volume, manifest, options);
      await mounts.mountHead(head, options.idRange, target);
      return mounted(head);
    });
  }

  async unmount(volume: VolumeRef): Promise<void> {
    await this.#dir.queue.run({ exclusive: [volumeKey(volume)] }, () => unmountAll(this.#mountPoint(volume)));
  }

  async imageOf(volume: VolumeRef): Promise<string | undefined> {
    const manifest = this.#dir.index.find(volume);
    return manifest === undefined ? undefined : imagesOf(manifest)[0];
  }

  async rename(volume: VolumeRef, newName: string): Promise<void> {
    const { queue, index, path } = this.#dir;
    const target = { ...volume, name: newName };
    await queue.run({ exclusive: [volumeKey(volume), volumeKey(target)] }, async () => {
      if (index.find(volume) === undefined && index.find(target) !== undefined) return;
      index.get(volume);
      await unmountAll(this.#mountPoint(volume));
      await renameOrConflict(volumePath(path, volume), volumePath(path, target), newName);
      index.move(volume, target);
      if (await pathExists(snapshotsPath(path, volume)))
        await rename(snapshotsPath(path, volume), snapshotsPath(path, target));
    });
  }

  async delete(volume: VolumeRef): Promise<void> {
    const { queue, index, trash, path } = this.#dir;
    await queue.run({ exclusive: [volumeKey(volume)] }, async () => {
      await trash.discard(snapshotsPath(path, volume));
      // Still mounted roots are unmounted by the purge: that writes back what the guest left dirty, and nobody waits for it.
      await trash.discard(volumePath(path, volume));
      await index.drop(volume);
    });
  }

  /**
   * The head as `options` need it. A guest whose range changed keeps its files through an id-mapped layer; one that
   * will mount overlays itself, since nesting was switched on, gets a plain copy of all it has.
   */
  async #suited(volume: VolumeRef, manifest: RootManifest, options: RootOptions): Promise<Head> {
    const { head } = manifest;
    const plain = options.nesting && isPlain(options);
    if (head.kind === 'plain' || (!plain && head.upper.base === baseOf(options))) return head;
    await using undo = this.#undo();
    const tree = await freeze(this.#dir, volume, { running: false, undo, keepUpper: true });
    if (tree.kind === 'plain') return head;
    const next: Head = plain
      ? { kind: 'plain', tree: await this.#newLayer(undo, () => this.#dir.mounts.flatten(tree)) }
      : await this.#headOver(tree, options.idRange, undo);
    await this.#dir.index.commit(volume, { ...manifest, head: next });
    undo.commit();
    return next;
  }

  async #copyTree(tree: Tree, target: VolumeRef, options: RootOptions & CopyOptions, undo: UndoStack): Promise<Tree> {
    const { layers, mounts } = this.#dir;
    if (tree.kind === 'overlay' && target.type === 'container' && !isPlain(options)) return tree;
    if (tree.kind === 'plain') {
      return {
        kind: 'plain',
        tree: await this.#newLayer(undo, () => layers.copy(layers.files(tree.tree), { signal: options.signal })),
      };
    }
    return { kind: 'plain', tree: await this.#newLayer(undo, () => mounts.flatten(tree, options.signal)) };
  }

  async #headOver(tree: Tree & { kind: 'overlay' }, range: IdRange | undefined, undo: UndoStack): Promise<Head> {
    const { layers, mounts } = this.#dir;
    const top = mounts.top(tree);
    const id = await this.#newLayer(undo, () => layers.createOver(top.path, top.base, range?.base ?? 0));
    return headOver(tree, layerRef(id, range));
  }

  async #newLayer(undo: UndoStack, make: () => Promise<string>): Promise<string> {
    const id = await make();
    undo.add(() => this.#dir.layers.discard(id));
    return id;
  }

  /** Gives the volume its name: the last step, and one rename. */
  async #publish(volume: VolumeRef, manifest: RootManifest, base: number): Promise<void> {
    const { staging, newId, path, index, layers, projects } = this.#dir;
    const { head } = manifest;
    if (head.kind === 'overlay') await projects.begin([layers.files(head.upper.id), layers.work(head.upper.id)]);
    const folder = join(staging, newId());
    await mkdir(join(folder, 'rootfs'), { recursive: true });
    await writeManifest(folder, manifest);
    await chmod(folder, 0o100);
    await chown(folder, base, base);
    await renameOrConflict(folder, volumePath(path, volume), volume.name);
    index.adopt(volume, manifest);
  }

  #assertAbsent(volume: VolumeRef): void {
    if (this.#dir.index.find(volume) !== undefined) throw exists(volume.name);
  }

  #mountPoint(volume: VolumeRef): string {
    return join(volumePath(this.#dir.path, volume), 'rootfs');
  }

  #undo(): UndoStack {
    return new UndoStack((error) => this.#dir.log.warn('cannot undo a storage step', { error: String(error) }));
  }
}

/** The user's choice, else a plain folder where the guest itself will mount overlays. */
export function isPlain(options: RootOptions): boolean {
  if (options.clone === 'auto') return options.nesting;
  return options.clone !== 'overlay';
}

export function layerRef(id: string, range: IdRange | undefined): LayerRef {
  return range === undefined ? { id, base: 0 } : { id, base: range.base, size: range.size };
}

/** @throws not-found. */
export function snapshotOf(manifest: RootManifest, name: string): Tree {
  const tree = Object.hasOwn(manifest.snapshots, name) ? manifest.snapshots[name] : undefined;
  if (tree === undefined) throw errors.notFound('Storage volume snapshot not found');
  return tree;
}

function baseOf(options: RootOptions): number {
  return options.idRange?.base ?? 0;
}

function headFolder(head: Head, files: (id: string) => string): string {
  return files(head.kind === 'plain' ? head.tree : head.upper.id);
}

function exists(name: string): Error {
  return errors.conflict(`Volume "${name}" already exists`);
}
