import { names } from '@keelson/api';
import type { StoragePoolVolumeBackup, StoragePoolVolumeBackupsPost } from '@keelson/api';
import type { Readable } from 'node:stream';
import { timestamp, zeroTime } from '../../core/clock.ts';
import { errors } from '../../core/errors.ts';
import type { RecordList } from '../../core/record-list.ts';
import type { RootOptions } from '../../drivers/storage/contract.ts';
import type {
  StorageVolumeBackupRecord,
  StorageVolumeRecord,
  StorageVolumeSnapshotRecord,
} from '../../state/records/storage.ts';
import { nextSnapshotName } from '../instances/plan/snapshot-names.ts';
import type { Intent } from '../intents/contract.ts';
import type { OperationContext, OperationSpec, StartedOperation } from '../operations/contract.ts';
import type { VolumeArchivePart, VolumeBackupFiles } from './backup-files.ts';
import type { ChangeOptions, StorageVolumeBackups, VolumeAddress } from './contract.ts';
import type { VolumeContext } from './volume-context.ts';
import { hasNativeBackups, NATIVE_HEADER, sendNative } from './native-backup.ts';
import { renderIndex, volumeMember } from './volume-index.ts';
import { checkName, type VolumeId, volumeId, volumeUrl } from './volume-names.ts';

/** Values of `compression_algorithm`; each runs with a fixed argument vector. */
const COMPRESSIONS = ['none', 'gzip', 'bzip2', 'lzma', 'xz', 'zstd'];
const plain: RootOptions = { idRange: undefined, clone: 'auto', nesting: false };

interface RenameIntent {
  readonly from: StorageVolumeBackupRecord;
  readonly to: StorageVolumeBackupRecord;
}

export interface VolumeBackupServiceOptions {
  readonly context: VolumeContext;
  readonly files: VolumeBackupFiles;
  readonly defaultCompression: () => string;
}

/** Backups of custom volumes: a tarball each, made in the background, exported as a stream. */
export class VolumeBackupService implements StorageVolumeBackups {
  readonly #context: VolumeContext;
  readonly #files: VolumeBackupFiles;
  readonly #defaultCompression: () => string;

  constructor({ context, files, defaultCompression }: VolumeBackupServiceOptions) {
    this.#context = context;
    this.#files = files;
    this.#defaultCompression = defaultCompression;
    context.deps.intents.handle<StorageVolumeBackupRecord>('storage-volume-backup-create', async ({ data }) => {
      if (context.deps.backups.get(idOf(data)) === undefined) await files.remove(data);
    });
    context.deps.intents.handle<StorageVolumeBackupRecord>('storage-volume-backup-delete', (intent) =>
      this.#finishRemove(intent),
    );
    context.deps.intents.handle<RenameIntent>('storage-volume-backup-rename', async ({ data }) =>
      this.#undoRename(data),
    );
  }

  list(address: VolumeAddress): RecordList {
    const volume = this.#custom(address);
    const records = () =>
      this.#context.deps.backups
        .list(`${volumeId(volume)}/`)
        .map(({ value }) => value)
        .toSorted((a, b) => (a.createdAt < b.createdAt ? -1 : a.createdAt > b.createdAt ? 1 : 0));
    return {
      version: `${volumeId(volume)}:${this.#context.deps.backups.revision}`,
      urls: () => records().map((record) => backupUrl(record)),
      json: () => records().map((record) => JSON.stringify(render(record))),
      values: () => records().map(render),
    };
  }

