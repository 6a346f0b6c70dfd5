import { names, type StorageVolumePost, type StorageVolumesPost } from '@keelson/api';
import { timestamp, zeroTime } from '../../core/clock.ts';
import { errors } from '../../core/errors.ts';
import type { StorageVolumeRecord, StorageVolumeSnapshotRecord } from '../../state/records/storage.ts';
import type { DataChannel } from '../migration/channels.ts';
import type { Migrations } from '../migration/migrations.ts';
import type { Peer } from '../migration/peer.ts';
import { type Delivery, runSource, runTarget } from '../migration/session.ts';
import { fallbackOf, knownOf, waysOf } from '../migration/ways.ts';
import type { WireSnapshot } from '../migration/wire/messages.ts';
import type { OperationContext, StartedOperation } from '../operations/contract.ts';
import type { ChangeOptions, Reach, VolumeAddress } from './contract.ts';
import { keysOf } from './volume-config.ts';
import type { VolumeContext } from './volume-context.ts';
import { contentTypeOf, sizeOf, type VolumeCreator } from './volume-creator.ts';
import { checkName, snapshotId, volumeId, volumeUrl } from './volume-names.ts';
import type { VolumeRefresh } from './volume-refresh.ts';

/** A volume that arrives: its record, which is there already when it is refreshed. */
interface Work {
  readonly record: StorageVolumeRecord;
  readonly refresh: boolean;
  readonly options: ChangeOptions & Reach;
}

/** Custom volumes on their way to other servers and from there. */
export class VolumeMigration {
  readonly #context: VolumeContext;
  readonly #creator: VolumeCreator;
  readonly #migrations: Migrations;
  readonly #refresher: VolumeRefresh;

  constructor(
    context: VolumeContext,
    creator: VolumeCreator,
    { migrations, refresher }: { readonly migrations: Migrations; readonly refresher: VolumeRefresh },
  ) {
    this.#context = context;
    this.#creator = creator;
    this.#migrations = migrations;
    this.#refresher = refresher;
  }

  /** `POST …/volumes/custom/<name>` with `migration`; the volume stays as it is. */
  send(address: VolumeAddress, body: StorageVolumePost, options: ChangeOptions & Reach): StartedOperation {
    const record = this.#context.findCustom(address, 'The content');
    const spec = {
      project: address.project,
      description: 'Migrating storage volume',
      resources: { storage_volumes: [volumeUrl(record)] },
      action: 'migrate',
    };
    const work = (peer: Peer, operation: OperationContext): Promise<void> =>
      this.#send(this.#context.require(record), body.volume_only === true, { peer, operation });
    const { target } = body;
    if (target === undefined || target === null) return this.#migrations.waiting(spec, work);
    return this.#migrations.calling(spec, { ...target, mayReach: options.mayFetch !== false }, work);
  }

  /** `POST …/volumes/custom` with a source of type `migration`. @throws what a new volume may not be. */
  receive(address: VolumeAddress, body: StorageVolumesPost, options: ChangeOptions & Reach): StartedOperation {
    const source = body.source ?? {};
    if (source.mode !== 'pull' && source.mode !== 'push')
      throw errors.notImplemented(`Mode '${source.mode ?? ''}' not implemented`);
    const id = this.#context.idOf(address);
    const known = this.#context.deps.volumes.get(volumeId(id))?.value;
    const refresh = source.refresh === true && known !== undefined;
    const record = refresh ? known : this.#draft(address, body);
    if (refresh) this.#checkRefresh(record, body);
    const spec = {
      project: address.project,
      description: source.mode === 'push' ? 'Creating storage volume' : 'Copying storage volume',
      resources: { storage_volumes: [volumeUrl(id)] },
      locks: [this.#context.lock(id)],
      action: 'create',
    };
    const run = (peer: Peer, operation: OperationContext): Promise<void> =>
      this.#take({ record, refresh, options }, peer, operation);
    if (source.mode === 'push') return this.#migrations.waiting(spec, run);
    return this.#migrations.calling(spec, { ...source, mayReach: options.mayFetch !== false }, run);
  }

  #draft(address: VolumeAddress, body: StorageVolumesPost): StorageVolumeRecord {
    const { driver } = this.#context.deps.live.record(address.pool);
    const config = Object.fromEntries(
      Object.entries(keysOf(driver, body.config ?? {})).filter(([key]) => !key.startsWith('volatile.')),
    );
    return this.#creator.draft(address, { ...body, config, contentType: contentTypeOf(body.content_type) });
  }

