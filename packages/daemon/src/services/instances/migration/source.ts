import type { InstancePost } from '@keelson/api';
import { errors } from '../../../core/errors.ts';
import type { InstanceRecord, InstanceSnapshotRecord } from '../../../state/records/instance.ts';
import { besideOf } from '../../migration/beside.ts';
import type { Migrations } from '../../migration/migrations.ts';
import type { Peer } from '../../migration/peer.ts';
import { runSource } from '../../migration/session.ts';
import { fallbackOf, waysOf } from '../../migration/ways.ts';
import type { OperationContext, StartedOperation } from '../../operations/contract.ts';
import type { ChangeRequest } from '../changer.ts';
import { type By, type InstanceContext, idOf } from '../context.ts';
import type { OpenedRoot } from '../ports.ts';
import { renderInstance, renderSnapshot } from '../render.ts';
import type { SnapshotPlace } from '../snapshots.ts';
import { migrationIndex, toWire } from './describe.ts';

type Wanted = Pick<InstancePost, 'live' | 'target' | 'instance_only' | 'container_only'>;

/** What travels: an instance with snapshots, or one snapshot as an instance. */
interface Cargo {
  readonly record: InstanceRecord;
  readonly snapshot: InstanceSnapshotRecord | undefined;
  readonly snapshots: readonly InstanceSnapshotRecord[];
}

/** Instances on their way to other servers. They stay as they are, and may run meanwhile. */
export class MigrationSource {
  readonly #context: InstanceContext;
  readonly #migrations: Migrations;

  constructor(context: InstanceContext, migrations: Migrations) {
    this.#context = context;
    this.#migrations = migrations;
  }

  /** `POST /1.0/instances/<name>` with `migration`. @throws not-found, bad-request for a live migration. */
  start(record: InstanceRecord, body: Wanted, request: ChangeRequest & By): StartedOperation {
    const alone = body.instance_only === true || body.container_only === true;
    const cargo = (): Cargo => {
      const current = this.#context.require(record.project, record.name);
      const kept = alone ? [] : this.#context.snapshotsOf(record.project, record.name).map(({ value }) => value);
      return { record: current, snapshot: undefined, snapshots: kept };
    };
    return this.#start(record, 'Migrating instance', body, { request, cargo });
  }

  /** `POST …/snapshots/<snapshot>` with `migration`. */
  startSnapshot(
    { project, name, snapshot }: SnapshotPlace,
    body: Wanted,
    request: ChangeRequest & By,
  ): StartedOperation {
    const record = this.#context.require(project, name, request.type);
    const cargo = (): Cargo => {
      const current = this.#context.require(record.project, record.name);
      const found = this.#context.snapshot(record.project, record.name, snapshot).value;
      return { record: current, snapshot: found, snapshots: [] };
    };
    cargo();
    return this.#start(record, 'Transferring snapshot', body, { request, cargo });
  }

  #start(
    record: InstanceRecord,
    description: string,
    { live, target }: Wanted,
    { request, cargo }: { readonly request: By; readonly cargo: () => Cargo },
  ): StartedOperation {
    if (live === true && this.#context.isRunning(record)) {
      throw errors.badRequest(
        'Stateful migration is not supported: this server cannot checkpoint containers. Stop the instance, or copy it without its state',
      );
    }
    const spec = {
      project: record.project,
      description,
      resources: this.#context.resources(record.project, record.name),
      action: 'migrate',
    };
    const work = (peer: Peer, operation: OperationContext): Promise<void> => this.#send(cargo(), peer, operation);
    if (target === undefined || target === null) return this.#migrations.waiting(spec, work);
    return this.#migrations.calling(spec, { ...target, mayReach: request.mayFetch !== false }, work);
  }

  #send(cargo: Cargo, peer: Peer, operation: OperationContext): Promise<void> {
    const root = this.#context.rootVolume(cargo.record);
    return this.#context.deps.storage.withRoot(root, (opened) => this.#sendOpened(cargo, opened, peer, operation));
  }

  async #sendOpened(
    { record, snapshot, snapshots }: Cargo,
    { pool, ref }: OpenedRoot,
    peer: Peer,
    operation: OperationContext,
  ): Promise<void> {
    const { metadata } = this.#context.deps.collections;
    const id = idOf(record.project, record.name);
    const description = (name: string | undefined) =>
      besideOf(metadata.get(name === undefined ? id : `${id}/${name}`)?.value);
    const shipment = {
      pool,
      source: snapshot === undefined ? ref : { ...ref, snapshot: snapshot.name },
      running: this.#context.isRunning(record),
      beside: (name: string | undefined) => description(name ?? snapshot?.name),
    };
    const count = this.#migrations.counter(operation, record.name);
    const identities = await pool.transfer?.identities?.(ref);
    await runSource(
      peer,
      {
        types: waysOf(pool, ref, { native: true, trusted: true }),
        fallback: fallbackOf(ref),
        snapshots: snapshots.map((one) => ({ ...toWire(one), identities: identities?.get(one.name) })),
        container: record.type === 'container',
        index: (names) =>
          this.#index(
            record,
            snapshots.filter(({ name }) => names.includes(name)),
          ),
        send: (agreement, channel, signal) =>
          this.#migrations.sender.send({ shipment, agreement, channel, signal, count }),
      },
      operation.signal,
    );
  }

  #index(record: InstanceRecord, snapshots: readonly InstanceSnapshotRecord[]): object {
    return migrationIndex({
      name: record.name,
      project: record.project,
      container: renderInstance(record, this.#context.expand(record), 'Stopped'),
      snapshots: snapshots.map((snapshot) => renderSnapshot(snapshot, this.#context.expand(snapshot))),
      pool: this.#context.deps.collections.pools.get(record.pool)?.value,
      profiles: this.#context
        .profilesOf(record)
        .map(({ name, description, config, devices }) => ({ config, description, devices, name, used_by: [] })),
    });
  }
}
