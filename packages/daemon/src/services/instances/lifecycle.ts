import type { InstancePost } from '@keelson/api';
import { rename } from 'node:fs/promises';
import { errors } from '../../core/errors.ts';
import { instanceKey } from '../../core/paths.ts';
import { UndoStack } from '../../core/undo-stack.ts';
import type { InstanceRecord, InstanceSnapshotRecord } from '../../state/records/instance.ts';
import type { Write } from '../../state/store.ts';
import type { OperationContext, StartedOperation } from '../operations/contract.ts';
import { checkDeletable, type ChangeRequest } from './changer.ts';
import { type By, type InstanceContext, idOf } from './context.ts';
import { progressOf } from './progress.ts';
import { INTENTS, type MoveIntent, type RenameIntent } from './intents.ts';
import type { MigrationSource } from './migration/source.ts';
import { rootDisk } from './plan/expand.ts';
import { checkInstanceName } from './plan/names.ts';
import type { InstanceRemover } from './remover.ts';
import { etagSource } from './reader.ts';

/** Deletes, renames and moves instances. */
export class InstanceLifecycle {
  readonly #context: InstanceContext;
  readonly #remover: InstanceRemover;
  readonly #departures: MigrationSource;

  constructor(context: InstanceContext, remover: InstanceRemover, departures: MigrationSource) {
    this.#context = context;
    this.#remover = remover;
    this.#departures = departures;
    const { intents, storage } = context.deps;
    intents.handle<RenameIntent>(INTENTS.rename, async (intent) => {
      const { project, name, newName, root } = intent.data;
      await storage.rename({ ...root, instance: newName }, name).catch(() => undefined); // it may not have happened yet
      await this.#moveFiles({ project, name: newName }, { project, name });
      await intents.end(intent);
    });
    intents.handle<MoveIntent>(INTENTS.move, async (intent) => {
      const { project, name, source, target } = intent.data;
      const moved = context.find(project, name)?.pool === target.pool;
      await storage.delete(moved ? source : target);
      await intents.end(intent);
    });
  }

  /** `DELETE /1.0/instances/<name>`. @throws not-found, bad-request while it runs. */
  delete(project: string, name: string, request: ChangeRequest = {}): StartedOperation {
    const record = this.#context.require(project, name, request.type);
    request.precondition?.(etagSource(record));
    if (this.#context.isRunning(record)) throw errors.badRequest('Instance is running');
    return this.#context.deps.operations.start({
      class: 'task',
      project,
      description: 'Deleting instance',
      resources: this.#context.resources(project, name),
      locks: [this.#context.lock(record)],
      run: async () => {
        const current = this.#context.require(project, name);
        if (this.#context.isRunning(current)) throw errors.badRequest('Instance is running');
        checkDeletable(this.#context.expand(current));
        const snapshots = this.#context.snapshotsOf(project, name);
        await this.#remover.remove(current);
        for (const { value } of snapshots)
          this.#context.lifecycle('instance-snapshot-deleted', current, request, {
            below: `/snapshots/${encodeURIComponent(value.name)}`,
          });
        this.#context.lifecycle('instance-deleted', current, request);
      },
    });
  }