  get(address: VolumeAddress, name: string): StoragePoolVolumeBackup {
    return render(this.#find(this.#custom(address), name));
  }

  create(address: VolumeAddress, body: StoragePoolVolumeBackupsPost, options: ChangeOptions = {}): StartedOperation {
    const volume = this.#custom(address);
    this.#context.deps.guard.checkBackup(volume.project);
    const compression = body.compression_algorithm || this.#defaultCompression();
    if (!COMPRESSIONS.includes(compression)) throw errors.badRequest(`Invalid compression algorithm "${compression}"`);
    const { backups, clock } = this.#context.deps;
    const taken = backups.list(`${volumeId(volume)}/`).map(({ value }) => value.name);
    const name = body.name || nextSnapshotName('backup%d', taken, new Date(clock.now()));
    checkName(names.backupName, name);
    const record: StorageVolumeBackupRecord = {
      pool: volume.pool,
      project: volume.project,
      volume: volume.name,
      name,
      createdAt: timestamp(clock),
      expiresAt: body.expires_at ?? zeroTime,
      volumeOnly: body.volume_only ?? false,
      optimizedStorage: body.optimized_storage === true,
      compressionAlgorithm: compression,
    };
    // Clients take the backup's name from this path.
    const resources = { backups: [`/1.0/backups/${encodeURIComponent(name)}`], storage_volumes: [volumeUrl(volume)] };
    return this.#start(
      volume,
      { description: 'Creating custom volume backup', resources },
      async (operation) => {
        const { pool } = await this.#context.open(volume);
        // As with LXD, a pool without a format of its own makes a backup of files.
        const made = { ...record, optimizedStorage: record.optimizedStorage && hasNativeBackups(pool) };
        await this.#make(volume, made, operation);
        this.#announce('created', made, { ...options, context: { type: volume.type } });
      },
      true,
    );
  }

