import { parseSize } from '@keelson/api';
import type { StorageVolumePut, StorageVolumesPost, StorageVolumeSource } from '@keelson/api';
import { timestamp } from '../../core/clock.ts';
import { errors } from '../../core/errors.ts';
import type { ProgressOptions, SnapshotRef, VolumeRef } from '../../drivers/storage/contract.ts';
import type { ContentType, StorageVolumeRecord, StorageVolumeSnapshotRecord } from '../../state/records/storage.ts';
import type { Write } from '../../state/store.ts';
import type { OperationContext, StartedOperation } from '../operations/contract.ts';
import type { ChangeOptions, VolumeAddress } from './contract.ts';
import { keysOf, volumeDefaults } from './volume-config.ts';
import { cleanConfig, type VolumeContext } from './volume-context.ts';
import type { VolumeCopier } from './volume-copier.ts';
import { refOf, snapshotId, type VolumeId, volumeId, volumeUrl } from './volume-names.ts';
import type { VolumeRefresh } from './volume-refresh.ts';

const DEFAULT_BLOCK_SIZE = 10 * 1024 ** 3;

/** What a new volume is to hold, found and checked. */
interface CopyPlan {
  readonly source: StorageVolumeRecord;
  /** Copy this snapshot, not the present state. */
  readonly snapshot: string | undefined;
  readonly snapshots: readonly StorageVolumeSnapshotRecord[];
}

/** Makes custom volumes: empty, or as copies. */
export class VolumeCreator {
  readonly #context: VolumeContext;
  readonly #copier: VolumeCopier;
  readonly #refresher: VolumeRefresh;

  constructor(
    context: VolumeContext,
    { copier, refresher }: { readonly copier: VolumeCopier; readonly refresher: VolumeRefresh },
  ) {
    this.#context = context;
    this.#copier = copier;
    this.#refresher = refresher;
    context.deps.intents.handle<VolumeRecordIntent>('storage-volume-create', async ({ data }) =>
      this.undo(data.record),
    );
  }

