import type { InstanceBackup, InstanceBackupsPost } from '@keelson/api';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { errors } from '../../core/errors.ts';
import { instanceKey } from '../../core/paths.ts';
import type { RecordList } from '../../core/record-list.ts';
import { UndoStack } from '../../core/undo-stack.ts';
import type { Entry } from '../../state/collection.ts';
import type { InstanceBackupRecord, InstanceRecord } from '../../state/records/instance.ts';
import type { Intent } from '../intents/contract.ts';
import { checkWhole } from '../storage/backup-files.ts';
import type { OperationContext, StartedOperation } from '../operations/contract.ts';
import { projectUrl } from '../projects/scope.ts';
import { BackupContents } from './backup-content.ts';
import type { ChangeRequest } from './changer.ts';
import { type InstanceContext, idOf, NO_EXPIRY } from './context.ts';
import { type BackupRenameIntent, INTENTS } from './intents.ts';
import { nextSnapshotName } from './plan/snapshot-names.ts';
import { renderBackup } from './render.ts';

const COMPRESSIONS = ['none', 'gzip', 'bzip2', 'lzma', 'xz', 'zstd'];

/** Backups of instances: tarballs that LXD reads, and whose own it writes. */
export class InstanceBackups {
  readonly #context: InstanceContext;
  readonly #contents: BackupContents;

