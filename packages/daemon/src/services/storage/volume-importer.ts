import { names } from '@keelson/api';
import { stat } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { timestamp } from '../../core/clock.ts';
import { errors } from '../../core/errors.ts';
import type { IdRange } from '../../drivers/storage/contract.ts';
import type { StorageVolumeRecord, StorageVolumeSnapshotRecord } from '../../state/records/storage.ts';
import type { StartedOperation } from '../operations/contract.ts';
import type { VolumeBackupFiles } from './backup-files.ts';
import type { ChangeOptions, VolumeAddress, VolumeUpload } from './contract.ts';
import type { CopyFile, CopyTree } from './root-transfer.ts';
import type { VolumeContext } from './volume-context.ts';
import { keysOf } from './volume-config.ts';
import { sizeOf, type VolumeCreator } from './volume-creator.ts';
import { NATIVE_HEADER, receiveNative } from './native-backup.ts';
import { parseIndex, type VolumeIndex, volumeMember } from './volume-index.ts';
import { checkName, refOf, snapshotId, volumeUrl } from './volume-names.ts';

/** A backup that came in and was checked; gone with `dispose`. */
export interface IncomingBackup extends AsyncDisposable {
  index(): Promise<string>;
  extract(member: string, target: string, signal?: AbortSignal): Promise<void>;
  withExtracted<T>(member: string, use: (folder: string) => Promise<T>, signal?: AbortSignal): Promise<T>;
  extractFile(member: string, target: string): Promise<void>;
  /** Bytes of a file member; undefined when it is not there. */
  sizeOf(member: string): number | undefined;
  /** For members that carry host ids of `idRange`: files get guest ids. */
  extractUnshifted(member: string, target: string, idRange: IdRange, signal?: AbortSignal): Promise<void>;
  /** As `withExtracted`, with guest ids. */
  withTree<T>(
    member: string,
    idRange: IdRange | undefined,
    use: (folder: string) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T>;
  /** Text of a small member; undefined when it is not there. */
  text(member: string): Promise<string | undefined>;
  /** Content of a file member. @throws bad-request when it is not there. */
  open(member: string): Promise<Readable>;
}

interface Filling {
  /** Oldest first. */
  readonly snapshots: readonly StorageVolumeSnapshotRecord[];
  readonly signal: AbortSignal;
}

export interface VolumeImporterOptions {
  readonly context: VolumeContext;
  readonly creator: VolumeCreator;
  readonly files: VolumeBackupFiles;
  readonly copyTree: CopyTree;
  readonly copyFile: CopyFile;
}

/** Custom volumes from backups and ISO images. */
export class VolumeImporter {
  readonly files: VolumeBackupFiles;
  readonly #options: VolumeImporterOptions;

  constructor(options: VolumeImporterOptions) {
    this.#options = options;
    this.files = options.files;
  }

  /** Reads all bytes, then answers with the operation that makes the volume. */
  async upload(
    at: Omit<VolumeAddress, 'name' | 'type'>,
    upload: VolumeUpload,
    options: ChangeOptions,
  ): Promise<StartedOperation> {
    this.#options.context.deps.live.record(at.pool);
    return upload.kind === 'iso' ? this.#iso(at, upload, options) : this.#backup(at, upload, options);
  }

