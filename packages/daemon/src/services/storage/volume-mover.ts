import { names } from '@keelson/api';
import type { StorageVolumePost } from '@keelson/api';
import type { StorageVolumeRecord } from '../../state/records/storage.ts';
import type { Write } from '../../state/store.ts';
import type { OperationContext, StartedOperation } from '../operations/contract.ts';
import { effectiveProject } from '../projects/scope.ts';
import type { VolumeBackupFiles } from './backup-files.ts';
import type { ChangeOptions, VolumeAddress } from './contract.ts';
import type { VolumeContext } from './volume-context.ts';
import { keysOf } from './volume-config.ts';
import { sizeOf, type VolumeCreator } from './volume-creator.ts';
import { checkName, refOf, snapshotId, type VolumeId, volumeId, volumeUrl } from './volume-names.ts';

interface MoveIntent {
  readonly from: StorageVolumeRecord;
  readonly to: StorageVolumeRecord;
}

type Devices = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** Renames custom volumes and moves them between pools and projects, with their snapshots and backups. */
export class VolumeMover {
  readonly #context: VolumeContext;
  readonly #creator: VolumeCreator;
  readonly #files: Pick<VolumeBackupFiles, 'moveAll'>;

  constructor(context: VolumeContext, creator: VolumeCreator, files: Pick<VolumeBackupFiles, 'moveAll'>) {
    this.#context = context;
    this.#creator = creator;
    this.#files = files;
    const { intents } = context.deps;
    intents.handle<MoveIntent>('storage-volume-rename', async ({ data }) => this.#undoRename(data));
    intents.handle<MoveIntent>('storage-volume-move', async ({ data }) => this.#finishMove(data));
  }

  /** The new URL of a renamed volume, or the operation that moves it. */
  async post(
    address: VolumeAddress,
    body: StorageVolumePost,
    options: ChangeOptions,
  ): Promise<string | StartedOperation> {
    const name = body.name ?? '';
    checkName(names.volumeName, name);
    const record = this.#context.findCustom(address, 'Names');
    const target = this.#target(record, body, name);
    this.#check(record, target);
    if (target.pool === record.pool && target.project === record.project) {
      await this.#context.exclusive(record, () => this.#rename(record, target));
      this.#announce('storage-volume-renamed', record, target, options);
      return volumeUrl(target);
    }
    return this.#context.deps.operations.start({
      class: 'task',
      project: record.project,
      description: 'Moving storage volume',
      resources: {},
      locks: [this.#context.lock(record), this.#context.lock(target)],
      run: async (operation) => {
        if (target.pool === record.pool) await this.#rename(record, target);
        else await this.#moveToPool(record, target, operation);
        this.#announce('storage-volume-renamed', record, target, options);
      },
    });
  }

  #target(record: StorageVolumeRecord, body: StorageVolumePost, name: string): VolumeId {
    if (body.project) this.#context.requireProject(body.project);
    const project = body.project ? this.#context.home(body.project, 'custom') : record.project;
    const pool = body.pool || record.pool;
    this.#context.deps.live.record(pool);
    return { pool, project, type: 'custom', name };
  }

  /** Again under the lock: another request may have been first. */
  #check(from: StorageVolumeRecord, target: VolumeId): StorageVolumeRecord {
    const current = this.#context.require(from);
    this.#context.assertNotServers(current, 'Volume is used by the server itself and cannot be renamed');
    this.#creator.assertAbsent(target);
    this.#context.assertIdle(current, 'Volume is still in use by running instances');
    if (target.project !== current.project)
      this.#context.deps.guard.checkVolume(target.project, { ...target, size: sizeOf(current) });
    return current;
  }

  async #rename(record: StorageVolumeRecord, target: VolumeId): Promise<void> {
    const { intents, volumes } = this.#context.deps;
    const from = this.#check(record, target);
    const to = { ...from, ...target };
    const intent = await intents.begin<MoveIntent>('storage-volume-rename', { from, to });
    try {
      const { pool, ref } = await this.#context.open(from);
      await pool.volumes.rename(ref, refOf(to).name);
      await this.#files.moveAll(backupsOf(from), backupsOf(to));
      await intents.end(intent, [volumes.put(volumeId(to), to), ...this.#leftBehind(from, to)]);
    } catch (error) {
      await this.#undoRename({ from, to });
      await intents.end(intent);
      throw error;
    }
  }

  async #moveToPool(record: StorageVolumeRecord, target: VolumeId, operation: OperationContext): Promise<void> {
    const { intents } = this.#context.deps;
    const from = this.#check(record, target);
    const { driver } = this.#context.deps.live.record(target.pool);
    const to = { ...from, ...target, config: keysOf(driver, from.config) };
    const snapshots = this.#context.snapshotsOf(from);
    const intent = await intents.begin<MoveIntent>('storage-volume-move', { from, to });
    try {
      const plan = { source: from, snapshot: undefined, snapshots };
      await this.#creator.copyTo(to, plan, operation, () => this.#leftBehind(from, to, []));
    } catch (error) {
      await intents.end(intent);
      throw error;
    }
    await this.#finishMove(intent.data);
    await intents.end(intent);
  }

  /** Removes the content that was moved; not when the copy was never finished. */
  async #finishMove({ from, to }: MoveIntent): Promise<void> {
    const { volumes } = this.#context.deps;
    if (volumes.get(volumeId(to)) === undefined || volumes.get(volumeId(from)) !== undefined) return;
    await this.#files.moveAll(backupsOf(from), backupsOf(to));
    const { pool, ref } = await this.#context.open(from);
    await pool.volumes.delete(ref);
  }

  async #undoRename({ from, to }: MoveIntent): Promise<void> {
    if (this.#context.deps.volumes.get(volumeId(to)) !== undefined) return;
    await this.#files.moveAll(backupsOf(to), backupsOf(from));
    const { pool, ref } = await this.#context.open(to);
    if (!(await pool.volumes.exists(ref)) || (await pool.volumes.exists(refOf(from)))) return;
    await pool.volumes.rename(ref, refOf(from).name);
  }

  /** Everything about `from` in the records, under the name of `to`; the new records of the volume and of snapshots not in `moving` are the caller's. */
  #leftBehind(from: StorageVolumeRecord, to: StorageVolumeRecord, moving = this.#context.snapshotsOf(from)): Write[] {
    const { backups, snapshots, volumes } = this.#context.deps;
    const place = { pool: to.pool, project: to.project, volume: to.name };
    const gone = this.#context.snapshotsOf(from).map((one) => snapshots.remove(snapshotId(one)));
    const moved = moving.map((one) => ({ ...one, ...place })).map((one) => snapshots.put(snapshotId(one), one));
    const movedBackups = backups
      .list(`${volumeId(from)}/`)
      .flatMap(({ value }) => [
        backups.remove(`${volumeId(from)}/${value.name}`),
        backups.put(`${volumeId(to)}/${value.name}`, { ...value, ...place }),
      ]);
    return [volumes.remove(volumeId(from)), ...gone, ...moved, ...movedBackups, ...this.#movedUsers(from, to)];
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

function backupsOf({ pool, project, name }: VolumeId): { pool: string; project: string; volume: string } {
  return { pool, project, volume: name };
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