  constructor(context: InstanceContext) {
    this.#context = context;
    this.#contents = new BackupContents(context);
    const { intents, archives, collections } = context.deps;
    intents.handle<InstanceBackupRecord>(INTENTS.backupCreate, async (intent) => {
      if (collections.backups.get(backupId(intent.data)) === undefined) await archives.remove(this.#path(intent.data));
      await intents.end(intent);
    });
    intents.handle<InstanceBackupRecord>(INTENTS.backupDelete, (intent) => this.#finishRemove(intent));
    intents.handle<BackupRenameIntent>(INTENTS.backupRename, (intent) => this.#undoRename(intent));
  }

  list(project: string, name: string): RecordList {
    this.#context.require(project, name);
    const { backups } = this.#context.deps.collections;
    const entries = (): readonly Entry<InstanceBackupRecord>[] => backups.list(`${idOf(project, name)}/`);
    return {
      version: `${project}/${name}/${backups.revision}`,
      urls: () =>
        entries().map(({ value }) => this.#context.url(project, name, `/backups/${encodeURIComponent(value.name)}`)),
      json: () => entries().map(({ value }) => JSON.stringify(renderBackup(value))),
      values: () => entries().map(({ value }) => renderBackup(value)),
    };
  }

  get(project: string, name: string, backup: string): InstanceBackup {
    return renderBackup(this.#require(project, name, backup));
  }

  #require(project: string, name: string, backup: string): InstanceBackupRecord {
    this.#context.require(project, name);
    const found = this.#context.deps.collections.backups.get(`${idOf(project, name)}/${backup}`)?.value;
    if (found === undefined) throw errors.notFound('Load backup from database: Instance backup not found');
    return found;
  }

  create(project: string, name: string, body: InstanceBackupsPost, request: ChangeRequest = {}): StartedOperation {
    const record = this.#context.require(project, name, request.type);
    this.#context.deps.guard.checkBackup(project);
    const wanted = body.name ?? '';
    checkName(wanted);
    const compression =
      (body.compression_algorithm ?? '') === ''
        ? this.#context.deps.backupCompression()
        : (body.compression_algorithm ?? '');
    if (!COMPRESSIONS.includes(compression)) throw errors.badRequest(`Invalid compression algorithm "${compression}"`);
    const existing = this.#context.deps.collections.backups
      .list(`${idOf(project, name)}/`)
      .map(({ value }) => value.name);
    const backup: InstanceBackupRecord = {
      project,
      instance: name,
      name: wanted === '' ? nextSnapshotName('backup%d', existing, new Date(this.#context.deps.now())) : wanted,
      createdAt: `${this.#context.timestamp().slice(0, 19)}Z`,
      expiresAt: body.expires_at ?? NO_EXPIRY,
      instanceOnly: body.instance_only === true || body.container_only === true,
      optimizedStorage: body.optimized_storage === true,
      compressionAlgorithm: compression,
    };
    return this.#context.deps.operations.start({
      class: 'task',
      project,
      description: 'Backing up instance',
      action: 'backup',
      resources: {
        ...this.#context.resources(project, name),
        backups: [projectUrl(`/1.0/backups/${backup.name}`, project)],
      },
      locks: [this.#context.lock(record)],
      mayCancel: true,
      run: async (operation) => {
        const current = this.#context.require(project, name);
        // As with LXD, a pool without a format of its own makes a backup of files.
        const optimizedStorage = backup.optimizedStorage && (await this.#context.deps.storage.hasNative(current.pool));
        await this.#make(current, { ...backup, optimizedStorage }, operation);
        this.#context.lifecycle('instance-backup-created', record, request, { below: `/backups/${backup.name}` });
      },
    });
  }

  async #make(record: InstanceRecord, backup: InstanceBackupRecord, operation: OperationContext): Promise<void> {
    const { archives, collections, intents, log } = this.#context.deps;
    if (collections.backups.get(backupId(backup)) !== undefined) {
      throw errors.badRequest(`Create backup: Backup "${record.name}/${backup.name}" already exists`);
    }
    const path = this.#path(backup);
    const intent = await intents.begin<InstanceBackupRecord>(INTENTS.backupCreate, backup);
    await using undo = new UndoStack();
    undo.add(() => intents.end(intent));
    undo.add(() => archives.remove(path));
    await using mounts = new UndoStack((error) =>
      log.warn('A backup left something mounted', { instance: record.name, error }),
    );
    const content = await this.#contents.gather(record, backup, mounts);
    const bytes = await archives.write(path, content, {
      compression: backup.compressionAlgorithm,
      signal: operation.signal,
      onBytes: (bytes) => operation.progress('create_backup', { bytes }),
    });
    operation.signal.throwIfAborted();
    await intents.end(intent, [collections.backups.put(backupId(backup), { ...backup, bytes })]);
    undo.commit();
  }

  /** The tarball, and its length in bytes. */
  async export(
    project: string,
    name: string,
    backup: string,
    request: ChangeRequest = {},
  ): Promise<{ readonly body: Readable; readonly size: number }> {
    const found = this.#require(project, name, backup);
    const { archives } = this.#context.deps;
    const path = this.#path(found);
    const size = await archives.size(path);
    checkWhole(found, size);
    this.#context.lifecycle('instance-backup-retrieved', { project, name }, request, { below: `/backups/${backup}` });
    return { body: archives.read(path), size };
  }

  rename(
    project: string,
    name: string,
    { from: backup, to: newName }: { readonly from: string; readonly to: string },
    request: ChangeRequest = {},
  ): StartedOperation {
    const found = this.#require(project, name, backup);
    checkName(newName);
    if (newName === '') throw errors.badRequest('The request is missing `name`');
    const { backups } = this.#context.deps.collections;
    const id = idOf(project, name);
    return this.#context.deps.operations.start({
      class: 'task',
      project,
      description: 'Renaming instance backup',
      resources: this.#context.resources(project, name),
      locks: [this.#context.lock({ project, name })],
      run: async () => {
        if (backups.get(`${id}/${newName}`) !== undefined)
          throw errors.badRequest(`Backup "${name}/${newName}" already exists`);
        await this.#rename(found, { ...found, name: newName });
        this.#context.lifecycle('instance-backup-renamed', { project, name }, request, {
          below: `/backups/${newName}`,
          context: { old_name: backup },
        });
      },
    });
  }

  async #rename(from: InstanceBackupRecord, to: InstanceBackupRecord): Promise<void> {
    const { archives, collections, intents } = this.#context.deps;
    const intent = await intents.begin<BackupRenameIntent>(INTENTS.backupRename, { from, to });
    try {
      await archives.move(this.#path(from), this.#path(to));
      await intents.end(intent, [
        collections.backups.remove(backupId(from)),
        collections.backups.put(backupId(to), to),
      ]);
    } catch (error) {
      await this.#undoRename(intent);
      throw error;
    }
  }

  async #undoRename(intent: Intent<BackupRenameIntent>): Promise<void> {
    const { archives, intents } = this.#context.deps;
    const { from, to } = intent.data;
    const moved = await archives.size(this.#path(to)).then(
      () => true,
      () => false,
    );
    if (moved) await archives.move(this.#path(to), this.#path(from));
    await intents.end(intent);
  }

  delete(project: string, name: string, backup: string, request: ChangeRequest = {}): StartedOperation {
    const found = this.#require(project, name, backup);
    return this.#context.deps.operations.start({
      class: 'task',
      project,
      description: 'Removing instance backup',
      resources: this.#context.resources(project, name),
      locks: [this.#context.lock({ project, name })],
      run: () => this.remove(found, request),
    });
  }

  /** Unless it is gone or has another name by now. */
  async removeExpired(backup: InstanceBackupRecord): Promise<void> {
    if (this.#context.deps.collections.backups.get(backupId(backup))?.value === backup) await this.remove(backup);
  }

  async remove(backup: InstanceBackupRecord, request: ChangeRequest = {}): Promise<void> {
    const { project, instance: name } = backup;
    await this.#finishRemove(await this.#context.deps.intents.begin(INTENTS.backupDelete, backup));
    this.#context.lifecycle('instance-backup-deleted', { project, name }, request, {
      below: `/backups/${backup.name}`,
    });
  }

  async #finishRemove(intent: Intent<InstanceBackupRecord>): Promise<void> {
    const { archives, collections, intents } = this.#context.deps;
    await archives.remove(this.#path(intent.data));
    await intents.end(intent, [collections.backups.remove(backupId(intent.data))]);
  }

  #path({ project, instance, name }: InstanceBackupRecord): string {
    return join(this.#context.deps.paths.backups, 'instances', instanceKey(project, instance), name);
  }
}

function backupId({ project, instance, name }: InstanceBackupRecord): string {
  return `${idOf(project, instance)}/${name}`;
}

/** A backup's name is a file name. @throws bad-request with LXD's text. */
function checkName(name: string): void {
  if (name.includes('/')) throw errors.badRequest('Backup names may not contain slashes');
  if (name === '.' || name === '..' || name.endsWith('.part') || name.length > 200 || /\p{Cc}/u.test(name)) {
    throw errors.badRequest(`Invalid backup name "${name}"`);
  }
}
