import type { InstanceSource } from '@keelson/api';
import { errors } from '../../../core/errors.ts';
import type { InstanceRecord, InstanceSnapshotRecord } from '../../../state/records/instance.ts';
import type { Write } from '../../../state/store.ts';
import { metadataOf } from '../../migration/beside.ts';
import type { DataChannel } from '../../migration/channels.ts';
import type { Migrations } from '../../migration/migrations.ts';
import type { Peer } from '../../migration/peer.ts';
import type { Arrived } from '../../migration/receiver.ts';
import { type Delivery, runTarget } from '../../migration/session.ts';
import { fallbackOf, knownOf, waysOf } from '../../migration/ways.ts';
import type { WireSnapshot } from '../../migration/wire/messages.ts';
import type { OperationContext, StartedOperation } from '../../operations/contract.ts';
import { ownConfig } from '../backup-import.ts';
import { type By, type InstanceContext, idOf } from '../context.ts';
import type { CopyRefresh } from '../copy-refresh.ts';
import type { InstanceCreator, Target } from '../creator.ts';
import { type Draft, draftInstance, prefixed, RECORD_FAILURE } from '../draft.ts';
import { isRootDisk } from '../plan/expand.ts';
import { checkSnapshotName } from '../plan/names.ts';
import { fromWire, seconds } from './describe.ts';

interface Work {
  readonly target: Target;
  readonly by: By;
  /** Made or brought up to date. */
  readonly draft: Draft;
  /** The instance that is there already and is refreshed. */
  readonly existing: InstanceRecord | undefined;
}

/** Instances that come from other servers: a new one with everything, or what an existing one lacks. */
export class MigrationTarget {
  readonly #context: InstanceContext;
  readonly #creator: InstanceCreator;
  readonly #migrations: Migrations;
  readonly #refresher: CopyRefresh;

  constructor(
    context: InstanceContext,
    creator: InstanceCreator,
    { migrations, refresher }: { readonly migrations: Migrations; readonly refresher: CopyRefresh },
  ) {
    this.#context = context;
    this.#creator = creator;
    this.#migrations = migrations;
    this.#refresher = refresher;
  }

  /** @throws what a new instance may not be, before anything is asked of the other server. */
  start(target: Target, source: InstanceSource, by: By): StartedOperation {
    const { project, name } = target;
    const found = this.#context.find(project, name);
    const existing = source.refresh === true ? found : undefined;
    if (source.live === true) {
      throw errors.badRequest(
        'Stateful migration is not supported: this server cannot restore the state of containers',
      );
    }
    if (existing !== undefined && this.#context.isRunning(existing))
      throw errors.badRequest('Cannot refresh a running instance');
    if (existing === undefined && found !== undefined)
      throw errors.badRequest(`${RECORD_FAILURE}This "instances" entry already exists`);
    const draft =
      existing === undefined
        ? this.#draft(target, source['base-image'] ?? '')
        : { record: existing, metadata: { metadata: {}, templates: {} }, size: undefined };
    const work: Work = { target, by, draft, existing };
    const spec = {
      project,
      description: 'Creating instance',
      resources: this.#context.resources(project, name),
      locks: [this.#context.lock(target)],
    };
    const run = (peer: Peer, operation: OperationContext): Promise<void> => this.#take(work, peer, operation);
    if (source.mode === 'push') return this.#migrations.waiting(spec, run);
    return this.#migrations.calling(spec, { ...source, mayReach: by.mayFetch !== false }, run);
  }

  #draft(target: Target, baseImage: string): Draft {
    const { body } = target;
    const config = {
      ...(baseImage === '' ? {} : { 'volatile.base_image': baseImage }),
      ...ownConfig(body.config ?? {}),
    };
    const devices = this.#withRoot(target);
    return draftInstance(this.#context, { ...target, body: { ...body, config, devices }, template: 'copy' });
  }

  /** Where nothing says in which pool the root is to be, the only one there is. */
  #withRoot({ project, body }: Target): InstanceRecord['devices'] {
    const { devices = {}, profiles = ['default'] } = body;
    const effective = this.#context.expand({ project, profiles, config: {}, devices });
    if (Object.values(effective.devices).some(isRootDisk)) return devices;
    const [only, ...more] = this.#context.deps.collections.pools.list();
    if (only === undefined || more.length > 0 || devices['root'] !== undefined) return devices;
    return { ...devices, root: { type: 'disk', path: '/', pool: only.value.name } };
  }

  async #take(work: Work, peer: Peer, operation: OperationContext): Promise<void> {
    const root = this.#context.rootVolume(work.draft.record);
    const { storage } = this.#context.deps;
    const { pool, ref } = await storage.withRoot(root, async (opened) => opened);
    const refresh = work.existing !== undefined;
    const identities = refresh ? await pool.transfer?.identities?.(ref) : undefined;
    const known = (offered: readonly WireSnapshot[]): string[] => this.#known(work, offered, identities);
    await runTarget(
      peer,
      {
        // Only file by file can the ids of another server's range be changed, and a root that shares no snapshot be refreshed.
        types: ({ idmap, snapshots }) => {
          const native = idmap.length === 0 && (!refresh || known(snapshots).length > 0);
          return waysOf(pool, ref, { native, trusted: work.by.mayFetch !== false });
        },
        known,
        fallback: fallbackOf(ref),
        refresh,
        wanted: (offered) => this.#wanted(work, offered),
        receive: (delivery, channel, signal) =>
          work.existing === undefined
            ? this.#make(work, delivery, channel, { ...bound(operation), signal })
            : this.#refresh(work.existing, work, delivery, { channel, operation: { ...bound(operation), signal } }),
      },
      operation.signal,
    );
  }

