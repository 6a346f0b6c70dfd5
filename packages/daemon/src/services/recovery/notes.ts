import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../core/log.ts';
import type { VolumeRef } from '../../drivers/storage/contract.ts';
import type { Collection } from '../../state/collection.ts';
import type { InstanceMetadataRecord } from '../../state/records/instance-metadata.ts';
import type { InstanceRecord, InstanceSnapshotRecord } from '../../state/records/instance.ts';
import type { ProfileRecord } from '../../state/records/profile.ts';
import type {
  StoragePoolRecord,
  StorageVolumeRecord,
  StorageVolumeSnapshotRecord,
} from '../../state/records/storage.ts';
import type { LivePools } from '../storage/live-pools.ts';
import { refOf, snapshotPrefix, volumeId } from '../storage/volume-names.ts';
import { POOL_NOTE, VOLUME_NOTE, writePoolNote, writeVolumeNote } from './volume-note.ts';

export interface RecoveryNotesOptions {
  readonly instances: Collection<InstanceRecord>;
  readonly instanceSnapshots: Collection<InstanceSnapshotRecord>;
  readonly instanceMetadata: Collection<InstanceMetadataRecord>;
  readonly profiles: Collection<ProfileRecord>;
  readonly pools: Collection<StoragePoolRecord>;
  readonly volumes: Collection<StorageVolumeRecord>;
  readonly snapshots: Collection<StorageVolumeSnapshotRecord>;
  readonly live: Pick<LivePools, 'use' | 'has'>;
  /** Files that tell all about an instance, by name. */
  readonly filesOf: (record: InstanceRecord) => ReadonlyMap<string, string>;
  readonly log: Log;
  /** Milliseconds that changes are gathered before they are written. */
  readonly delay?: number;
}

const DELAY = 500;
/** Milliseconds that the end waits for a pool that does not answer; what is left is written after the next start. */
const LAST = 5000;
/** How often it does so while one note after the other is written. */
const TIMES = 6;

/**
 * Keeps beside every volume what `keelson admin recover` needs to bring it back without the records: `backup.yaml` at an
 * instance's root, as LXD does, and notes of custom volumes and the pool in the pool's own folder. Written behind the
 * changes, one at a time; what a crash leaves unwritten is written after the next start.
 */
export class RecoveryNotes implements AsyncDisposable {
  readonly #options: RecoveryNotesOptions;
  readonly #dirty = new Set<string>();
  readonly #gone = new Map<string, { readonly pool: string; readonly ref: VolumeRef }>();
  readonly #stops: (() => void)[] = [];
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  #written = 0;

  constructor(options: RecoveryNotesOptions) {
    this.#options = options;
  }

