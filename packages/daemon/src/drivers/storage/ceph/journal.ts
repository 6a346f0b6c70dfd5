import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../../core/errors.ts';
import { writeFileAtomic } from '../../../host/files.ts';
import { volumeKey, volumePath } from '../common/volume-names.ts';
import type { VolumeRef } from '../contract.ts';
import type { CephContext } from './context.ts';
import type { CephMaker } from './maker.ts';
import type { CephMounter } from './mounter.ts';
import { isNote, snapshotName } from './names.ts';

/** The volume becomes what its snapshot holds. */
export interface Restore {
  readonly volume: VolumeRef;
  readonly snapshot: string;
  /** Bytes of the volume before. */
  readonly size: number;
}

/** The volume gets the later states of a clone of its snapshot `base`: snapshots, and what it holds itself. */
export interface Refresh {
  readonly volume: VolumeRef;
  /** Name of the clone, which goes then. */
  readonly staged: string;
  /** RBD snapshots. */
  readonly base: string;
  readonly parts: readonly string[];
  /** Bytes of the volume before. */
  readonly size: number;
}

const RESTORE = 'restore-';
const REFRESH = 'refresh-';

interface Torn {
  readonly file: string;
  readonly finish: () => Promise<void>;
  /** Name of the clone that goes with it. */
  readonly staged?: string;
}

/** Changes that Ceph makes block by block: each is finished, also after a crash, before its volume is used again. */
export class CephJournal {
  readonly #pool: CephContext;
  readonly #mounter: CephMounter;
  readonly #maker: CephMaker;
  readonly #torn = new Map<string, Torn>();

  constructor(pool: CephContext, mounter: CephMounter, maker: CephMaker) {
    this.#pool = pool;
    this.#mounter = mounter;
    this.#maker = maker;
  }

  async restore(entry: Restore): Promise<void> {
    const file = await this.#write(RESTORE, entry);
    this.#torn.set(volumeKey(entry.volume), { file, finish: () => this.#restore(entry) });
    await this.mend(entry.volume);
  }

  async refresh(entry: Refresh): Promise<void> {
    const file = await this.#write(REFRESH, entry);
    this.#torn.set(volumeKey(entry.volume), { file, finish: () => this.#refresh(entry), staged: entry.staged });
    await this.mend(entry.volume);
  }

  /** Finishes what was cut off. */
  async mend(volume: VolumeRef): Promise<void> {
    const torn = this.#torn.get(volumeKey(volume));
    if (torn === undefined) return;
    await torn.finish();
    await this.#forget(volume, torn);
  }

  /** The volume is no more. */
  async forget(volume: VolumeRef): Promise<void> {
    const torn = this.#torn.get(volumeKey(volume));
    if (torn === undefined) return;
    if (torn.staged !== undefined) await this.#pool.lives.discard(torn.staged);
    await this.#forget(volume, torn);
  }

  /** Takes up the entry of a daemon that was killed; undefined for other files. */
  async load(name: string): Promise<VolumeRef | undefined> {
    const file = join(this.#pool.staging, name);
    const [restore, refresh] = [isNote(name, RESTORE), isNote(name, REFRESH)];
    if (!restore && !refresh) return undefined;
    const entry = JSON.parse(await readFile(file, 'utf8'));
    const { volume }: { volume: VolumeRef } = entry;
    if (restore) this.#torn.set(volumeKey(volume), { file, finish: () => this.#restore(entry) });
    else this.#torn.set(volumeKey(volume), { file, finish: () => this.#refresh(entry), staged: entry.staged });
    return volume;
  }

  /** It takes the size along, which stays what it was when it was larger. */
  async #restore({ volume, snapshot, size }: Restore): Promise<void> {
    const { images } = this.#pool;
    const image = this.#mounter.image(volume);
    if (!(await images.snapshots(image)).some(({ name }) => name === snapshotName(snapshot))) return;
    await images.rollback(image, snapshotName(snapshot));
    await this.#regrow(volume, size);
  }

  /** Goes on after the last state that arrived whole. */
  async #refresh({ volume, staged, base, parts, size }: Refresh): Promise<void> {
    const { images } = this.#pool;
    const image = this.#mounter.image(volume);
    const there = new Set((await images.snapshots(image)).map(({ name }) => name));
    if ((await images.find(staged)) === undefined || !there.has(base)) return;
    const states = [base, ...parts];
    const done = states.findLastIndex((name) => there.has(name));
    let from = states[done] ?? base;
    await images.rollback(image, from);
    for (const snapshot of [...states.slice(done + 1), undefined]) {
      await images.apply({ image: staged, snapshot }, from, image);
      from = snapshot ?? from;
    }
    await this.#regrow(volume, size);
    await this.#mounter.unmap(staged);
    await this.#pool.lives.remove(staged);
  }

  async #regrow(volume: VolumeRef, size: number): Promise<void> {
    const image = this.#mounter.image(volume);
    const after = await this.#pool.images.find(image);
    if (after === undefined || after.size >= size) return;
    await this.#maker.resize(image, volume, volumePath(this.#pool.path, volume), size);
  }

  async #forget(volume: VolumeRef, { file }: Torn): Promise<void> {
    await rm(file, { force: true });
    this.#torn.delete(volumeKey(volume));
  }

  async #write(prefix: string, entry: Restore | Refresh): Promise<string> {
    if (this.#torn.has(volumeKey(entry.volume)))
      throw errors.internal(`The volume "${entry.volume.name}" has a change that is not finished`);
    const file = join(this.#pool.staging, `${prefix}${this.#pool.newId()}`);
    await writeFileAtomic(file, JSON.stringify(entry));
    return file;
  }
}
