import { storageDrivers, storageVolumeConfig, validateConfig } from '@keelson/api';
import type { Clock } from '../../core/clock.ts';
import { errors } from '../../core/errors.ts';
import type { Ids } from '../../core/ids.ts';
import type { Log } from '../../core/log.ts';
import type { StoragePool, VolumeRef } from '../../drivers/storage/contract.ts';
import type { ContentType } from '../../drivers/storage/types.ts';
import type { Collection, Ledger } from '../../state/collection.ts';
import type { InstanceRecord } from '../../state/records/instance.ts';
import type { ProfileRecord } from '../../state/records/profile.ts';
import type { ProjectRecord } from '../../state/records/project.ts';
import type {
  StorageVolumeBackupRecord,
  StorageVolumeRecord,
  StorageVolumeSnapshotRecord,
} from '../../state/records/storage.ts';
import type { Events, Lifecycle } from '../events/contract.ts';
import type { Intents } from '../intents/contract.ts';
import type { Operations } from '../operations/contract.ts';
import type { ProjectGuard } from '../projects/contract.ts';
import { DEFAULT_PROJECT, effectiveProject } from '../projects/scope.ts';
import type { ChangeOptions, VolumeAddress } from './contract.ts';
import type { LivePools } from './live-pools.ts';
import type { StorageUsage } from './usage.ts';
import { parseVolumeType, refOf, snapshotId, snapshotPrefix, type VolumeId, volumeId } from './volume-names.ts';

export interface VolumeDeps {
  readonly ledger: Ledger;
  readonly volumes: Collection<StorageVolumeRecord>;
  readonly snapshots: Collection<StorageVolumeSnapshotRecord>;
  readonly backups: Collection<StorageVolumeBackupRecord>;
  readonly instances: Collection<InstanceRecord>;
  readonly profiles: Collection<ProfileRecord>;
  readonly projects: Collection<ProjectRecord>;
  readonly live: LivePools;
  readonly usage: StorageUsage;
  readonly operations: Operations;
  readonly intents: Intents;
  readonly events: Events;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  readonly isRunning: (instance: InstanceRecord) => boolean;
  /** Limits and restrictions of projects. */
  readonly guard: Pick<ProjectGuard, 'checkVolume' | 'checkSnapshot' | 'checkBackup'>;
}

/** Data of the intents `storage-volume-snapshot-create` and `-delete`, which the snapshot service finishes or undoes. */
export interface SnapshotIntent {
  readonly record: StorageVolumeSnapshotRecord;
}

/** What the parts of the volume service share: finding records, checking, announcing. */
export class VolumeContext {
  readonly deps: VolumeDeps;

  constructor(deps: VolumeDeps) {
    this.deps = deps;
  }

  /** @throws not-found with LXD's text: a project that is not there must not stand for `default`. */
  requireProject(name: string): void {
    if (this.deps.projects.get(name) === undefined)
      throw errors.notFound(`Failed loading project "${name}": Project not found`);
  }

  /** Where the volume's record is; it need not exist. @throws not-found for the pool, bad-request for the type. */
  idOf(address: VolumeAddress): VolumeId {
    this.deps.live.record(address.pool);
    const type = parseVolumeType(address.type);
    return { pool: address.pool, project: this.home(address.project, type), type, name: address.name };
  }

  /** The project that holds volumes of `type` for `project`. */
  home(project: string, type: VolumeId['type']): string {
    if (type === 'image') return DEFAULT_PROJECT;
    return type === 'custom' ? effectiveProject(this.deps.projects, project, 'storage.volumes') : project;
  }

  /** @throws not-found with LXD's text. */
  find(address: VolumeAddress): StorageVolumeRecord {
    return this.require(this.idOf(address));
  }

  require(id: VolumeId): StorageVolumeRecord {
    const entry = this.deps.volumes.get(volumeId(id));
    if (entry === undefined) throw errors.notFound('Storage pool volume not found');
    return entry.value;
  }

  /** As `find`, for what only custom volumes have. @throws bad-request. */
  findCustom(address: VolumeAddress, what: string): StorageVolumeRecord {
    const record = this.find(address);
    if (record.type !== 'custom')
      throw errors.badRequest(`${what} of volumes of type "${record.type}" cannot be changed here`);
    return record;
  }

  /** Oldest first. */
  snapshotsOf(id: VolumeId): readonly StorageVolumeSnapshotRecord[] {
    const found = this.deps.snapshots.list(snapshotPrefix(id)).map(({ value }) => value);
    return found.toSorted((a, b) =>
      a.createdAt === b.createdAt ? compare(a.name, b.name) : compare(a.createdAt, b.createdAt),
    );
  }