  /** Writes what differs from the records, then follows them. */
  start(): void {
    const { instances, instanceSnapshots, instanceMetadata, profiles, pools, volumes, snapshots } = this.#options;
    this.#stops.push(
      instances.subscribe(({ id, after }) => after !== undefined && this.#mark(`instance ${id}`)),
      instanceSnapshots.subscribe(({ id }) => this.#mark(`instance ${parentOf(id)}`)),
      instanceMetadata.subscribe(({ id }) => this.#mark(`instance ${id.split('/').slice(0, 2).join('/')}`)),
      profiles.subscribe(({ after }) => after !== undefined && this.#markUsers(after.name)),
      pools.subscribe(({ id, after }) => after !== undefined && this.#mark(`pool ${id}`)),
      volumes.subscribe(({ id, before, after }) => this.#volumeChanged(id, before, after)),
      snapshots.subscribe(({ id }) => this.#mark(`volume ${parentOf(id)}`)),
    );
    for (const { value } of pools.list()) this.#dirty.add(`pool ${value.name}`);
    for (const { value } of volumes.list()) if (value.type === 'custom') this.#dirty.add(`volume ${volumeId(value)}`);
    for (const { value } of instances.list()) this.#dirty.add(`instance ${value.project}/${value.name}`);
    this.#run();
  }

  /** Resolves when everything known so far is written. */
  async settled(): Promise<void> {
    await this.#running;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const stop of this.#stops) stop();
    this.#stop.abort();
    const done = (async () => {
      await this.#running;
      await this.#flush();
    })();
    for (let time = 0, seen = -1; time < TIMES && seen !== this.#written; time++) {
      seen = this.#written;
      const over = sleep(LAST, false, { ref: false });
      if (await Promise.race([done.then(() => true), over])) return;
    }
  }

  #volumeChanged(id: string, before: StorageVolumeRecord | undefined, after: StorageVolumeRecord | undefined): void {
    const type = (after ?? before)?.type;
    if (type === 'image') return;
    if (after !== undefined) this.#gone.delete(id);
    else if (before !== undefined) this.#gone.set(id, { pool: before.pool, ref: refOf(before) });
    if (type === 'custom' || after === undefined) this.#mark(`volume ${id}`);
  }

  #markUsers(profile: string): void {
    for (const { value } of this.#options.instances.list())
      if (value.profiles.includes(profile)) this.#mark(`instance ${value.project}/${value.name}`);
  }

  #mark(what: string): void {
    this.#dirty.add(what);
    this.#run();
  }

  #run(): void {
    if (this.#stop.signal.aborted) return;
    this.#running ??= this.#loop().finally(() => {
      this.#running = undefined;
      if (this.#dirty.size > 0) this.#run();
    });
  }

  async #loop(): Promise<void> {
    await sleep(this.#options.delay ?? DELAY, undefined, { signal: this.#stop.signal }).catch(() => undefined);
    if (this.#stop.signal.aborted) return;
    await this.#flush();
    this.#options.log.debug('What recovery needs is written');
  }

  async #flush(): Promise<void> {
    for (const what of this.#dirty) {
      this.#dirty.delete(what);
      try {
        await this.#write(what);
      } catch (error) {
        this.#options.log.warn('What recovery needs was not written', { what, error });
      }
      this.#written++;
    }
  }

  async #write(what: string): Promise<void> {
    const { instances, pools, volumes, live, filesOf } = this.#options;
    const [kind, id = ''] = what.split(/ (.*)/s);
    if (kind === 'pool') {
      const pool = pools.get(id)?.value;
      if (pool === undefined) return;
      await (await live.use(pool.name)).recovery?.describe(undefined, new Map([[POOL_NOTE, writePoolNote(pool)]]));
    } else if (kind === 'volume') {
      const volume = volumes.get(id)?.value;
      if (volume === undefined) return this.#forget(id);
      if (volume.type === 'custom') await this.#describe(volume.pool, refOf(volume), this.#volumeFiles(volume));
    } else {
      const record = instances.get(id)?.value;
      if (record === undefined) return;
      const root = volumes.get(volumeId({ ...record, type: record.type }))?.value;
      if (root !== undefined) await this.#describe(record.pool, refOf(root), filesOf(record));
    }
  }

  #volumeFiles(volume: StorageVolumeRecord): ReadonlyMap<string, string> {
    const snapshots = this.#options.snapshots.list(snapshotPrefix(volume)).map(({ value }) => value);
    return new Map([[VOLUME_NOTE, writeVolumeNote(volume, snapshots)]]);
  }

  async #describe(pool: string, ref: VolumeRef, files: ReadonlyMap<string, string>): Promise<void> {
    await (await this.#options.live.use(pool)).recovery?.describe(ref, files);
  }

  async #forget(id: string): Promise<void> {
    const gone = this.#gone.get(id);
    this.#gone.delete(id);
    if (gone === undefined || !this.#options.live.has(gone.pool)) return;
    await (await this.#options.live.use(gone.pool)).recovery?.forget(gone.ref);
  }
}

function parentOf(id: string): string {
  return id.slice(0, id.lastIndexOf('/'));
}
