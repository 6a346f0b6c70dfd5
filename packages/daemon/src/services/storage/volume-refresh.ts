import type { StoragePool, VolumeRef } from '../../drivers/storage/contract.ts';
import type { StorageVolumeRecord, StorageVolumeSnapshotRecord } from '../../state/records/storage.ts';
import type { VolumeContext } from './volume-context.ts';
import { snapshotId, volumeId } from './volume-names.ts';

/** A refresh that may be cut off: what it was before comes back. */
interface RefreshIntent {
  readonly record: StorageVolumeRecord;
  /** Snapshot of the volume as it was; undefined where one would cost a copy. */
  readonly before: string | undefined;
  /** Snapshots that it makes, oldest first. */
  readonly added: readonly string[];
}

/** A refresh that is done: snapshots that nobody needs any more. */
interface RefreshedIntent {
  readonly record: StorageVolumeRecord;
  readonly dropped: readonly string[];
}

const CHANGING = 'storage-volume-refresh';
const CHANGED = 'storage-volume-refreshed';
/** Name of a snapshot that a refresh makes for itself; a user's cannot start so. */
const PREFIX = '.refresh-';

/** What a refresh makes of the volume's snapshots. */
export interface RefreshChange {
  /** Oldest first. */
  readonly added: readonly StorageVolumeSnapshotRecord[];
  readonly gone: readonly StorageVolumeSnapshotRecord[];
}

/**
 * Brings existing custom volumes up to date. When that fails, or the daemon dies, the volume has the content and the
 * snapshots it had before. Where snapshots cost a copy (`StoragePool.snapshotsCopy`) its content may be of both: the
 * next refresh mends it.
 */
export class VolumeRefresh {
  readonly #context: VolumeContext;

  constructor(context: VolumeContext) {
    this.#context = context;
    const { intents } = context.deps;
    intents.handle<RefreshIntent>(CHANGING, async (intent) => {
      await this.#undo(intent.data);
      await intents.end(intent);
    });
    intents.handle<RefreshedIntent>(CHANGED, async (intent) => {
      await this.#drop(intent.data);
      await intents.end(intent);
    });
  }

  /** `work` changes the content of the volume, which nothing uses, and makes the snapshots that are added. */
  async run(
    record: StorageVolumeRecord,
    { added, gone }: RefreshChange,
    work: (pool: StoragePool, ref: VolumeRef) => Promise<void>,
  ): Promise<void> {
    this.#context.assertNotServers(record, 'Volume is used by the server itself and cannot be refreshed');
    const { intents, snapshots, ids } = this.#context.deps;
    const { pool, ref } = await this.#context.open(record);
    const before = pool.snapshotsCopy === true ? undefined : `${PREFIX}${ids.secret(6)}`;
    const data: RefreshIntent = { record, before, added: added.map(({ name }) => name) };
    const changing = await intents.begin(CHANGING, data);
    try {
      if (before !== undefined) await pool.snapshots.create(ref, before, { running: false });
      await work(pool, ref);
      const dropped = [...gone.map(({ name }) => name), ...(before === undefined ? [] : [before])];
      const done: RefreshedIntent = { record, dropped };
      // Begun before the other one ends: until then there are records of what is gone, and nothing is dropped.
      const changed = await intents.begin(CHANGED, done);
      await intents.end(changing, [
        ...added.map((one) => snapshots.put(snapshotId(one), one)),
        ...gone.map((one) => snapshots.remove(snapshotId(one))),
      ]);
      await this.#quietly('What a refresh no longer needs is left over', record, async () => {
        await this.#drop(done);
        await intents.end(changed);
      });
    } catch (error) {
      await this.#quietly('A refresh was not undone', record, async () => {
        await this.#undo(data);
        await intents.end(changing);
      });
      throw error;
    }
  }

  /** Newer snapshots go first: some pools go back to the newest one only. */
  async #undo({ record, before, added }: RefreshIntent): Promise<void> {
    if (this.#context.deps.volumes.get(volumeId(record)) === undefined) return;
    const { pool, ref } = await this.#context.open(record);
    const there = new Set(await pool.snapshots.list(ref));
    for (const name of added.toReversed()) if (there.has(name)) await pool.snapshots.delete(ref, name);
    if (before === undefined || !there.has(before)) return;
    await pool.snapshots.restore(ref, before, { config: record.config });
    await pool.snapshots.delete(ref, before);
  }

  async #drop({ record, dropped }: RefreshedIntent): Promise<void> {
    const { volumes, snapshots } = this.#context.deps;
    if (volumes.get(volumeId(record)) === undefined) return;
    const { pool, ref } = await this.#context.open(record);
    const there = new Set(await pool.snapshots.list(ref));
    for (const name of dropped) {
      const known = snapshots.get(snapshotId({ ...record, volume: record.name, name }));
      if (known === undefined && there.has(name)) await pool.snapshots.delete(ref, name);
    }
  }

  /** What fails here is done at the next start. */
  async #quietly(message: string, { name }: StorageVolumeRecord, work: () => Promise<void>): Promise<void> {
    await work().catch((error: unknown) => this.#context.deps.log.error(message, { volume: name, error }));
  }
}