  rename(address: VolumeAddress, name: string, newName: string, options: ChangeOptions = {}): StartedOperation {
    const volume = this.#custom(address);
    const record = this.#find(volume, name);
    checkName(names.backupName, newName);
    return this.#start(volume, { description: 'Renaming custom volume backup' }, async () => {
      const { intents, backups } = this.#context.deps;
      const renamed = { ...record, name: newName };
      if (backups.get(idOf(renamed)) !== undefined)
        throw errors.conflict(`Backup "${volume.name}/${newName}" already exists`);
      const intent = await intents.begin<RenameIntent>('storage-volume-backup-rename', { from: record, to: renamed });
      try {
        await this.#files.move(record, renamed);
        await intents.end(intent, [backups.remove(idOf(record)), backups.put(idOf(renamed), renamed)]);
      } catch (error) {
        await this.#undoRename(intent.data);
        await intents.end(intent);
        throw error;
      }
      this.#announce('renamed', renamed, { ...options, context: { old_name: name } });
    });
  }

  delete(address: VolumeAddress, name: string, options: ChangeOptions = {}): StartedOperation {
    const volume = this.#custom(address);
    const record = this.#find(volume, name);
    return this.#start(volume, { description: 'Deleting custom volume backup' }, () => this.remove(record, options));
  }

  /** The caller holds the volume's lock. */
  async remove(record: StorageVolumeBackupRecord, options: ChangeOptions = {}): Promise<void> {
    const { intents } = this.#context.deps;
    await this.#finishRemove(await intents.begin('storage-volume-backup-delete', record));
    this.#announce('deleted', record, options);
  }

  async #finishRemove(intent: Intent<StorageVolumeBackupRecord>): Promise<void> {
    await this.#files.remove(intent.data);
    await this.#context.deps.intents.end(intent, [this.#context.deps.backups.remove(idOf(intent.data))]);
  }

  async export(
    address: VolumeAddress,
    name: string,
    options: ChangeOptions = {},
  ): Promise<{ body: Readable; size: number }> {
    const record = this.#find(this.#custom(address), name);
    const opened = await this.#files.open(record);
    this.#announce('retrieved', record, options);
    return opened;
  }

  async #make(
    volume: StorageVolumeRecord,
    record: StorageVolumeBackupRecord,
    { signal, progress }: OperationContext,
  ): Promise<void> {
    const { intents, backups, live } = this.#context.deps;
    if (backups.get(idOf(record)) !== undefined) {
      throw errors.conflict(`Create volume backup: Backup "${volume.name}/${record.name}" already exists`);
    }
    const intent = await intents.begin('storage-volume-backup-create', record);
    try {
      await using mounted = new AsyncDisposableStack();
      const snapshots = record.volumeOnly ? [] : this.#context.snapshotsOf(volume);
      const { driver } = live.record(volume.pool);
      const index = renderIndex(volume, driver, snapshots, record.optimizedStorage);
      const parts = record.optimizedStorage
        ? await this.#nativeParts(volume, snapshots, mounted)
        : await this.#parts(volume, snapshots, mounted);
      const onBytes = (bytes: number): void => progress('create_backup', { bytes });
      const options = { compression: record.compressionAlgorithm, signal, onBytes };
      const bytes = await this.#files.write(record, { index, parts }, options);
      await intents.end(intent, [backups.put(idOf(record), { ...record, bytes })]);
    } catch (error) {
      await this.#files.remove(record);
      await intents.end(intent);
      throw error;
    }
  }

  async #parts(
    volume: StorageVolumeRecord,
    snapshots: readonly StorageVolumeSnapshotRecord[],
    mounted: AsyncDisposableStack,
  ): Promise<VolumeArchivePart[]> {
    const { pool, ref } = await this.#context.open(volume);
    const block = volume.contentType !== 'filesystem';
    const end = block ? '.img' : '';
    const parts: VolumeArchivePart[] = [];
    for (const { name } of snapshots) {
      const { path } = await pool.snapshots.mount(ref, name, plain);
      mounted.defer(() => pool.snapshots.unmount(ref, name));
      parts.push({ name: `${volumeMember(name)}${end}`, source: path, block });
    }
    parts.push({ name: `${volumeMember(undefined)}${end}`, source: await pool.volumes.mount(ref, volume), block });
    return parts;
  }

  /** The volume in its driver's own format. */
  async #nativeParts(
    volume: StorageVolumeRecord,
    snapshots: readonly StorageVolumeSnapshotRecord[],
    mounted: AsyncDisposableStack,
  ): Promise<VolumeArchivePart[]> {
    const { pool, ref } = await this.#context.open(volume);
    const native = await sendNative(pool, ref, {
      snapshots: snapshots.map(({ name }) => name),
      running: this.#context.isRunning(volume),
      member: volumeMember,
    });
    if (native === undefined) throw errors.badRequest('Optimized backups are not supported by this pool');
    mounted.use(native);
    const { header, parts } = native;
    return [
      { name: NATIVE_HEADER, source: '', block: false, text: header },
      ...parts.map((part) => ({ ...part, source: '', block: false })),
    ];
  }

  async #undoRename({ from, to }: RenameIntent): Promise<void> {
    if (this.#context.deps.backups.get(idOf(to)) !== undefined) return;
    if (await this.#files.exists(to)) await this.#files.move(to, from);
  }

  #custom(address: VolumeAddress): StorageVolumeRecord {
    const { type } = this.#context.idOf(address);
    if (type !== 'custom') throw errors.badRequest(`Invalid storage volume type "${type}"`);
    return this.#context.find(address);
  }

  #find(volume: VolumeId, name: string): StorageVolumeBackupRecord {
    const entry = this.#context.deps.backups.get(`${volumeId(volume)}/${name}`);
    if (entry === undefined) throw errors.notFound('Storage volume backup not found');
    return entry.value;
  }

  #start(
    volume: StorageVolumeRecord,
    shown: Pick<OperationSpec, 'description'> & Partial<Pick<OperationSpec, 'resources'>>,
    run: OperationSpec['run'],
    mayCancel = false,
  ): StartedOperation {
    return this.#context.deps.operations.start({
      class: 'task',
      project: volume.project,
      resources: { storage_volumes: [volumeUrl(volume)] },
      ...shown,
      locks: [this.#context.lock(volume)],
      mayCancel,
      run,
    });
  }

  #announce(
    action: string,
    record: StorageVolumeBackupRecord,
    options: ChangeOptions & { context?: Readonly<Record<string, unknown>> },
  ): void {
    this.#context.announce(`storage-volume-backup-${action}`, record.project, backupUrl(record), options);
  }
}

function idOf({ pool, project, volume, name }: StorageVolumeBackupRecord): string {
  return `${volumeId({ pool, project, type: 'custom', name: volume })}/${name}`;
}

function backupUrl({ pool, project, volume, name }: StorageVolumeBackupRecord): string {
  return volumeUrl({ pool, project, type: 'custom', name: volume }, `/backups/${encodeURIComponent(name)}`);
}

function render(record: StorageVolumeBackupRecord): StoragePoolVolumeBackup {
  return {
    name: record.name,
    created_at: record.createdAt,
    expires_at: record.expiresAt,
    volume_only: record.volumeOnly,
    optimized_storage: record.optimizedStorage,
  };
}