  #checkRefresh(record: StorageVolumeRecord, body: StorageVolumesPost): void {
    if (record.contentType !== contentTypeOf(body.content_type))
      throw errors.badRequest('Content types of source and target must match');
    this.#context.assertIdle(record, 'Cannot refresh a custom volume used by running instances');
  }

  async #send(
    record: StorageVolumeRecord,
    alone: boolean,
    { peer, operation }: { readonly peer: Peer; readonly operation: OperationContext },
  ): Promise<void> {
    const { pool, ref } = await this.#context.open(record);
    const snapshots = alone ? [] : this.#context.snapshotsOf(record);
    const size = sizeOf(record);
    const shipment = { pool, source: ref, running: this.#context.isRunning(record), beside: () => new Map() };
    const count = this.#migrations.counter(operation, record.name);
    const identities = await pool.transfer?.identities?.(ref);
    await runSource(
      peer,
      {
        types: waysOf(pool, ref, { native: true, trusted: true }),
        fallback: fallbackOf(ref),
        snapshots: snapshots.map((one) => ({ ...toWire(one), identities: identities?.get(one.name) })),
        container: false,
        ...(ref.contentType === 'filesystem' || size === undefined ? {} : { volumeSize: size }),
        index: (wanted) =>
          indexOf(
            record,
            snapshots.filter(({ name }) => wanted.includes(name)),
          ),
        send: (agreement, channel, signal) =>
          this.#migrations.sender.send({ shipment, agreement, channel, signal, count }),
      },
      operation.signal,
    );
  }

  async #take(work: Work, peer: Peer, operation: OperationContext): Promise<void> {
    const { record, refresh } = work;
    const { pool, ref } = await this.#context.open(record);
    const identities = refresh ? await pool.transfer?.identities?.(ref) : undefined;
    const known = (offered: readonly WireSnapshot[]): string[] => knownOf(offered, identities);
    await runTarget(
      peer,
      {
        types: (offer) => {
          const native = !refresh || known(offer.snapshots).length > 0;
          return waysOf(pool, ref, { native, trusted: work.options.mayFetch !== false });
        },
        known,
        fallback: fallbackOf(ref),
        refresh,
        wanted: (offered) => this.#wanted(work, offered),
        receive: (delivery, channel, signal) => this.#arrive(work, delivery, { channel, operation, signal }),
      },
      operation.signal,
    );
    this.#context.announce('storage-volume-created', record.project, volumeUrl(record), {
      ...work.options,
      context: { type: record.type },
    });
  }

  #wanted({ record, refresh }: Work, offered: readonly WireSnapshot[]): readonly WireSnapshot[] {
    for (const { name } of offered) checkName(names.snapshotName, name);
    if (new Set(offered.map(({ name }) => name)).size < offered.length)
      throw errors.badRequest('The other server offers two snapshots of one name');
    if (offered.length > 0) this.#context.deps.guard.checkSnapshot(record.project);
    if (!refresh) return offered;
    const known = new Set(this.#context.snapshotsOf(record).map(({ name }) => name));
    return offered.filter(({ name }) => !known.has(name));
  }

  async #arrive(
    { record, refresh }: Work,
    delivery: Delivery,
    {
      channel,
      operation,
      signal,
    }: {
      readonly channel: DataChannel;
      readonly operation: OperationContext;
      readonly signal: AbortSignal;
    },
  ): Promise<void> {
    const { pool, ref } = await this.#context.open(record);
    const { config } = record;
    const options = { idRange: undefined, clone: 'auto', nesting: false, config } as const;
    const count = this.#migrations.counter(operation, record.name);
    const landing = { pool, target: ref, options, exists: refresh };
    const take = async (): Promise<void> => {
      await this.#migrations.receiver.receive({ landing, delivery, channel, signal, count });
    };
    const { snapshots } = this.#context.deps;
    const added = delivery.snapshots.map((one) => this.#snapshot(record, one, delivery.index));
    if (refresh) {
      const offered = new Set(delivery.offered.map(({ name }) => name));
      const gone = this.#context.snapshotsOf(record).filter(({ name }) => !offered.has(name));
      return this.#refresher.run(record, { added, gone }, take);
    }
    const make = async (): Promise<void> => {
      await take();
      const size = sizeOf(record);
      if (size !== undefined && record.contentType === 'filesystem') await pool.quota?.set(ref, size, { config });
      signal.throwIfAborted();
    };
    await this.#creator.make(record, make, () => added.map((one) => snapshots.put(snapshotId(one), one)));
  }

  /** What the description says of a snapshot; names alone travel in the header. */
  #snapshot(record: StorageVolumeRecord, { name }: WireSnapshot, index: unknown): StorageVolumeSnapshotRecord {
    const found = described(index).find((one) => one['name'] === name) ?? {};
    const text = (key: string): string => (typeof found[key] === 'string' ? found[key] : '');
    const now = timestamp(this.#context.deps.clock);
    const { name: volume, ...rest } = record;
    return {
      ...rest,
      volume,
      name,
      description: text('description'),
      createdAt: dateIn(text('created_at')) ?? now,
      expiresAt: dateIn(text('expires_at')) ?? zeroTime,
    };
  }
}

function toWire({ name, config }: StorageVolumeSnapshotRecord): WireSnapshot {
  const nothing = { profiles: [], ephemeral: false, devices: {}, architecture: 0, stateful: false };
  return { ...nothing, name, config, createdAt: 0, lastUsedAt: 0, expiresAt: 0 };
}

/** The description that goes before the content, with the names LXD gives its members. */
function indexOf(record: StorageVolumeRecord, snapshots: readonly StorageVolumeSnapshotRecord[]): object {
  const shared = ({ config, description, contentType }: StorageVolumeSnapshotRecord | StorageVolumeRecord) => ({
    config,
    description,
    content_type: contentType,
  });
  return {
    config: {
      Volume: {
        ...shared(record),
        name: record.name,
        type: record.type,
        used_by: [],
        location: 'none',
        project: record.project,
        created_at: record.createdAt,
      },
      VolumeSnapshots: snapshots.map((one) => ({
        ...shared(one),
        name: one.name,
        expires_at: one.expiresAt === zeroTime ? null : one.expiresAt,
        created_at: one.createdAt,
      })),
    },
  };
}

/** Descriptions of snapshots in what another server sent. */
function described(index: unknown): Record<string, unknown>[] {
  const config = memberOf(memberOf(index, 'config'), 'VolumeSnapshots');
  return Array.isArray(config)
    ? config.filter((one): one is Record<string, unknown> => typeof one === 'object' && one !== null)
    : [];
}

function memberOf(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : undefined;
}

function dateIn(text: string): string | undefined {
  const time = Date.parse(text);
  return Number.isNaN(time) || time <= 0 ? undefined : new Date(time).toISOString();
}
