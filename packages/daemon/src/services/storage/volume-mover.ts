import { names } from '@keelson/api';
import type { StorageVolumePost } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import type { StorageVolumeRecord } from '../../state/records/storage.ts';
import type { Write } from '../../state/store.ts';
import type { StartedOperation } from '../operations/contract.ts';
import { effectiveProject } from '../projects/scope.ts';
import type { ChangeOptions, VolumeAddress } from './contract.ts';
import type { VolumeContext } from './volume-context.ts';
import type { VolumeCreator } from './volume-creator.ts';
import { checkName, refOf, snapshotId, type VolumeId, volumeId, volumeUrl } from './volume-names.ts';

interface RenameIntent {
  readonly from: StorageVolumeRecord;
  readonly to: StorageVolumeRecord;
}

type Devices = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** Renames custom volumes and moves them between pools and projects. */
export class VolumeMover {
  readonly #context: VolumeContext;
  readonly #creator: VolumeCreator;

  constructor(context: VolumeContext, creator: VolumeCreator) {
    this.#context = context;
    this.#creator = creator;
    context.deps.intents.handle<RenameIntent>('storage-volume-rename', async ({ data }) => this.#undoRename(data));
  }

  /** The new URL of a renamed volume, or the operation that moves it. */
  async post(
    address: VolumeAddress,
    body: StorageVolumePost,
    options: ChangeOptions,
  ): Promise<string | StartedOperation> {
    const name = body.name ?? '';
    checkName(names.volumeName, name);
    if (body.migration === true)
      throw errors.notImplemented('Migrating storage volumes between servers is not supported by this server yet');
    const record = this.#context.findCustom(address, 'Names');
    if (body.project) this.#context.requireProject(body.project);
    const project = body.project ? this.#context.home(body.project, 'custom') : record.project;
    const pool = body.pool === undefined || body.pool === '' ? record.pool : body.pool;
    this.#context.deps.live.record(pool);
    const target: VolumeId = { pool, project, type: 'custom', name };
    if (volumeId(target) === volumeId(record)) throw errors.conflict('Volume by that name already exists');
    this.#creator.assertAbsent(target);
    this.#context.assertIdle(record, 'Volume is still in use by running instances');
    if (pool === record.pool && project === record.project) {
      await this.#context.exclusive(record, () => this.#rename(record, target));
      this.#announce('storage-volume-renamed', record, target, options);
      return volumeUrl(target);
    }
    return this.#context.deps.operations.start({
      class: 'task',
      project: record.project,
      description: 'Moving storage volume',
      resources: {},
      locks: [this.#context.lock(record)],
      run: async (operation) => {
        if (pool === record.pool) await this.#rename(record, target);
        else await this.#moveToPool(record, target, operation.signal);
        this.#announce('storage-volume-renamed', record, target, options);
      },
    });
  }

  async #rename(from: StorageVolumeRecord, target: VolumeId): Promise<void> {
    const { intents, volumes } = this.#context.deps;
    const to = { ...from, ...target };
    const intent = await intents.begin<RenameIntent>('storage-volume-rename', { from, to });
    try {
      const { pool, ref } = await this.#context.open(from);
      await pool.volumes.rename(ref, refOf(to).name);
      await intents.end(intent, [
        volumes.remove(volumeId(from)),
        volumes.put(volumeId(to), to),
        ...this.#movedSnapshots(from, to),
        ...this.#movedUsers(from, to),
      ]);
    } catch (error) {
      await this.#undoRename({ from, to });
      await intents.end(intent);
      throw error;
    }
  }

  async #moveToPool(from: StorageVolumeRecord, target: VolumeId, signal: AbortSignal): Promise<void> {
    const { ledger, volumes } = this.#context.deps;
    const to = { ...from, ...target };
    const snapshots = this.#context.snapshotsOf(from);
    await this.#creator.copyTo(to, { source: from, snapshot: undefined, snapshots }, { signal });
    await ledger.transact(
      [],
      [
        volumes.remove(volumeId(from)),
        ...snapshots.map((one) => this.#context.deps.snapshots.remove(snapshotId(one))),
        ...this.#movedUsers(from, to),
      ],
    );
    const { pool, ref } = await this.#context.open(from);
    await pool.volumes.delete(ref);
  }

  async #undoRename({ from, to }: RenameIntent): Promise<void> {
    if (this.#context.deps.volumes.get(volumeId(to)) !== undefined) return;
    const { pool, ref } = await this.#context.open(to);
    if (!(await pool.volumes.exists(ref)) || (await pool.volumes.exists(refOf(from)))) return;
    await pool.volumes.rename(ref, refOf(from).name);
  }

  #movedSnapshots(from: StorageVolumeRecord, to: StorageVolumeRecord): Write[] {
    const { snapshots } = this.#context.deps;
    return this.#context.snapshotsOf(from).flatMap((one) => {
      const moved = { ...one, pool: to.pool, project: to.project, volume: to.name };
      return [snapshots.remove(snapshotId(one)), snapshots.put(snapshotId(moved), moved)];
    });
  }

  /** Instances and profiles that name the volume name it under its new name. */
  #movedUsers(from: VolumeId, to: VolumeId): Write[] {
    const { instances, profiles, projects } = this.#context.deps;
    const writes: Write[] = [];
    for (const { value } of instances.list()) {
      if (effectiveProject(projects, value.project, 'storage.volumes') !== from.project) continue;
      const devices = renamedDevices(value.devices, from, to);
      if (devices !== value.devices)
        writes.push(instances.put(`${value.project}/${value.name}`, { ...value, devices }));
    }
    for (const { value } of profiles.list()) {
      if (effectiveProject(projects, value.project, 'storage.volumes') !== from.project) continue;
      const devices = renamedDevices(value.devices, from, to);
      if (devices !== value.devices) writes.push(profiles.put(`${value.project}/${value.name}`, { ...value, devices }));
    }
    return writes;
  }

  #announce(action: string, from: VolumeId, to: VolumeId, options: ChangeOptions): void {
    this.#context.announce(action, to.project, volumeUrl(to), { ...options, context: { old_name: from.name } });
  }
}

function renamedDevices(devices: Devices, from: VolumeId, to: VolumeId): Devices {
  const renamed = Object.entries(devices).map(([name, device]) => {
    const uses =
      device['type'] === 'disk' &&
      device['pool'] === from.pool &&
      device['source'] === from.name &&
      device['path'] !== '/';
    return [name, uses ? { ...device, pool: to.pool, source: to.name } : device] as const;
  });
  return renamed.some(([name, device]) => device !== devices[name]) ? Object.fromEntries(renamed) : devices;
}
