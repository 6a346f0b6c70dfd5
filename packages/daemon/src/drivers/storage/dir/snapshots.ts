import { mkdir, rmdir } from 'node:fs/promises';
import { errors } from '../../../core/errors.ts';
import { UndoStack } from '../../../core/undo-stack.ts';
import { isMountPoint, unmountAll } from '../../../host/mounts.ts';
import { errnoOf } from '../../../host/syscalls.ts';
import type { RootMount, RootOptions, Snapshots, VolumeRef } from '../contract.ts';
import { snapshotPath, snapshotsPath, volumeKey, volumePath } from '../common/volume-names.ts';
import { machineIn } from '../common/plain-content.ts';
import type { DirContext } from './context.ts';
import { freeze } from './freeze.ts';
import { type Head, headLayer, headOver, type Tree } from './manifest.ts';
import { snapshotOf } from './roots.ts';

/** Snapshots of instance roots: names for trees in the root's manifest. */
export class DirRootSnapshots implements Snapshots {
  readonly #dir: DirContext;

  constructor(dir: DirContext) {
    this.#dir = dir;
  }

  async create(volume: VolumeRef, snapshot: string, options: { readonly running: boolean }): Promise<void> {
    await this.#exclusive(volume, async () => {
      const { index } = this.#dir;
      this.#assertFree(volume, snapshot);
      await using undo = this.#undo();
      const tree = await freeze(this.#dir, volume, { running: options.running, undo });
      const manifest = index.get(volume);
      await index.commit(volume, { ...manifest, snapshots: { ...manifest.snapshots, [snapshot]: tree } });
      undo.commit();
    });
  }

  async list(volume: VolumeRef): Promise<readonly string[]> {
    return Object.keys(this.#dir.index.get(volume).snapshots);
  }

  async rename(volume: VolumeRef, snapshot: string, newName: string): Promise<void> {
    await this.#exclusive(volume, async () => {
      const manifest = this.#dir.index.get(volume);
      if (!Object.hasOwn(manifest.snapshots, snapshot) && Object.hasOwn(manifest.snapshots, newName)) return;
      snapshotOf(manifest, snapshot);
      this.#assertFree(volume, newName);
      await this.#unmount(volume, snapshot);
      const renamed = Object.entries(manifest.snapshots).map(([name, tree]) => [
        name === snapshot ? newName : name,
        tree,
      ]);
      await this.#dir.index.commit(volume, {
        ...manifest,
        snapshots: Object.fromEntries(renamed) as Record<string, Tree>,
      });
    });
  }

  async delete(volume: VolumeRef, snapshot: string): Promise<void> {
    await this.#exclusive(volume, async () => {
      const manifest = this.#dir.index.find(volume);
      if (manifest === undefined || !Object.hasOwn(manifest.snapshots, snapshot)) return;
      await this.#unmount(volume, snapshot);
      const { [snapshot]: _gone, ...snapshots } = manifest.snapshots;
      await this.#dir.index.commit(volume, { ...manifest, snapshots });
    });
  }

  async restore(volume: VolumeRef, snapshot: string): Promise<void> {
    await this.#exclusive(volume, async () => {
      const { index, layers, mounts, path } = this.#dir;
      const manifest = index.get(volume);
      const tree = snapshotOf(manifest, snapshot);
      if (volume.type === 'container') await unmountAll(`${volumePath(path, volume)}/rootfs`);
      await using undo = this.#undo();
      let head: Head;
      if (tree.kind === 'plain') {
        head = { kind: 'plain', tree: await layers.copy(layers.files(tree.tree), {}) };
        undo.add(() => layers.discard(headLayer({ head })));
      } else {
        const top = mounts.top(tree);
        const range = manifest.head.kind === 'overlay' ? manifest.head.upper : { base: 0 };
        head = headOver(tree, { ...range, id: await layers.createOver(top.path, top.base, range.base) });
        undo.add(() => layers.discard(headLayer({ head })));
      }
      await index.commit(volume, { ...manifest, head });
      undo.commit();
    });
  }

  async mount(volume: VolumeRef, snapshot: string, options: RootOptions): Promise<RootMount> {
    return this.#exclusive(volume, async () => {
      const { index, layers, mounts, path } = this.#dir;
      const tree = snapshotOf(index.get(volume), snapshot);
      if (volume.type === 'virtual-machine' && tree.kind === 'plain') {
        return machineIn(layers.files(tree.tree));
      }
      const target = snapshotPath(path, volume, snapshot);
      await unmountAll(target);
      await mkdir(target, { recursive: true, mode: 0o700 });
      await mounts.mountTree(tree, options.idRange, target);
      return { path: target, ids: tree.kind === 'plain' ? ('plain' as const) : ('shifted' as const) };
    });
  }

  async unmount(volume: VolumeRef, snapshot: string): Promise<void> {
    await this.#exclusive(volume, () => this.#unmount(volume, snapshot));
  }

  async #unmount(volume: VolumeRef, snapshot: string): Promise<void> {
    const target = snapshotPath(this.#dir.path, volume, snapshot);
    if (isMountPoint(target)) await unmountAll(target);
    for (const folder of [target, snapshotsPath(this.#dir.path, volume)]) {
      await rmdir(folder).catch((error: unknown) => {
        if (errnoOf(error) !== 'ENOENT' && errnoOf(error) !== 'ENOTEMPTY') throw error;
      });
    }
  }

  #assertFree(volume: VolumeRef, snapshot: string): void {
    snapshotPath(this.#dir.path, volume, snapshot);
    if (Object.hasOwn(this.#dir.index.get(volume).snapshots, snapshot)) {
      throw errors.conflict(`Snapshot "${snapshot}" already exists`);
    }
  }

  #exclusive<T>(volume: VolumeRef, work: () => Promise<T>): Promise<T> {
    return this.#dir.queue.run({ exclusive: [volumeKey(volume)] }, work);
  }

  #undo(): UndoStack {
    return new UndoStack((error) => this.#dir.log.warn('cannot undo a storage step', { error: String(error) }));
  }
}