  /** All of them; of a refresh those that are not there, or are others of the same name. */
  #wanted({ draft, existing }: Work, offered: readonly WireSnapshot[]): readonly WireSnapshot[] {
    for (const { name } of offered) checkSnapshotName(name);
    if (new Set(offered.map(({ name }) => name)).size < offered.length)
      throw errors.badRequest('The other server offers two snapshots of one name');
    const kept = new Set(existing === undefined ? [] : this.#kept(existing, offered).map(({ name }) => name));
    const wanted = offered.filter(({ name }) => !kept.has(name));
    if (wanted.length > 0) this.#context.deps.guard.checkSnapshot(draft.record.project);
    return wanted;
  }

  /** Of those that stay, the ones with the same content. */
  #known(
    { existing }: Work,
    offered: readonly WireSnapshot[],
    identities: ReadonlyMap<string, readonly string[]> | undefined,
  ): string[] {
    if (existing === undefined) return [];
    const kept = new Set(this.#kept(existing, offered).map(({ name }) => name));
    return knownOf(offered, identities).filter((name) => kept.has(name));
  }

  #kept(existing: InstanceRecord, offered: readonly WireSnapshot[]): InstanceSnapshotRecord[] {
    const times = new Map(offered.map(({ name, createdAt }) => [name, createdAt]));
    return this.#context
      .snapshotsOf(existing.project, existing.name)
      .map(({ value }) => value)
      .filter((known) => times.get(known.name) === seconds(known.createdAt));
  }

  async #make(work: Work, delivery: Delivery, channel: DataChannel, operation: OperationContext): Promise<void> {
    const { draft, by } = work;
    const snapshots = delivery.snapshots.map((one) => this.#snapshot(work, one));
    const count = this.#migrations.counter(operation, draft.record.name);
    await this.#creator.make(draft, operation, by, {
      fill: async ({ record, size }) => {
        let arrived: Arrived = new Map();
        await this.#context.deps.storage.createWith(this.#context.rootVolume(record), { size }, async (opened) => {
          const landing = { pool: opened.pool, target: opened.ref, options: opened.options, exists: false };
          const { signal } = operation;
          arrived = await this.#migrations.receiver.receive({ landing, delivery, channel, signal, count });
          return snapshots;
        });
        return {
          metadata: metadataOf(arrived.get(undefined)),
          writes: snapshots.flatMap((snapshot) => this.#snapshotWrites(snapshot, arrived)),
        };
      },
    });
  }

  async #refresh(
    existing: InstanceRecord,
    work: Work,
    delivery: Delivery,
    { channel, operation }: { readonly channel: DataChannel; readonly operation: OperationContext },
  ): Promise<void> {
    const { storage } = this.#context.deps;
    const kept = this.#kept(existing, delivery.offered);
    const added = delivery.snapshots.map((one) => this.#snapshot(work, one));
    const expiry = new Map(added.map(({ name, expiresAt }) => [name, expiresAt]));
    const count = this.#migrations.counter(operation, existing.name);
    await this.#refresher.replace(existing, async (temporary) => {
      const names = kept.map(({ name }) => name);
      await storage.copy(this.#context.rootVolume(existing), temporary, { snapshots: names, size: undefined });
      const arrived = await storage.withRoot(temporary, ({ pool, ref, options }) => {
        const keep = (name: string, made: boolean): Promise<void> =>
          storage.snapshot(temporary, name, { running: false, expiresAt: expiry.get(name) ?? '', made });
        const landing = { pool, target: ref, options, exists: true, keep };
        return this.#migrations.receiver.receive({ landing, delivery, channel, signal: operation.signal, count });
      });
      const all = delivery.offered.flatMap(({ name }) => [...kept, ...added].find((one) => one.name === name) ?? []);
      return { snapshots: all, writes: added.map((snapshot) => this.#metadataWrite(snapshot, arrived)) };
    });
    this.#context.lifecycle('instance-updated', existing, work.by);
  }

  /** @throws bad-request for what a request could not set either. */
  #snapshot({ draft: { record } }: Work, found: WireSnapshot): InstanceSnapshotRecord {
    const { project } = record;
    const home = this.#context.profileProject(project);
    const known = this.#context.deps.collections.profiles;
    const missing = found.profiles.find((name) => known.get(idOf(home, name)) === undefined);
    if (missing !== undefined) throw errors.badRequest(`Requested profile "${missing}" doesn't exist`);
    const devices = Object.fromEntries(
      Object.entries(found.devices).map(([name, device]) => [
        name,
        isRootDisk(device) ? { ...device, pool: record.pool } : device,
      ]),
    );
    const state = { config: ownConfig(found.config), devices, profiles: found.profiles };
    prefixed(`Snapshot "${found.name}": `, () => {
      this.#context.rules.checkConfig(state.config);
      this.#context.rules.checkDeviceTypes(state.devices);
    });
    this.#context.deps.guard.checkInstance({ ...record, ...state });
    const { name: instance, ...rest } = record;
    return {
      ...rest,
      ...state,
      ...fromWire(found, record, this.#context.timestamp()),
      instance,
      name: found.name,
      stateful: false,
      size: -1,
    };
  }

  #snapshotWrites(snapshot: InstanceSnapshotRecord, arrived: Arrived): Write[] {
    const { snapshots } = this.#context.deps.collections;
    const id = `${idOf(snapshot.project, snapshot.instance)}/${snapshot.name}`;
    return [snapshots.put(id, snapshot), this.#metadataWrite(snapshot, arrived)];
  }

  #metadataWrite({ project, instance, name }: InstanceSnapshotRecord, arrived: Arrived): Write {
    const { metadata } = this.#context.deps.collections;
    return metadata.put(`${idOf(project, instance)}/${name}`, metadataOf(arrived.get(name)));
  }
}

/** The operation's methods, so that a copy with another signal has them. */
function bound(operation: OperationContext): Omit<OperationContext, 'signal'> {
  return {
    id: operation.id,
    update: (metadata) => operation.update(metadata),
    progress: (stage, progress) => operation.progress(stage, progress),
  };
}
