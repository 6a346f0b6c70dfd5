import type { InstanceBackup, InstanceBackupsPost } from '@keelson/api';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { stringify } from 'yaml';
import { errors } from '../../core/errors.ts';
import { instanceKey } from '../../core/paths.ts';
import type { RecordList } from '../../core/record-list.ts';
import { UndoStack } from '../../core/undo-stack.ts';
import type { Entry } from '../../state/collection.ts';
import type { InstanceBackupRecord, InstanceRecord } from '../../state/records/instance.ts';
import type { OperationContext, StartedOperation } from '../operations/contract.ts';
import { projectUrl } from '../projects/scope.ts';
import type { BackupPart } from './backup-archives.ts';
import type { ChangeRequest } from './changer.ts';
import { type InstanceContext, idOf, NO_EXPIRY } from './context.ts';
import { backupTexts } from './plan/backup-index.ts';
import { nextSnapshotName } from './plan/snapshot-names.ts';
import { renderBackup, renderInstance, renderSnapshot } from './render.ts';

const COMPRESSIONS = ['none', 'gzip', 'bzip2', 'lzma', 'xz', 'zstd'];

/** Backups of instances: tarballs that LXD reads, and whose own it writes. */
export class InstanceBackups {
  readonly #context: InstanceContext;

  constructor(context: InstanceContext) {
    this.#context = context;
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
      optimizedStorage: false,
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
      run: async (operation) => {
        await this.#make(this.#context.require(project, name), backup, operation);
        this.#context.lifecycle('instance-backup-created', record, request, { below: `/backups/${backup.name}` });
      },
    });
  }

  async #make(record: InstanceRecord, backup: InstanceBackupRecord, operation: OperationContext): Promise<void> {
    const { archives, collections } = this.#context.deps;
    const id = `${idOf(record.project, record.name)}/${backup.name}`;
    if (collections.backups.get(id) !== undefined) {
      throw errors.badRequest(`Create backup: Backup "${record.name}/${backup.name}" already exists`);
    }
    const path = this.#path(backup);
    await using undo = new UndoStack();
    await using mounts = new UndoStack((error) =>
      this.#context.deps.log.warn('A backup left a mount', { instance: record.name, error }),
    );
    const { index, parts } = await this.#content(record, backup, mounts);
    undo.add(() => archives.remove(path));
    await archives.write(
      path,
      { index, parts },
      { compression: backup.compressionAlgorithm, signal: operation.signal },
    );
    await collections.backups.create(id, backup);
    undo.commit();
  }

  /** What goes into the tarball; roots stay mounted until `mounts` unwinds. */
  async #content(
    record: InstanceRecord,
    backup: InstanceBackupRecord,
    mounts: UndoStack,
  ): Promise<{ index: string; parts: BackupPart[] }> {
    const { storage, collections } = this.#context.deps;
    const effective = this.#context.expand(record);
    const root = this.#context.rootVolume(record, effective);
    const snapshots = backup.instanceOnly
      ? []
      : this.#context.snapshotsOf(record.project, record.name).map(({ value }) => value);
    const pool = collections.pools.get(record.pool)?.value;
    const { index, backup: text } = backupTexts({
      name: record.name,
      pool: {
        name: record.pool,
        driver: pool?.driver ?? '',
        config: pool?.config ?? {},
        description: pool?.description ?? '',
      },
      container: renderInstance(record, effective, 'Stopped'),
      snapshots: snapshots.map((snapshot) => renderSnapshot(snapshot, this.#context.expand(snapshot))),
      profiles: this.#context
        .profilesOf(record)
        .map(({ name, description, config, devices }) => ({ config, description, devices, name, used_by: [] })),
      project: record.project,
    });
    const file = (name: string, content: string): BackupPart => ({ name, source: '', block: false, text: content });
    const parts = [
      file('backup/container/backup.yaml', text),
      ...this.#metadataParts('backup/container', idOf(record.project, record.name)),
    ];
    const { mount, release } = await this.#context.roots.use(root);
    mounts.add(release);
    const range = (ids: 'shifted' | 'plain') => (ids === 'shifted' ? root.idRange : undefined);
    parts.push({ name: 'backup/container/rootfs', source: mount.path, block: false, idRange: range(mount.ids) });
    for (const { name } of snapshots) {
      const found = await storage.mountSnapshot(root, name);
      mounts.add(() => storage.unmountSnapshot(root, name));
      parts.push(...this.#metadataParts(`backup/snapshots/${name}`, `${idOf(record.project, record.name)}/${name}`));
      parts.push({
        name: `backup/snapshots/${name}/rootfs`,
        source: found.path,
        block: false,
        idRange: range(found.ids),
      });
    }
    return { index, parts };
  }

  #metadataParts(folder: string, id: string): BackupPart[] {
    const known = this.#context.deps.collections.metadata.get(id)?.value;
    if (known === undefined) return [];
    const file = (name: string, text: string): BackupPart => ({
      name: `${folder}/${name}`,
      source: '',
      block: false,
      text,
    });
    const templates = Object.entries(known.templates).map(([name, text]) => file(`templates/${name}`, text));
    return [file('metadata.yaml', stringify(known.metadata)), ...templates];
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
        const renamed = { ...found, name: newName };
        await this.#context.deps.archives.move(this.#path(found), this.#path(renamed));
        await this.#context.deps.ledger.transact(
          [],
          [backups.remove(`${id}/${backup}`), backups.put(`${id}/${newName}`, renamed)],
        );
        this.#context.lifecycle('instance-backup-renamed', { project, name }, request, {
          below: `/backups/${newName}`,
          context: { old_name: backup },
        });
      },
    });
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

  async remove(backup: InstanceBackupRecord, request: ChangeRequest = {}): Promise<void> {
    const { project, instance: name } = backup;
    await this.#context.deps.collections.backups.delete(`${idOf(project, name)}/${backup.name}`);
    await this.#context.deps.archives.remove(this.#path(backup));
    this.#context.lifecycle('instance-backup-deleted', { project, name }, request, {
      below: `/backups/${backup.name}`,
    });
  }

  #path({ project, instance, name }: InstanceBackupRecord): string {
    return join(this.#context.deps.paths.backups, 'instances', instanceKey(project, instance), name);
  }
}

/** A backup's name is a file name. @throws bad-request with LXD's text. */
function checkName(name: string): void {
  if (name.includes('/')) throw errors.badRequest('Backup names may not contain slashes');
  if (name === '.' || name === '..' || name.endsWith('.part') || name.length > 200 || /\p{Cc}/u.test(name)) {
    throw errors.badRequest(`Invalid backup name "${name}"`);
  }
}
