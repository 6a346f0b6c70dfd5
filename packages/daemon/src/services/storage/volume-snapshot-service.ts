import { expiresAt, names } from '@keelson/api';
import type { StorageVolumeSnapshot, StorageVolumeSnapshotPut, StorageVolumeSnapshotsPost } from '@keelson/api';
import { timestamp, zeroTime } from '../../core/clock.ts';
import { errors } from '../../core/errors.ts';
import type { RecordList } from '../../core/record-list.ts';
import type { StorageVolumeRecord, StorageVolumeSnapshotRecord } from '../../state/records/storage.ts';
import type { OperationSpec, StartedOperation } from '../operations/contract.ts';
import { nextSnapshotName } from '../instances/plan/snapshot-names.ts';
import type { ChangeOptions, StorageVolumeSnapshots, VolumeAddress } from './contract.ts';
import type { SnapshotIntent, VolumeContext } from './volume-context.ts';
import {
  checkName,
  snapshotId,
  snapshotPrefix,
  snapshotUrl,
  type VolumeId,
  volumeId,
  volumeUrl,
} from './volume-names.ts';

interface RenameIntent {
  readonly from: StorageVolumeSnapshotRecord;
  readonly to: StorageVolumeSnapshotRecord;
}

/** Snapshots of custom volumes; those of instances are shown here too, and changed with their instances. */
export class VolumeSnapshotService implements StorageVolumeSnapshots {
  readonly #context: VolumeContext;

  constructor(context: VolumeContext) {
    this.#context = context;
    context.deps.intents.handle<SnapshotIntent>('storage-volume-snapshot-create', async ({ data }) =>
      this.#undoCreate(data.record),
    );
    context.deps.intents.handle<SnapshotIntent>('storage-volume-snapshot-delete', async ({ data }) =>
      this.#finishDelete(data.record),
    );
    context.deps.intents.handle<RenameIntent>('storage-volume-snapshot-rename', async ({ data }) =>
      this.#undoRename(data),
    );
  }

