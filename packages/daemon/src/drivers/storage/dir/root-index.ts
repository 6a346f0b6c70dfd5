import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { errnoOf } from '../../../host/syscalls.ts';
import type { VolumeRef } from '../contract.ts';
import { volumeKey, volumePath } from '../common/volume-names.ts';
import type { Layers } from './layers.ts';
import { headLayer, layersOf, readManifest, type RootManifest, writeManifest } from './manifest.ts';

/** All root manifests of a pool in memory, with the number of manifests that name each layer. */
export class RootIndex {
  readonly #pool: string;
  readonly #layers: Layers;
  readonly #beforeHead: (from: string, to: string) => Promise<void>;
  readonly #manifests = new Map<string, RootManifest>();
  readonly #references = new Map<string, number>();
  /** A manifest that could not be read may name any layer: then nothing is swept. */
  #unreadable: string[] = [];

  /** `beforeHead` is called with the layers that a head writes to, before one replaces the other. */
  constructor(pool: string, layers: Layers, beforeHead: (from: string, to: string) => Promise<void>) {
    this.#pool = pool;
    this.#layers = layers;
    this.#beforeHead = beforeHead;
  }

  /** Reads every manifest again. */
  async load(): Promise<void> {
    this.#manifests.clear();
    this.#references.clear();
    this.#unreadable = [];
    for (const [type, folder] of [
      ['container', 'containers'],
      ['virtual-machine', 'virtual-machines'],
    ] as const) {
      for (const name of await readdir(join(this.#pool, folder))) {
        try {
          this.#set(`${type}/${name}`, await readManifest(join(this.#pool, folder, name)));
        } catch (error) {
          this.#unreadable.push(`${type}/${name}: ${String(error)}`);
        }
      }
    }
  }

  get unreadable(): readonly string[] {
    return this.#unreadable;
  }

  find(volume: VolumeRef): RootManifest | undefined {
    return this.#manifests.get(volumeKey(volume));
  }

  /** @throws not-found. */
  get(volume: VolumeRef): RootManifest {
    const found = this.find(volume);
    if (found === undefined) throw errors.notFound('Storage volume not found');
    return found;
  }

  all(): Iterable<RootManifest> {
    return this.#manifests.values();
  }

  /** A manifest that is on disk already. */
  adopt(volume: VolumeRef, manifest: RootManifest): void {
    this.#set(volumeKey(volume), manifest);
  }

  /** Looks again which manifests cannot be read. */
  async rescan(): Promise<void> {
    const before = new Map(this.#manifests);
    await this.load();
    for (const [key, manifest] of before) if (!this.#manifests.has(key)) this.#set(key, manifest);
  }

  /** Makes `manifest` the volume's, durably, then frees the layers it dropped. */
  async commit(volume: VolumeRef, manifest: RootManifest): Promise<void> {
    const before = this.find(volume);
    const [from, to] = [before && headLayer(before), headLayer(manifest)];
    if (from !== undefined && from !== to) await this.#beforeHead(from, to);
    await writeManifest(volumePath(this.#pool, volume), manifest);
    this.#set(volumeKey(volume), manifest);
    if (before !== undefined) await this.#release(layersOf(before));
  }

  /** The volume is gone from the disk: frees its layers. */
  async drop(volume: VolumeRef): Promise<void> {
    const key = volumeKey(volume);
    const before = this.#manifests.get(key);
    if (before === undefined) return;
    this.#count(before, -1);
    this.#manifests.delete(key);
    await this.#release(layersOf(before));
  }

  /** The folder was renamed. */
  move(from: VolumeRef, to: VolumeRef): void {
    const manifest = this.#manifests.get(volumeKey(from));
    if (manifest === undefined) return;
    this.#manifests.delete(volumeKey(from));
    this.#manifests.set(volumeKey(to), manifest);
  }

  /** Frees every layer that no manifest names. Only while nothing else works on the pool. */
  async sweep(): Promise<void> {
    if (this.#unreadable.length > 0) return;
    await this.#release(await this.#layers.ids());
  }

  async #release(ids: Iterable<string>): Promise<void> {
    for (const id of ids) {
      if (this.#references.has(id)) continue;
      try {
        await this.#layers.discard(id);
      } catch (error) {
        if (errnoOf(error) !== 'ENOENT') throw error;
      }
    }
  }

  #set(key: string, manifest: RootManifest): void {
    const before = this.#manifests.get(key);
    this.#count(manifest, 1);
    if (before !== undefined) this.#count(before, -1);
    this.#manifests.set(key, manifest);
  }

  #count(manifest: RootManifest, change: 1 | -1): void {
    for (const id of layersOf(manifest)) {
      const count = (this.#references.get(id) ?? 0) + change;
      if (count === 0) this.#references.delete(id);
      else this.#references.set(id, count);
    }
  }
}
