import type { InstanceSource } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import type { InstanceRecord, InstanceSnapshotRecord } from '../../state/records/instance.ts';
import type { Write } from '../../state/store.ts';
import type { OperationContext, StartedOperation } from '../operations/contract.ts';
import { type By, type InstanceContext, idOf } from './context.ts';
import type { CopyRefresh } from './copy-refresh.ts';
import type { InstanceCreator, Target } from './creator.ts';
import { progressOf } from './progress.ts';
import { type Draft, draftInstance } from './draft.ts';
import type { RootVolume } from './ports.ts';
import { withoutVolatile } from './plan/volatile.ts';

interface Found {
  readonly record: InstanceRecord;
  /** Set when a snapshot is copied instead of the instance itself. */
  readonly snapshot: InstanceSnapshotRecord | undefined;
}

/** New instances from other instances or their snapshots on this server. */
export class CopySource {
  readonly #context: InstanceContext;
  readonly #creator: InstanceCreator;
  readonly #refresher: CopyRefresh;

  constructor(context: InstanceContext, creator: InstanceCreator, refresher: CopyRefresh) {
    this.#context = context;
    this.#creator = creator;
    this.#refresher = refresher;
  }

  /** @throws bad-request without a source, not-found naming it. */
  start(target: Target, source: InstanceSource, by: By): StartedOperation {
    const text = source.source ?? '';
    if (text === '') throw errors.badRequest('Must specify a source instance');
    const project = source.project === undefined || source.project === '' ? target.project : source.project;
    // A project the caller may not use looks as empty.
    if (by.mayUseProject?.(project) === false) throw sourceNotFound(project, text);
    const found = this.#find(project, text);
    const instanceOnly =
      source.instance_only === true || source.container_only === true || found.snapshot !== undefined;
    return this.#creator.start(
      target,
      by,
      async (operation) => {
        const existing = this.#context.find(target.project, target.name);
        if (source.refresh === true && existing !== undefined) {
          await this.#refresh(found, existing, instanceOnly, operation);
          return;
        }
        await this.copy(found, target, { instanceOnly, by }, operation);
      },
      [text],
    );
  }

  async #refresh(
    found: Found,
    target: InstanceRecord,
    instanceOnly: boolean,
    operation: OperationContext,
  ): Promise<void> {
    const snapshots = instanceOnly
      ? []
      : this.#context.snapshotsOf(found.record.project, found.record.name).map(({ value }) => value);
    const known = new Set(this.#context.snapshotsOf(target.project, target.name).map(({ value }) => value.name));
    await this.#refresher.refresh(this.#rootOf(found), snapshots, target, operation);
    this.#context.lifecycle('instance-updated', target);
    for (const { name } of snapshots.filter((one) => !known.has(one.name)))
      this.#context.lifecycle(
        'instance-snapshot-created',
        target,
        {},
        { below: `/snapshots/${encodeURIComponent(name)}` },
      );
  }

  #rootOf({ record, snapshot }: Found): RootVolume & { readonly snapshot?: string } {
    return { ...this.#context.rootVolume(record), ...(snapshot === undefined ? {} : { snapshot: snapshot.name }) };
  }

  async copy(
    found: Found,
    target: Target,
    options: { readonly instanceOnly: boolean; readonly by: By },
    operation: OperationContext,
  ): Promise<void> {
    const { deps } = this.#context;
    const { collections } = deps;
    const from = found.snapshot ?? found.record;
    const sourceId = idOf(found.record.project, found.record.name);
    const metadataId = found.snapshot === undefined ? sourceId : `${sourceId}/${found.snapshot.name}`;
    const metadata = collections.metadata.get(metadataId)?.value;
    const draft = draftInstance(this.#context, {
      ...target,
      architecture: from.architecture,
      sourceConfig: withoutVolatile(from.config),
      sourceDevices: from.devices,
      sourceProfiles: from.profiles,
      ...(metadata === undefined ? {} : { metadata }),
      template: 'copy',
    });
    const snapshots = options.instanceOnly
      ? []
      : this.#context.snapshotsOf(found.record.project, found.record.name).map(({ value }) => value);
    const writes = snapshots.flatMap((snapshot) => this.#snapshotWrites(draft, snapshot, sourceId));
    await this.#creator.make(draft, operation, options.by, {
      writes,
      fill: async ({ record, size }) => {
        const to = this.#context.rootVolume(record);
        await deps.storage.copy(this.#rootOf(found), to, {
          snapshots: snapshots.map(({ name }) => name),
          size,
          ...progressOf(operation, this.#context.ref(found.record).key),
        });
        if (size !== undefined) await deps.storage.resize(to, size);
      },
    });
  }

  #snapshotWrites({ record }: Draft, snapshot: InstanceSnapshotRecord, sourceId: string): Write[] {
    const { snapshots, metadata } = this.#context.deps.collections;
    const id = `${idOf(record.project, record.name)}/${snapshot.name}`;
    const known = metadata.get(`${sourceId}/${snapshot.name}`)?.value;
    const copy: InstanceSnapshotRecord = {
      ...snapshot,
      project: record.project,
      instance: record.name,
      pool: record.pool,
      config: withoutVolatile(snapshot.config),
    };
    return [snapshots.put(id, copy), ...(known === undefined ? [] : [metadata.put(id, known)])];
  }

  #find(project: string, text: string): Found {
    const [name = '', snapshotName, ...rest] = text.split('/');
    const record = rest.length > 0 ? undefined : this.#context.find(project, name);
    const snapshot =
      snapshotName === undefined
        ? undefined
        : this.#context.deps.collections.snapshots.get(`${idOf(project, name)}/${snapshotName}`)?.value;
    if (record === undefined || (snapshotName !== undefined && snapshot === undefined)) {
      throw sourceNotFound(project, text);
    }
    return { record, snapshot };
  }
}

function sourceNotFound(project: string, text: string): Error {
  return errors.notFound(`Failed to fetch instance "${text}" in project "${project}": Instance not found`);
}