  list(address: VolumeAddress): RecordList {
    const volume = this.#context.find(address);
    const shown = () =>
      this.#context.snapshotsOf(volume).map((record) => ({
        ...render(record),
        name: `${record.volume}/${record.name}`,
        // Never is null in lists alone; clients print what is not.
        expires_at: record.expiresAt === zeroTime ? null : record.expiresAt,
      }));
    return {
      version: `${volumeId(volume)}:${this.#context.deps.snapshots.revision}`,
      urls: () => this.#context.snapshotsOf(volume).map((record) => snapshotUrl(record)),
      json: () => shown().map((value) => JSON.stringify(value)),
      values: shown,
    };
  }

  get(address: VolumeAddress, name: string): { snapshot: StorageVolumeSnapshot; etag: readonly unknown[] } {
    const record = this.#context.findSnapshot(this.#context.find(address), name);
    return { snapshot: render(record), etag: etagSource(record) };
  }

  create(address: VolumeAddress, body: StorageVolumeSnapshotsPost, options: ChangeOptions = {}): StartedOperation {
    const volume = this.#context.findCustom(address, 'Snapshots');
    this.#context.deps.guard.checkSnapshot(volume.project);
    this.#context.assertNotServers(volume, 'Volumes used by the server itself cannot have snapshots');
    const given = body.name ?? '';
    if (given !== '') checkName(names.snapshotName, given);
    if (given !== '' && this.#exists(volume, given)) throw errors.conflict(`Snapshot "${given}" already in use`);
    const resources = { storage_volumes: [volumeUrl(volume)] };
    return this.#start(volume, 'Creating storage volume snapshot', resources, async () => {
      await this.take(
        volume,
        { name: given, ...(body.expires_at === undefined ? {} : { expiresAt: body.expires_at }) },
        options,
      );
    });
  }

  /** Takes a snapshot of the present state; the caller holds the volume's lock. An empty name follows the pattern. */
  async take(
    volume: StorageVolumeRecord,
    wanted: { readonly name: string; readonly expiresAt?: string },
    options: ChangeOptions = {},
  ): Promise<void> {
    const { clock } = this.#context.deps;
    const current = this.#context.require(volume);
    this.#context.assertNotServers(current, 'Volumes used by the server itself cannot have snapshots');
    const existing = this.#context.snapshotsOf(volume).map(({ name }) => name);
    const now = new Date(clock.now());
    const name =
      wanted.name === '' ? nextSnapshotName(current.config['snapshots.pattern'], existing, now) : wanted.name;
    checkName(names.snapshotName, name);
    const expiry = expiresAt(current.config['snapshots.expiry'] ?? '', now)?.toISOString();
    const { name: _, ...rest } = current;
    const record: StorageVolumeSnapshotRecord = {
      ...rest,
      volume: volume.name,
      name,
      createdAt: timestamp(clock),
      expiresAt: wanted.expiresAt ?? expiry ?? zeroTime,
    };
    const { pool, ref } = await this.#context.open(current);
    await this.#context.keepSnapshot(current, record, () =>
      pool.snapshots.create(ref, name, { running: this.#context.isRunning(volume) }),
    );
    this.#context.announce('storage-volume-snapshot-created', volume.project, snapshotUrl(record), {
      ...options,
      context: { type: volume.type },
    });
  }

  async put(
    address: VolumeAddress,
    name: string,
    body: StorageVolumeSnapshotPut,
    options: ChangeOptions = {},
  ): Promise<void> {
    const { description = '', expires_at: expires = zeroTime } = body;
    await this.#change(address, name, options, (current) => ({ ...current, description, expiresAt: expires }));
  }

  async patch(
    address: VolumeAddress,
    name: string,
    body: StorageVolumeSnapshotPut,
    options: ChangeOptions = {},
  ): Promise<void> {
    await this.#change(address, name, options, (current) => ({
      ...current,
      description: body.description ?? current.description,
      expiresAt: body.expires_at ?? current.expiresAt,
    }));
  }

  rename(address: VolumeAddress, name: string, newName: string, options: ChangeOptions = {}): StartedOperation {
    const volume = this.#context.findCustom(address, 'Snapshots');
    checkName(names.snapshotName, newName);
    if (newName === '') throw errors.badRequest('No name provided');
    return this.#start(volume, 'Renaming storage volume snapshot', resourcesOf(volume, name), async () => {
      const record = this.#context.findSnapshot(volume, name);
      if (this.#exists(volume, newName)) throw errors.conflict(`Snapshot "${newName}" already in use`);
      const { intents, snapshots } = this.#context.deps;
      const renamed = { ...record, name: newName };
      const intent = await intents.begin<RenameIntent>('storage-volume-snapshot-rename', { from: record, to: renamed });
      try {
        const { pool, ref } = await this.#context.open(volume);
        await pool.snapshots.rename(ref, name, newName);
        await intents.end(intent, [snapshots.remove(snapshotId(record)), snapshots.put(snapshotId(renamed), renamed)]);
      } catch (error) {
        await this.#undoRename(intent.data);
        await intents.end(intent);
        throw error;
      }
      this.#context.announce('storage-volume-snapshot-renamed', volume.project, snapshotUrl(renamed), {
        ...options,
        context: { old_name: name },
      });
    });
  }

  delete(address: VolumeAddress, name: string, options: ChangeOptions = {}): StartedOperation {
    const volume = this.#context.findCustom(address, 'Snapshots');
    this.#context.findSnapshot(volume, name);
    return this.#start(volume, 'Deleting storage volume snapshot', resourcesOf(volume, name), () =>
      this.remove(volume, name, options),
    );
  }

  /** The caller holds the volume's lock. */
  async remove(volume: StorageVolumeRecord, name: string, options: ChangeOptions = {}): Promise<void> {
    const record = this.#context.findSnapshot(volume, name);
    await this.#context.dropSnapshot(volume, record);
    this.#context.announce('storage-volume-snapshot-deleted', volume.project, snapshotUrl(record), options);
  }

  async #change(
    address: VolumeAddress,
    name: string,
    options: ChangeOptions,
    change: (current: StorageVolumeSnapshotRecord) => StorageVolumeSnapshotRecord,
  ): Promise<void> {
    const volume = this.#context.find(address);
    await this.#context.exclusive(volume, async () => {
      const record = this.#context.findSnapshot(volume, name);
      options.precondition?.(etagSource(record));
      await this.#context.deps.snapshots.update(snapshotId(record), change);
      this.#context.announce('storage-volume-snapshot-updated', volume.project, snapshotUrl(record), options);
    });
  }

  #start(
    volume: StorageVolumeRecord,
    description: string,
    resources: OperationSpec['resources'],
    run: OperationSpec['run'],
  ): StartedOperation {
    return this.#context.deps.operations.start({
      class: 'task',
      project: volume.project,
      description,
      resources,
      locks: [this.#context.lock(volume)],
      run,
    });
  }

  #exists(volume: VolumeId, name: string): boolean {
    return this.#context.deps.snapshots.get(`${snapshotPrefix(volume)}${name}`) !== undefined;
  }

  async #finishDelete(record: StorageVolumeSnapshotRecord): Promise<void> {
    const { snapshots, volumes } = this.#context.deps;
    const volume = volumes.get(volumeId({ ...record, name: record.volume }))?.value;
    if (volume === undefined) return;
    const { pool, ref } = await this.#context.open(volume);
    await pool.snapshots.delete(ref, record.name);
    await snapshots.delete(snapshotId(record));
  }

  /** The content goes back to the name its record has. */
  async #undoRename({ from, to }: RenameIntent): Promise<void> {
    const { snapshots, volumes } = this.#context.deps;
    const volume = volumes.get(volumeId({ ...from, name: from.volume }))?.value;
    if (volume === undefined || snapshots.get(snapshotId(to)) !== undefined) return;
    const { pool, ref } = await this.#context.open(volume);
    const names = await pool.snapshots.list(ref);
    if (names.includes(to.name) && !names.includes(from.name)) await pool.snapshots.rename(ref, to.name, from.name);
  }

  async #undoCreate(record: StorageVolumeSnapshotRecord): Promise<void> {
    if (this.#context.deps.snapshots.get(snapshotId(record)) !== undefined) return;
    const { pool, ref } = await this.#context.open({ ...record, name: record.volume });
    await pool.snapshots.delete(ref, record.name);
  }
}

function render(record: StorageVolumeSnapshotRecord): StorageVolumeSnapshot {
  return {
    description: record.description,
    expires_at: record.expiresAt,
    name: record.name,
    config: { ...record.config },
    content_type: record.contentType,
    created_at: record.createdAt,
  };
}

/** The snapshot an operation is about; it need not exist. */
function resourcesOf(volume: VolumeId, name: string): OperationSpec['resources'] {
  return { storage_volume_snapshots: [snapshotUrl({ ...volume, volume: volume.name, name })] };
}

function etagSource({ description, expiresAt: expires }: StorageVolumeSnapshotRecord): readonly unknown[] {
  return [description, expires];
}