  async #iso(
    at: Omit<VolumeAddress, 'name' | 'type'>,
    upload: VolumeUpload,
    options: ChangeOptions,
  ): Promise<StartedOperation> {
    checkName(names.volumeName, upload.name);
    const { context, creator, copyFile } = this.#options;
    const address = { ...at, type: 'custom', name: upload.name };
    const received = await this.files.receiveFile(upload.content, upload.signal);
    return this.#start(received, address, options, async (signal) => {
      const record = creator.draft(address, { contentType: 'iso', config: {} });
      await creator.make(record, async () => {
        const { pool, ref } = await context.open(record);
        await pool.volumes.create(ref, { config: record.config });
        await copyFile(received.path, await pool.volumes.mount(ref), { signal });
      });
    });
  }

  async #backup(
    at: Omit<VolumeAddress, 'name' | 'type'>,
    upload: VolumeUpload,
    options: ChangeOptions,
  ): Promise<StartedOperation> {
    const backup = await this.files.receive(upload.content, upload.signal);
    let index: VolumeIndex;
    try {
      index = parseIndex(await backup.index());
      checkName(names.volumeName, upload.name === '' ? index.name : upload.name);
      for (const { name } of index.snapshots) checkName(names.snapshotName, name);
    } catch (error) {
      await backup[Symbol.asyncDispose]();
      throw error;
    }
    const address = { ...at, type: 'custom', name: upload.name === '' ? index.name : upload.name };
    return this.#start(backup, address, options, (signal) => this.#restore(backup, index, address, signal));
  }

  async #restore(
    backup: IncomingBackup,
    index: VolumeIndex,
    address: VolumeAddress,
    signal: AbortSignal,
  ): Promise<void> {
    const { context, creator } = this.#options;
    const { contentType, config, description } = index;
    const record = creator.draft(address, { contentType, config, description });
    const { driver } = context.deps.live.record(record.pool);
    const snapshots = index.snapshots.map((snapshot): StorageVolumeSnapshotRecord => {
      const { name: volume, ...rest } = record;
      const kept = keysOf(driver, snapshot.config);
      context.checkConfig(record, kept);
      const createdAt = snapshot.createdAt ?? timestamp(context.deps.clock);
      return {
        ...rest,
        volume,
        name: snapshot.name,
        description: snapshot.description,
        config: kept,
        expiresAt: snapshot.expiresAt,
        createdAt,
      };
    });
    const writes = snapshots.map((one) => context.deps.snapshots.put(snapshotId(one), one));
    await creator.make(
      record,
      async () => {
        await (index.native === undefined
          ? this.#fill(backup, record, { snapshots, shift: index.shift, signal })
          : this.#receive(backup, record, { snapshots, backend: index.native, signal }));
        await this.#limit(record);
      },
      () => writes,
    );
  }

  /** A volume holds no more than the size that was counted. @throws bad-request when it does. */
  async #limit(record: StorageVolumeRecord): Promise<void> {
    const { pool, ref } = await this.#options.context.open(record);
    const { config } = record;
    const size = sizeOf(record);
    if (size === undefined) return;
    if (record.contentType === 'filesystem') return pool.quota?.set(ref, size, { config });
    const found = await stat(await pool.volumes.mount(ref, { config }));
    await pool.volumes.unmount(ref);
    if (found.isFile()) checkLength(found.size, record);
  }

  /** State by state, oldest first. */
  async #fill(
    backup: IncomingBackup,
    record: StorageVolumeRecord,
    { snapshots, shift, signal }: Filling & { readonly shift: IdRange | undefined },
  ): Promise<void> {
    const { context, copyTree } = this.#options;
    const { pool } = await context.open(record);
    const ref = refOf(record);
    const block = record.contentType !== 'filesystem';
    const { config } = record;
    let made = false;
    const step = async (member: string) => {
      if (block) {
        checkLength(backup.sizeOf(`${member}.img`), record);
        if (!made) await pool.volumes.create(ref, { config });
        await backup.extractFile(`${member}.img`, await pool.volumes.mount(ref, { config }));
      } else if (!made)
        await pool.volumes.createFilled(
          ref,
          (folder) =>
            shift === undefined
              ? backup.extract(member, folder, signal)
              : backup.extractUnshifted(member, folder, shift, signal),
          { config },
        );
      else {
        const target = await pool.volumes.mount(ref, { config });
        const mirror = (folder: string) => copyTree(folder, target, { mirror: true, exact: true, signal });
        await backup.withTree(member, shift, mirror, signal);
      }
      made = true;
    };
    for (const { name } of snapshots) {
      await step(volumeMember(name));
      await pool.snapshots.create(ref, name, { running: false });
    }
    await step(volumeMember(undefined));
  }

  /** In the format of a driver, which has to be the pool's. */
  async #receive(
    backup: IncomingBackup,
    record: StorageVolumeRecord,
    { snapshots, backend, signal }: Filling & { readonly backend: string },
  ): Promise<void> {
    const { context } = this.#options;
    const { pool, ref } = await context.open(record);
    const input = {
      member: volumeMember,
      snapshots: snapshots.map(({ name }) => name),
      header: await backup.text(NATIVE_HEADER),
      open: (member: string) => backup.open(member),
      backend,
      driver: context.deps.live.record(record.pool).driver,
    };
    await receiveNative(pool, ref, input, { signal, config: record.config });
  }

  #start(
    received: AsyncDisposable,
    address: VolumeAddress,
    options: ChangeOptions,
    run: (signal: AbortSignal) => Promise<void>,
  ): StartedOperation {
    const { context } = this.#options;
    const id = context.idOf(address);
    if (id.name === '') throw errors.badRequest('No name provided');
    return context.deps.operations.start({
      class: 'task',
      project: id.project,
      description: 'Restoring custom volume backup',
      resources: { storage_volumes: [volumeUrl(id)] },
      locks: [context.lock(id)],
      run: async ({ signal }) => {
        await using _ = received;
        await run(signal);
        context.announce('storage-volume-created', id.project, volumeUrl(id), {
          ...options,
          context: { type: id.type },
        });
      },
    });
  }
}

/** A block volume has no more bytes than the size that was counted. @throws bad-request. */
function checkLength(bytes: number | undefined, record: StorageVolumeRecord): void {
  const size = sizeOf(record);
  if (bytes !== undefined && size !== undefined && bytes > size)
    throw errors.badRequest(`The volume of the backup has ${bytes} bytes, more than its size of ${size}`);
}