  /** `POST /1.0/instances/<name>`: another name, another pool, or another server. @throws not-found, bad-request, conflict. */
  post(project: string, name: string, body: InstancePost, request: ChangeRequest & By = {}): StartedOperation {
    const record = this.#context.require(project, name, request.type);
    const newName = body.name ?? '';
    if (body.migration === true) return this.#migrate(record, body, request);
    if (newName === '' || newName === name) throw errors.conflict(`Name "${name}" already in use`);
    this.#checkNewName(project, newName);
    return this.#context.deps.operations.start({
      class: 'task',
      project,
      description: 'Renaming instance',
      resources: this.#context.resources(project, name),
      locks: [this.#context.lock(record), this.#context.lock({ project, name: newName })],
      run: async () => {
        const current = this.#context.require(project, name);
        if (this.#context.isRunning(current)) throw errors.badRequest('Renaming of running container not allowed');
        await this.#rename(current, newName);
        this.#context.lifecycle('instance-renamed', { project, name: newName }, request, {
          context: { old_name: name },
        });
      },
    });
  }

  #migrate(record: InstanceRecord, body: InstancePost, request: ChangeRequest & By): StartedOperation {
    const { project, name } = record;
    const pool = body.pool ?? '';
    if (pool === '' && (body.project ?? '') === '') return this.#departures.start(record, body, request);
    if ((body.project ?? '') !== '' && body.project !== project)
      throw errors.notImplemented('Moving between projects is not supported yet');
    const newName = body.name || name;
    const renamed = newName !== name;
    if (renamed) this.#checkNewName(project, newName);
    return this.#context.deps.operations.start({
      class: 'task',
      project,
      description: 'Migrating instance',
      resources: { instances: [this.#context.url(project, name)] },
      locks: [this.#context.lock(record), ...(renamed ? [this.#context.lock({ project, name: newName })] : [])],
      run: async (operation) => {
        const current = this.#context.require(project, name);
        if (this.#context.isRunning(current))
          throw errors.badRequest('Instance must be stopped to be moved to another pool');
        if (!this.#context.deps.storage.poolExists(pool))
          throw errors.badRequest('Failed loading storage pool: Storage pool not found');
        if (pool === current.pool) throw errors.badRequest(`Instance is already in pool "${pool}"`);
        if (renamed) this.#checkNewName(project, newName);
        await this.#move(current, pool, operation);
        this.#context.lifecycle('instance-updated', current, request);
        if (!renamed) return;
        await this.#rename(this.#context.require(project, name), newName);
        this.#context.lifecycle('instance-renamed', { project, name: newName }, request, {
          context: { old_name: name },
        });
      },
    });
  }

  /** @throws bad-request, conflict when it is taken. */
  #checkNewName(project: string, name: string): void {
    checkInstanceName(name);
    if (this.#context.find(project, name) !== undefined) throw errors.conflict(`Name "${name}" already in use`);
  }

  async #rename(record: InstanceRecord, newName: string): Promise<void> {
    const { deps } = this.#context;
    const { project, name } = record;
    if (this.#context.find(project, newName) !== undefined) throw errors.conflict(`Name "${newName}" already in use`);
    const root = this.#context.rootVolume(record);
    const data: RenameIntent = { project, name, newName, root };
    const intent = await deps.intents.begin(INTENTS.rename, data);
    await using undo = new UndoStack((error) => deps.log.error('Undoing a rename failed', { instance: name, error }));
    undo.add(() => deps.intents.end(intent));
    undo.add(() => deps.storage.rename({ ...root, instance: newName }, name));
    await deps.storage.rename(root, newName);
    undo.add(() => this.#moveFiles({ project, name: newName }, record));
    await this.#moveFiles(record, { project, name: newName });
    await deps.intents.end(intent, this.#renameWrites(record, newName));
    undo.commit();
    await deps.driver.forget(this.#context.ref(record)).catch(() => undefined);
    await this.#remover.refreshReservations(this.#context.expand(record).devices);
  }

  #renameWrites(record: InstanceRecord, newName: string): Write[] {
    const { instances, snapshots, backups, metadata } = this.#context.deps.collections;
    const [old, wanted] = [idOf(record.project, record.name), idOf(record.project, newName)];
    const moveMetadata = (id: string, newId: string): Write[] => {
      const known = metadata.get(id)?.value;
      return known === undefined ? [] : [metadata.remove(id), metadata.put(newId, known)];
    };
    const writes = [
      instances.remove(old),
      instances.put(wanted, { ...record, name: newName }),
      ...moveMetadata(old, wanted),
    ];
    for (const { value } of snapshots.list(`${old}/`)) {
      writes.push(
        snapshots.remove(`${old}/${value.name}`),
        snapshots.put(`${wanted}/${value.name}`, { ...value, instance: newName }),
      );
      writes.push(...moveMetadata(`${old}/${value.name}`, `${wanted}/${value.name}`));
    }
    for (const { value } of backups.list(`${old}/`)) {
      writes.push(
        backups.remove(`${old}/${value.name}`),
        backups.put(`${wanted}/${value.name}`, { ...value, instance: newName }),
      );
    }
    return writes;
  }

  async #moveFiles(
    from: { readonly project: string; readonly name: string },
    to: { readonly project: string; readonly name: string },
  ): Promise<void> {
    const { archives, paths } = this.#context.deps;
    const [old, wanted] = [instanceKey(from.project, from.name), instanceKey(to.project, to.name)];
    await rename(paths.logs(old), paths.logs(wanted)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
    await archives.moveFolder(`${paths.backups}/instances/${old}`, `${paths.backups}/instances/${wanted}`);
  }

  async #move(record: InstanceRecord, pool: string, operation: OperationContext): Promise<void> {
    const { deps } = this.#context;
    const { instances, snapshots } = deps.collections;
    const id = idOf(record.project, record.name);
    const source = this.#context.rootVolume(record);
    const target = { ...source, pool };
    const kept = this.#context.snapshotsOf(record.project, record.name).map(({ value }) => value);
    const data: MoveIntent = { project: record.project, name: record.name, source, target };
    const intent = await deps.intents.begin(INTENTS.move, data);
    await using undo = new UndoStack((error) =>
      deps.log.error('Undoing a move failed', { instance: record.name, error }),
    );
    undo.add(() => deps.intents.end(intent));
    undo.add(() => deps.storage.delete(target));
    await deps.storage.copy(source, target, {
      snapshots: kept.map(({ name }) => name),
      ...progressOf(operation, this.#context.ref(record).key),
    });
    const root = rootDisk(this.#context.expand(record).devices);
    const moved = { ...record, pool, devices: { ...record.devices, [root.name]: { ...root.config, pool } } };
    const writes = kept.map((snapshot: InstanceSnapshotRecord) =>
      snapshots.put(`${id}/${snapshot.name}`, { ...snapshot, pool }),
    );
    await deps.ledger.transact([], [instances.put(id, moved), ...writes]);
    undo.commit();
    await deps.storage.delete(source);
    await deps.intents.end(intent);
  }
}