  /** @throws not-found with LXD's text. */
  findSnapshot(id: VolumeId, name: string): StorageVolumeSnapshotRecord {
    const entry = this.deps.snapshots.get(snapshotId({ ...id, volume: id.name, name }));
    if (entry === undefined) throw errors.notFound('Storage pool volume not found');
    return entry.value;
  }

  /** Makes a snapshot's content with `make` and records it, both or neither. */
  async keepSnapshot(
    volume: StorageVolumeRecord,
    record: StorageVolumeSnapshotRecord,
    make: () => Promise<void>,
  ): Promise<void> {
    const { intents, snapshots } = this.deps;
    const intent = await intents.begin<SnapshotIntent>('storage-volume-snapshot-create', { record });
    let made = false;
    try {
      await make();
      made = true;
      await intents.end(intent, [snapshots.put(snapshotId(record), record)]);
    } catch (error) {
      // What is there under a name that was taken is not ours.
      if (made) {
        const { pool, ref } = await this.open(volume);
        await pool.snapshots.delete(ref, record.name);
      }
      await intents.end(intent);
      throw error;
    }
  }

  /** Removes a snapshot's content and its record; a crash in between is finished at the next start. */
  async dropSnapshot(volume: StorageVolumeRecord, record: StorageVolumeSnapshotRecord): Promise<void> {
    const { intents, snapshots } = this.deps;
    const intent = await intents.begin<SnapshotIntent>('storage-volume-snapshot-delete', { record });
    try {
      const { pool, ref } = await this.open(volume);
      await pool.snapshots.delete(ref, record.name);
      await intents.end(intent, [snapshots.remove(snapshotId(record))]);
    } catch (error) {
      await intents.end(intent);
      throw error;
    }
  }

  async open(record: StorageVolumeRecord): Promise<{ pool: StoragePool; ref: VolumeRef }> {
    return { pool: await this.deps.live.use(record.pool), ref: refOf(record) };
  }

  lock(id: VolumeId): string {
    return `storage-volume/${volumeId(id)}`;
  }

  /** Alone on the volume among requests and operations. */
  exclusive<T>(id: VolumeId, work: () => Promise<T>): Promise<T> {
    return this.deps.operations.exclusive([this.lock(id)], work);
  }

  /** @throws bad-request with `message` while an instance that runs has the volume attached. */
  assertIdle(id: VolumeId, message: string): void {
    if (this.deps.usage.instancesOf(id).some(this.deps.isRunning)) throw errors.badRequest(message);
  }

  /** @throws bad-request with `message` when the server keeps something of its own on the volume. */
  assertNotServers(id: VolumeId, message: string): void {
    if (this.deps.usage.isServers(id)) throw errors.badRequest(message);
  }

  isRunning(id: VolumeId): boolean {
    return this.deps.usage.instancesOf(id).some(this.deps.isRunning);
  }

  /** @throws bad-request with LXD's text, naming the key. */
  checkConfig(id: VolumeId & { readonly contentType?: ContentType }, config: Readonly<Record<string, string>>): void {
    const { driver } = this.deps.live.record(id.pool);
    const known = storageDrivers.find((name) => name === driver);
    if (known === undefined) throw errors.badRequest('Unknown driver');
    const name = id.type === 'custom' ? `${id.project}_${id.name}` : id.name;
    const [problem] = validateConfig(storageVolumeConfig(known), config, { name });
    if (problem !== undefined) throw errors.badRequest(problem.message);
    if (id.type !== 'custom' || id.contentType === 'block') checkUnmapped(name, config);
    if (config['security.shifted'] === 'true' && config['security.unmapped'] === 'true') {
      throw errors.badRequest('security.unmapped and security.shifted are mutually exclusive');
    }
  }

  announce(
    action: string,
    project: string,
    source: string,
    details: ChangeOptions & Pick<Lifecycle, 'context'> = {},
  ): void {
    const { requestor, context } = details;
    this.deps.events.lifecycle(project, {
      action,
      source,
      ...(requestor === undefined ? {} : { requestor }),
      ...(context === undefined ? {} : { context }),
    });
  }
}

/** The ids of custom file systems alone are mapped. @throws bad-request with LXD's text. */
function checkUnmapped(name: string, config: Readonly<Record<string, string>>): void {
  const key = ['security.shifted', 'security.unmapped'].find((one) => (config[one] ?? '') !== '');
  if (key !== undefined) throw errors.badRequest(`Invalid option for volume "${name}" option "${key}"`);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** An empty value means: not set. */
export function cleanConfig(config: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(config).filter(([, value]) => value !== ''));
}
