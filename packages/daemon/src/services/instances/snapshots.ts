import { expiresAt, type InstanceSnapshot, type InstanceSnapshotPut, type InstanceSnapshotsPost } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import { JsonCache, type RecordList } from '../../core/record-list.ts';
import { UndoStack } from '../../core/undo-stack.ts';
import type { InstanceRecord, InstanceSnapshotRecord } from '../../state/records/instance.ts';
import type { StartedOperation } from '../operations/contract.ts';
import { type InstanceContext, idOf, NEVER_USED, NO_EXPIRY } from './context.ts';
import type { ChangeRequest } from './changer.ts';
import { INTENTS, type SnapshotIntent, type SnapshotRenameIntent } from './intents.ts';
import { checkSnapshotName } from './plan/names.ts';
import { nextSnapshotName } from './plan/snapshot-names.ts';
import { renderSnapshot } from './render.ts';
import type { InstanceRunner } from './runner.ts';
import type { InstanceStarter } from './starter.ts';

/** Where a snapshot is. */
export interface SnapshotPlace {
  readonly project: string;
  /** Its instance. */
  readonly name: string;
  readonly snapshot: string;
}

/** Snapshots of instances. */
export class InstanceSnapshots {
  readonly #context: InstanceContext;
  readonly #runner: InstanceRunner;
  readonly #starter: InstanceStarter;
  readonly #texts = new JsonCache<InstanceSnapshot>();

