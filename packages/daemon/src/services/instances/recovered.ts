import { errors } from '../../core/errors.ts';
import type { InstanceMetadataRecord } from '../../state/records/instance-metadata.ts';
import type { InstanceRecord, InstanceSnapshotRecord } from '../../state/records/instance.ts';
import type { Write } from '../../state/store.ts';
import { ownConfig } from './backup-import.ts';
import { type InstanceContext, idOf, NEVER_USED, NO_EXPIRY } from './context.ts';
import type { BackupConfig, DescribedInstance, DescribedState } from './plan/backup-config.ts';
import { expandDevices, isRootDisk } from './plan/expand.ts';
import { idMapText } from './plan/idmap.ts';
import { shiftOf } from './plan/shift.ts';
import { settleNics } from './plan/volatile.ts';
import type { InstanceRemover } from './remover.ts';
import type { AdoptOptions } from '../../drivers/storage/contract.ts';

/** An instance whose root is there and whose record is not. */
export interface LostInstance {
  readonly pool: string;
  readonly project: string;
  readonly name: string;
  readonly described: BackupConfig;
  /** Snapshots the pool has. */
  readonly snapshots: readonly string[];
  readonly metadata: InstanceMetadataRecord;
}

export interface RecoveredInstance {
  readonly record: InstanceRecord;
  readonly snapshots: readonly InstanceSnapshotRecord[];
  readonly writes: readonly Write[];
  /** Host ids that the files carry, of the root and of each snapshot; undefined where they carry guest ids. */
  readonly shift: AdoptOptions;
}

/** Records of instances from what their roots tell. */
export class RecoveredInstances {
  readonly #context: InstanceContext;
  readonly #remover: InstanceRemover;

  constructor(context: InstanceContext, remover: InstanceRemover) {
    this.#context = context;
    this.#remover = remover;
  }

  /** Files that tell all about an instance are checked as a request is. @throws bad-request, conflict. */
  plan(lost: LostInstance): RecoveredInstance {
    const { project, name, pool, described } = lost;
    const { collections } = this.#context.deps;
    const taken = collections.instances.get(idOf(project, name))?.value;
    if (taken !== undefined) throw errors.conflict(`An instance of this name exists already, on pool "${taken.pool}"`);
    const state = this.#state(lost, described.instance);
    const record: InstanceRecord = {
      ...this.#settled(
        {
          project,
          name,
          type: 'container',
          pool,
          stateful: false,
          description: described.instance.description,
          createdAt: described.instance.createdAt ?? this.#context.timestamp(),
          lastUsedAt: described.instance.lastUsedAt ?? NEVER_USED,
          ...state,
        },
        described.instance,
      ),
    };
    this.#context.deps.guard.checkInstance(record);
    const snapshots = this.#snapshots(lost, record);
    const id = idOf(project, name);
    return {
      record,
      snapshots,
      shift: shiftOf(described, lost.snapshots),
      writes: [
        collections.instances.put(id, record),
        collections.metadata.put(id, lost.metadata),
        ...snapshots.flatMap((snapshot) => [
          collections.snapshots.put(`${id}/${snapshot.name}`, snapshot),
          collections.metadata.put(`${id}/${snapshot.name}`, lost.metadata),
        ]),
      ],
    };
  }

  /** The records are there: the rest of the host learns of the instance. */
  async announce({ record }: RecoveredInstance): Promise<void> {
    this.#context.statusChanged();
    this.#context.lifecycle(
      'instance-created',
      record,
      {},
      {
        context: { 'storage-pool': record.pool, type: record.type },
      },
    );
    await this.#remover.refreshReservations(this.#context.expand(record).devices);
  }

  #snapshots(lost: LostInstance, record: InstanceRecord): InstanceSnapshotRecord[] {
    const { instance, snapshots: told } = lost.described;
    const order = told.map(({ name }) => name);
    const present = lost.snapshots.toSorted((a, b) => order.indexOf(a) - order.indexOf(b));
    return present.map((name) => {
      const found = told.find((one) => one.name === name);
      const { name: instanceName, ...rest } = record;
      return {
        ...rest,
        ...this.#state(lost, found ?? instance),
        instance: instanceName,
        name,
        createdAt: found?.createdAt ?? this.#context.timestamp(),
        lastUsedAt: found?.lastUsedAt ?? NO_EXPIRY,
        expiresAt: found?.expiresAt ?? NO_EXPIRY,
        size: -1,
      };
    });
  }

  /** What an instance and its snapshots share, with the root disk on the pool where it was found. */
  #state(
    { project, pool }: LostInstance,
    state: DescribedState,
  ): Pick<InstanceRecord, 'architecture' | 'config' | 'devices' | 'ephemeral' | 'profiles'> {
    const { rules, deps } = this.#context;
    const power = state.config['volatile.last_state.power'];
    const config = {
      ...ownConfig(state.config),
      ...(power === undefined ? {} : { 'volatile.last_state.power': power }),
    };
    const profiles = this.#context.profilesOf({ project, profiles: state.profiles });
    const root = Object.entries(expandDevices(state.devices, profiles)).find(([, device]) => isRootDisk(device));
    const [name, device] = root ?? ['root', { type: 'disk', path: '/' }];
    const devices = device['pool'] === pool ? state.devices : { ...state.devices, [name]: { ...device, pool } };
    rules.checkConfig(config);
    rules.checkDeviceTypes(devices);
    rules.checkDevices(project, this.#context.expand({ project, profiles: state.profiles, config, devices }).devices);
    return {
      architecture: state.architecture === '' ? deps.architecture : state.architecture,
      config,
      devices,
      ephemeral: state.ephemeral,
      profiles: state.profiles,
    };
  }

  /** Ids of this host; cards keep the addresses they had. */
  #settled(record: InstanceRecord, { config, expandedDevices }: DescribedInstance): InstanceRecord {
    const before = config['volatile.idmap.next'];
    const wanted =
      before === undefined ? record : { ...record, config: { ...record.config, 'volatile.idmap.next': before } };
    const effective = this.#context.expand(wanted);
    const range = this.#context.idRange(wanted, effective.config);
    const volatile = {
      'volatile.cloud-init.instance-id': config['volatile.cloud-init.instance-id'] ?? this.#context.deps.entropy.uuid(),
      'volatile.idmap.base': this.#context.idMapKeys(effective.config, range),
      'volatile.idmap.next': idMapText(range),
      'volatile.last_state.idmap': idMapText(undefined),
      'volatile.uuid': config['volatile.uuid'] ?? this.#context.deps.entropy.uuid(),
    };
    // A profile that lost its cards may get them back: addresses stay.
    const devices = { ...expandedDevices, ...effective.devices };
    const settled = settleNics({ ...record.config, ...volatile }, {}, devices, this.#context.deps.entropy);
    return { ...record, config: settled };
  }
}