  async createEmpty(address: VolumeAddress, body: StorageVolumesPost, options: ChangeOptions): Promise<void> {
    const record = this.draft(address, { ...body, contentType: contentTypeOf(body.content_type) });
    await this.#context.exclusive(record, () =>
      this.make(record, async () => {
        const { pool, ref } = await this.#context.open(record);
        const size = sizeOf(record);
        const { config } = record;
        const block = record.contentType === 'filesystem' ? {} : { size: size ?? DEFAULT_BLOCK_SIZE };
        await pool.volumes.create(ref, { ...block, config });
        if (record.contentType === 'filesystem' && size !== undefined) await pool.quota?.set(ref, size, { config });
      }),
    );
    this.#announce(record, options);
  }

  copy(address: VolumeAddress, body: StorageVolumesPost, options: ChangeOptions): StartedOperation {
    const source: StorageVolumeSource = body.source ?? {};
    const target = this.#context.idOf(address);
    const refresh = source.refresh === true && this.#context.deps.volumes.get(volumeId(target)) !== undefined;
    if ((source.name ?? '') === '') throw errors.badRequest('No source volume name supplied');
    if (!refresh) this.assertAbsent(target);
    return this.#context.deps.operations.start({
      class: 'task',
      project: target.project,
      description: 'Copying storage volume',
      resources: {},
      locks: [this.#context.lock(target)],
      shared: [this.#context.lock(this.#sourceOf(address, source))],
      mayCancel: true,
      run: async (operation) => {
        const plan = this.#plan(address, source);
        if (refresh) await this.#refresh(target, plan, operation);
        else await this.copyTo(this.#copiedRecord(address, plan, body), plan, operation);
        this.#announce(target, options);
      },
    });
  }

  /** Copies into a volume that does not exist yet, records included; `more` goes into the transaction that shows it. */
  async copyTo(
    record: StorageVolumeRecord,
    plan: CopyPlan,
    operation: Pick<OperationContext, 'signal' | 'progress'>,
    more: () => readonly Write[] = () => [],
  ): Promise<void> {
    const snapshots = plan.snapshots.map((one) => ({
      ...one,
      pool: record.pool,
      project: record.project,
      volume: record.name,
    }));
    const writes = snapshots.map((one) => this.#context.deps.snapshots.put(snapshotId(one), one));
    const work = async () => {
      const { pool: to, ref: target } = await this.#context.open(record);
      const { pool: from, ref } = await this.#context.open(plan.source);
      const source: VolumeRef | SnapshotRef = plan.snapshot === undefined ? ref : { ...ref, snapshot: plan.snapshot };
      const names = plan.snapshots.map(({ name }) => name);
      const live = this.#context.isRunning(plan.source);
      const { config } = record;
      const how = { ...progressOf(operation, plan.source), live, config };
      await this.#copier.copy({ from, source, to, target, snapshots: names }, how);
      const size = sizeOf(record);
      if (size !== undefined && record.contentType === 'filesystem') await to.quota?.set(target, size, { config });
    };
    await this.make(record, work, () => [...more(), ...writes]);
  }

  /** The record a request asks for, with the pool's defaults under what it sets. @throws bad-request, conflict. */
  draft(address: VolumeAddress, body: StorageVolumePut & { readonly contentType: ContentType }): StorageVolumeRecord {
    const id = this.#context.idOf(address);
    const asked = this.withDefaults(id, body.config ?? {}, body.contentType);
    this.#context.checkConfig({ ...id, contentType: body.contentType }, asked);
    const config = cleanConfig(asked);
    this.assertAbsent(id);
    this.#context.deps.guard.checkVolume(id.project, { ...id, size: sizeOf({ config }) });
    const { description = '', contentType } = body;
    return { ...id, contentType, description, config, createdAt: timestamp(this.#context.deps.clock) };
  }

  /** Does `work` under an intent and records the volume; takes all back when it fails. */
  async make(
    record: StorageVolumeRecord,
    work: () => Promise<void>,
    more: () => readonly Write[] = () => [],
  ): Promise<void> {
    this.assertAbsent(record);
    const { intents, volumes } = this.#context.deps;
    const intent = await intents.begin<VolumeRecordIntent>('storage-volume-create', { record });
    try {
      await work();
      await intents.end(intent, [volumes.put(volumeId(record), record), ...more()]);
    } catch (error) {
      await this.undo(record);
      await intents.end(intent);
      throw error;
    }
  }

  assertAbsent(id: VolumeId): void {
    if (this.#context.deps.volumes.get(volumeId(id)) !== undefined)
      throw errors.conflict('Volume by that name already exists');
  }

  async undo(record: StorageVolumeRecord): Promise<void> {
    if (this.#context.deps.volumes.get(volumeId(record)) !== undefined) return;
    const { pool, ref } = await this.#context.open(record);
    await pool.volumes.delete(ref);
  }

  withDefaults(
    id: VolumeId,
    config: Readonly<Record<string, string>>,
    contentType: ContentType,
  ): Record<string, string> {
    return { ...volumeDefaults(this.#context.deps.live.record(id.pool), contentType), ...config };
  }

  /** The volume a source names, with or without a snapshot. */
  #sourceOf(address: VolumeAddress, { name = '', pool, project }: StorageVolumeSource): VolumeId {
    const home = this.#context.home(project || address.project, 'custom');
    return { pool: pool || address.pool, project: home, type: 'custom', name: name.split('/')[0] ?? '' };
  }

  /** @throws not-found with LXD's text. */
  #plan(address: VolumeAddress, source: StorageVolumeSource): CopyPlan {
    const [name = '', snapshot] = (source.name ?? '').split('/');
    this.#context.requireProject(source.project || address.project);
    const id = this.#sourceOf(address, source);
    this.#context.deps.live.record(id.pool);
    const record = this.#context.deps.volumes.get(volumeId(id))?.value;
    const missing = (what: string) =>
      errors.notFound(
        `Failed generating volume copy config: Storage volume "${what}" in project "${id.project}" of type "custom" does not exist on pool "${id.pool}": Storage volume not found`,
      );
    if (record === undefined) throw missing(name);
    const all = this.#context.snapshotsOf(id);
    if (snapshot !== undefined && !all.some((one) => one.name === snapshot)) throw missing(`${name}/${snapshot}`);
    const snapshots = snapshot !== undefined || source.volume_only === true ? [] : all;
    return { source: record, snapshot, snapshots };
  }

  /** What the request does not say comes from what is copied; config as a whole, as with LXD. */
  #copiedRecord(address: VolumeAddress, plan: CopyPlan, body: StorageVolumesPost): StorageVolumeRecord {
    const { source, snapshot } = plan;
    const from = snapshot === undefined ? source : this.#context.findSnapshot(source, snapshot);
    const given = body.config ?? keysOf(this.#context.deps.live.record(address.pool).driver, from.config);
    const config = Object.fromEntries(Object.entries(given).filter(([key]) => !key.startsWith('volatile.')));
    const description = body.description || from.description;
    return this.draft(address, { config, description, contentType: plan.source.contentType });
  }

  async #refresh(target: VolumeId, plan: CopyPlan, operation: OperationContext): Promise<void> {
    const record = this.#context.require(target);
    if (record.contentType !== plan.source.contentType)
      throw errors.badRequest('Content types of source and target must match');
    this.#context.assertIdle(target, 'Cannot refresh a custom volume used by running instances');
    const { pool: from, ref: sourceRef } = await this.#context.open(plan.source);
    const known = this.#context.snapshotsOf(target);
    const wanted = plan.snapshots.filter((one) => !known.some(({ name }) => name === one.name));
    const surplus =
      plan.snapshots.length === 0 ? [] : known.filter((one) => !plan.snapshots.some(({ name }) => name === one.name));
    const source = plan.snapshot === undefined ? sourceRef : { ...sourceRef, snapshot: plan.snapshot };
    const added = wanted.map((one) => ({ ...one, pool: target.pool, project: target.project, volume: target.name }));
    await this.#refresher.run(record, { added, gone: surplus }, (to, ref) =>
      this.#copier.refresh(
        { from, source, to, target: ref, snapshots: wanted.map(({ name }) => name) },
        { ...progressOf(operation, plan.source), config: record.config },
      ),
    );
  }

  #announce(id: VolumeId, options: ChangeOptions): void {
    this.#context.announce('storage-volume-created', id.project, volumeUrl(id), {
      ...options,
      context: { type: id.type },
    });
  }
}

interface VolumeRecordIntent {
  readonly record: StorageVolumeRecord;
}

/** Progress of a copy as LXD shows it: `fs_progress: default_v: 37.55MB (37.50MB/s)`. */
function progressOf(
  { signal, progress }: Pick<OperationContext, 'signal' | 'progress'>,
  source: StorageVolumeRecord,
): Required<ProgressOptions> {
  const label = refOf(source).name;
  return { signal, onProgress: ({ stage, ...done }) => progress(stage, { ...done, label }) };
}

/** @throws bad-request with LXD's text. */
export function contentTypeOf(text: string | undefined): ContentType {
  if (text === undefined || text === '' || text === 'filesystem') return 'filesystem';
  if (text === 'block') return 'block';
  throw errors.badRequest('Invalid volume content type name');
}

/** Bytes of the volume's `size`; undefined without one. */
export function sizeOf(record: Pick<StorageVolumeRecord, 'config'>): number | undefined {
  const size = parseSize(record.config['size'] ?? '');
  return size.ok && size.value > 0 ? size.value : undefined;
}