  constructor(context: InstanceContext, runner: InstanceRunner, starter: InstanceStarter) {
    this.#context = context;
    this.#runner = runner;
    this.#starter = starter;
    const { intents, storage, collections } = context.deps;
    intents.handle<SnapshotIntent>(INTENTS.snapshotCreate, async (intent) => {
      await storage.deleteSnapshot(intent.data.root, intent.data.snapshot);
      await intents.end(intent);
    });
    intents.handle<SnapshotIntent>(INTENTS.snapshotDelete, async (intent) => {
      await storage.deleteSnapshot(intent.data.root, intent.data.snapshot);
      await intents.end(intent, this.#removal(intent.data));
    });
    intents.handle<SnapshotRenameIntent>(INTENTS.snapshotRename, async (intent) => {
      const { root, snapshot, newName } = intent.data;
      await storage.renameSnapshot(root, newName, snapshot).catch(() => undefined); // it may not have happened yet
      await intents.end(intent);
    });
    collections.snapshots.subscribe(({ id, after }) => {
      if (after === undefined) this.#texts.delete(id);
    });
  }

  list(project: string, name: string): RecordList {
    this.#context.require(project, name);
    const { snapshots, profiles } = this.#context.deps.collections;
    const entries = (): ReturnType<InstanceContext['snapshotsOf']> => this.#context.snapshotsOf(project, name);
    return {
      version: `${project}/${name}/${snapshots.revision}.${profiles.revision}`,
      urls: () =>
        entries().map(({ value }) => this.#context.url(project, name, `/snapshots/${encodeURIComponent(value.name)}`)),
      json: () => entries().map(({ value, revision }) => this.#render(value, revision).text),
      values: () => entries().map(({ value, revision }) => this.#render(value, revision).value),
    };
  }

  get(
    project: string,
    name: string,
    snapshot: string,
  ): { readonly snapshot: InstanceSnapshot; readonly etag: readonly unknown[] } {
    this.#context.require(project, name);
    const entry = this.#context.snapshot(project, name, snapshot);
    return { snapshot: this.#render(entry.value, entry.revision).value, etag: etagOf(entry.value) };
  }

  #render(
    record: InstanceSnapshotRecord,
    revision: number,
  ): { readonly value: InstanceSnapshot; readonly text: string } {
    const stamp = `${revision}.${this.#context.deps.collections.profiles.revision}`;
    const id = `${idOf(record.project, record.instance)}/${record.name}`;
    return this.#texts.get(id, stamp, () => renderSnapshot(record, this.#context.expand(record)));
  }

  create(project: string, name: string, body: InstanceSnapshotsPost, request: ChangeRequest = {}): StartedOperation {
    const record = this.#context.require(project, name, request.type);
    const wanted = body.name ?? '';
    checkSnapshotName(wanted);
    this.#context.deps.guard.checkSnapshot(project);
    return this.#context.deps.operations.start({
      class: 'task',
      project,
      description: 'Snapshotting instance',
      resources: this.#context.resources(project, name),
      locks: [this.#context.lock(record)],
      run: async () => {
        const current = this.#context.require(project, name);
        if (body.stateful === true) throw this.#noState(current);
        await this.take(current, { name: wanted, expiresAt: body.expires_at, by: request });
      },
    });
  }

  #noState(record: InstanceRecord): Error {
    return errors.badRequest(
      this.#context.isRunning(record)
        ? 'A stateful snapshot is not supported: this server cannot checkpoint containers'
        : "Unable to create a stateful snapshot. The instance isn't running",
    );
  }

  /** The instance must be locked. Returns the snapshot's name. */
  async take(
    record: InstanceRecord,
    wanted: { readonly name: string; readonly expiresAt?: string | undefined; readonly by?: ChangeRequest },
  ): Promise<string> {
    const { deps } = this.#context;
    const { snapshots, metadata } = deps.collections;
    const effective = this.#context.expand(record);
    const existing = this.#context.snapshotsOf(record.project, record.name).map(({ value }) => value.name);
    const now = new Date(deps.now());
    const name =
      wanted.name === '' ? nextSnapshotName(effective.config['snapshots.pattern'], existing, now) : wanted.name;
    checkSnapshotName(name.replaceAll('/', '')); // what a pattern made; slashes are told below
    const id = `${idOf(record.project, record.name)}/${name}`;
    const failure = `Failed creating instance snapshot record "${name}": `;
    if (/[ /]/.test(name))
      throw errors.badRequest(`${failure}Invalid instance snapshot name: Cannot contain space or / characters`);
    if (snapshots.get(id) !== undefined)
      throw errors.badRequest(`${failure}This "instances_snapshots" entry already exists`);
    const root = this.#context.rootVolume(record, effective);
    const expiry =
      wanted.expiresAt ?? expiresAt(effective.config['snapshots.expiry'] ?? '', now)?.toISOString() ?? NO_EXPIRY;
    const data: SnapshotIntent = { project: record.project, name: record.name, snapshot: name, root };
    const intent = await deps.intents.begin(INTENTS.snapshotCreate, data);
    await using undo = new UndoStack((error) =>
      deps.log.error('Undoing a snapshot failed', { instance: record.name, error }),
    );
    undo.add(() => deps.intents.end(intent));
    undo.add(() => deps.storage.deleteSnapshot(root, name));
    await deps.storage.snapshot(root, name, { running: this.#context.isRunning(record), expiresAt: expiry });
    const { name: instance, ...rest } = record;
    const snapshot: InstanceSnapshotRecord = {
      ...rest,
      instance,
      name,
      createdAt: now.toISOString(),
      lastUsedAt: NO_EXPIRY,
      expiresAt: expiry,
      size: -1,
    };
    const known = metadata.get(idOf(record.project, record.name))?.value;
    await deps.intents.end(intent, [
      snapshots.put(id, snapshot),
      ...(known === undefined ? [] : [metadata.put(id, known)]),
    ]);
    undo.commit();
    this.#context.lifecycle('instance-snapshot-created', record, wanted.by, { below: `/snapshots/${name}` });
    return name;
  }

  /** `PUT` and `PATCH`: only the expiry can change. */
  change(at: SnapshotPlace, body: InstanceSnapshotPut, request: ChangeRequest = {}): StartedOperation {
    const { project, name, snapshot } = at;
    const record = this.#context.require(project, name);
    const { value } = this.#context.snapshot(project, name, snapshot);
    request.precondition?.(etagOf(value));
    const wanted = body.expires_at;
    return this.#context.deps.operations.start({
      class: 'task',
      project,
      description: 'Updating snapshot',
      resources: this.#context.resources(project, snapshot),
      run: async () => {
        if (wanted === undefined) return;
        await this.#context.deps.collections.snapshots.update(`${idOf(project, name)}/${snapshot}`, (current) => ({
          ...current,
          expiresAt: wanted,
        }));
        this.#context.lifecycle('instance-snapshot-updated', record, request, { below: `/snapshots/${snapshot}` });
      },
    });
  }

  rename(at: SnapshotPlace, newName: string, request: ChangeRequest = {}): StartedOperation {
    const { project, name, snapshot } = at;
    const record = this.#context.require(project, name);
    this.#context.snapshot(project, name, snapshot);
    if (newName === '') throw errors.badRequest('The request is missing `name`');
    checkSnapshotName(newName);
    const { snapshots } = this.#context.deps.collections;
    const id = (of: string): string => `${idOf(project, name)}/${of}`;
    if (snapshots.get(id(newName)) !== undefined) throw errors.conflict(`Name '${name}/${newName}' already in use`);
    return this.#context.deps.operations.start({
      class: 'task',
      project,
      description: 'Renaming snapshot',
      resources: this.#context.resources(project, name),
      locks: [this.#context.lock(record)],
      run: async () => {
        await this.#rename(this.#context.require(project, name), snapshot, newName);
        this.#context.lifecycle('instance-snapshot-renamed', record, request, {
          below: `/snapshots/${newName}`,
          context: { old_name: snapshot },
        });
      },
    });
  }

  async #rename(record: InstanceRecord, snapshot: string, newName: string): Promise<void> {
    const { deps } = this.#context;
    const { snapshots, metadata } = deps.collections;
    const base = idOf(record.project, record.name);
    const { value } = this.#context.snapshot(record.project, record.name, snapshot);
    const root = this.#context.rootVolume(record);
    const data: SnapshotRenameIntent = { project: record.project, name: record.name, snapshot, newName, root };
    const intent = await deps.intents.begin(INTENTS.snapshotRename, data);
    await using undo = new UndoStack();
    undo.add(() => deps.intents.end(intent));
    await deps.storage.renameSnapshot(root, snapshot, newName);
    undo.add(() => deps.storage.renameSnapshot(root, newName, snapshot));
    const known = metadata.get(`${base}/${snapshot}`)?.value;
    await deps.intents.end(intent, [
      snapshots.remove(`${base}/${snapshot}`),
      snapshots.put(`${base}/${newName}`, { ...value, name: newName }),
      metadata.remove(`${base}/${snapshot}`),
      ...(known === undefined ? [] : [metadata.put(`${base}/${newName}`, known)]),
    ]);
    undo.commit();
  }

  delete(project: string, name: string, snapshot: string, request: ChangeRequest = {}): StartedOperation {
    const record = this.#context.require(project, name);
    this.#context.snapshot(project, name, snapshot);
    return this.#context.deps.operations.start({
      class: 'task',
      project,
      description: 'Deleting snapshot',
      resources: this.#context.resources(project, name),
      locks: [this.#context.lock(record)],
      run: () => this.remove(this.#context.require(project, name), snapshot, request),
    });
  }

  /** The instance must be locked. */
  async remove(record: InstanceRecord, snapshot: string, request: ChangeRequest = {}): Promise<void> {
    const { deps } = this.#context;
    const root = this.#context.rootVolume(record);
    const data: SnapshotIntent = { project: record.project, name: record.name, snapshot, root };
    const intent = await deps.intents.begin(INTENTS.snapshotDelete, data);
    await deps.storage.deleteSnapshot(root, snapshot);
    await deps.intents.end(intent, this.#removal(data));
    this.#context.lifecycle('instance-snapshot-deleted', record, request, { below: `/snapshots/${snapshot}` });
  }

  #removal({ project, name, snapshot }: SnapshotIntent) {
    const { snapshots, metadata } = this.#context.deps.collections;
    const id = `${idOf(project, name)}/${snapshot}`;
    return [snapshots.remove(id), metadata.remove(id)];
  }

  /**
   * `PUT /1.0/instances/<name>` with `restore`: the snapshot's name, alone or behind the instance's (`c1/snap0`, as
   * lxc sends it). A running instance is stopped for it and started again.
   */
  restore(project: string, name: string, wanted: string, request: ChangeRequest = {}): StartedOperation {
    const record = this.#context.require(project, name, request.type);
    const snapshot = wanted.startsWith(`${name}/`) ? wanted.slice(name.length + 1) : wanted;
    return this.#context.deps.operations.start({
      class: 'task',
      project,
      description: 'Restoring snapshot',
      resources: this.#context.resources(project, name),
      locks: [this.#context.lock(record)],
      run: async ({ signal }) => {
        const current = this.#context.require(project, name);
        const found = this.#context.deps.collections.snapshots.get(`${idOf(project, name)}/${snapshot}`)?.value;
        if (found === undefined) throw errors.badRequest(`Snapshot ${name}/${snapshot} does not exist`);
        const running = this.#context.isRunning(current);
        if (running)
          await this.#runner.apply(
            current,
            { action: 'stop', force: true, stateful: false, timeout: 0, keep: true },
            request,
            signal,
          );
        await this.#restore(this.#context.require(project, name), found).catch(async (error: unknown) => {
          // It is as it was: a refused restore must not cost the guest its run.
          if (running) await this.#starter.start(this.#context.require(project, name), signal).catch(() => undefined);
          throw error;
        });
        const context = { snapshot: `${name}/${snapshot}` };
        this.#context.lifecycle('instance-restored', record, request, { context });
        if (!running) return;
        await this.#starter.start(this.#context.require(project, name), signal);
        this.#context.lifecycle('instance-started', record, request);
      },
    });
  }

  async #restore(record: InstanceRecord, snapshot: InstanceSnapshotRecord): Promise<void> {
    const { deps } = this.#context;
    const { instances, metadata } = deps.collections;
    const id = idOf(record.project, record.name);
    // A snapshot may hold what the project has since forbidden.
    deps.guard.checkInstance({
      ...record,
      config: snapshot.config,
      devices: snapshot.devices,
      profiles: snapshot.profiles,
    });
    const gone = await deps.storage.restoreSnapshot(this.#context.rootVolume(record), snapshot.name);
    const removed = gone.flatMap((name) => [
      deps.collections.snapshots.remove(`${id}/${name}`),
      metadata.remove(`${id}/${name}`),
    ]);
    if (removed.length > 0) await deps.ledger.transact([], removed);
    await instances.update(id, (current) => ({
      ...current,
      architecture: snapshot.architecture,
      config: restoredConfig(current.config, snapshot.config),
      description: snapshot.description,
      devices: snapshot.devices,
      ephemeral: snapshot.ephemeral,
      profiles: snapshot.profiles,
      lastUsedAt: current.lastUsedAt === '' ? NEVER_USED : current.lastUsedAt,
    }));
    const known = metadata.get(`${id}/${snapshot.name}`)?.value;
    if (known !== undefined) await deps.ledger.transact([], [metadata.put(id, known)]);
  }
}

/** The snapshot's config; what tells the state of the host stays as it is. */
function restoredConfig(
  current: Readonly<Record<string, string>>,
  snapshot: Readonly<Record<string, string>>,
): Record<string, string> {
  const result: Record<string, string> = { ...snapshot };
  for (const key of Object.keys(result)) {
    if (/^volatile\..+\.host_name$/.test(key)) delete result[key];
  }
  for (const key of [
    'volatile.last_state.power',
    'volatile.uuid',
    'volatile.idmap.base',
    'volatile.idmap.next',
    'volatile.idmap.current',
    'volatile.last_state.idmap',
  ]) {
    const value = current[key];
    if (value === undefined) delete result[key];
    else result[key] = value;
  }
  return result;
}

function etagOf(record: InstanceSnapshotRecord): readonly unknown[] {
  return [record.expiresAt];
}
