import { errors } from '../../core/errors.ts';
import type { InstanceMetadataRecord } from '../../state/records/instance-metadata.ts';
import type { InstanceRecord, InstanceSnapshotRecord } from '../../state/records/instance.ts';
import type { Write } from '../../state/store.ts';
import type { OperationContext, StartedOperation } from '../operations/contract.ts';
import type { IncomingBackup } from './backup-archives.ts';
import { type By, type InstanceContext, idOf, NEVER_USED, NO_EXPIRY } from './context.ts';
import type { InstanceCreator } from './creator.ts';
import { NATIVE_HEADER } from '../storage/native-backup.ts';
import { type Draft, draftInstance, prefixed } from './draft.ts';
import { gatherMetadata } from './gather-metadata.ts';
import type { DescribedSnapshot, DescribedState } from './plan/backup-config.ts';
import { type BackupIndex, parseBackupIndex } from './plan/backup-index.ts';
import { expandDevices, isRootDisk } from './plan/expand.ts';
import { checkInstanceName, checkSnapshotName } from './plan/names.ts';
import { shiftOf } from './plan/shift.ts';
import type { RootState } from './ports.ts';
import { progressOf } from './progress.ts';

export interface BackupUpload {
  readonly body: AsyncIterable<Uint8Array>;
  /** New name; empty: that in the backup. */
  readonly name: string;
  /** Pool for the root; empty: that in the backup. */
  readonly pool: string;
  readonly signal: AbortSignal;
}

const ROOT = 'backup/container';

/** Config of the server the backup came from, which means nothing here. */
const FOREIGN = [
  'volatile.idmap.base',
  'volatile.idmap.current',
  'volatile.idmap.next',
  'volatile.last_state.idmap',
  'volatile.last_state.power',
];

/** Config as this server takes it over. */
export function ownConfig(config: DescribedState['config']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(config).filter(([key]) => !FOREIGN.includes(key) && !/^volatile\..+\.host_name$/.test(key)),
  );
}

/** New instances from backups, ours or LXD's. Everything in one passes the same checks as a request. */
export class BackupImport {
  readonly #context: InstanceContext;
  readonly #creator: InstanceCreator;

  constructor(context: InstanceContext, creator: InstanceCreator) {
    this.#context = context;
    this.#creator = creator;
  }

  /** `POST /1.0/instances` with a tarball; the operation starts when all of it is here. @throws bad-request. */
  async start(project: string, upload: BackupUpload, by: By = {}): Promise<StartedOperation> {
    const incoming = await this.#context.deps.archives.receive(upload.body, upload.signal);
    try {
      const index = parseBackupIndex(await incoming.index());
      const name = upload.name === '' ? index.name : upload.name;
      checkInstanceName(name);
      for (const snapshot of index.snapshotNames) checkSnapshotName(snapshot);
      const started = this.#context.deps.operations.start({
        class: 'task',
        project,
        description: 'Restoring backup',
        action: 'create',
        resources: this.#context.resources(project, name),
        locks: [this.#context.lock({ project, name })],
        mayCancel: true,
        run: (operation) => this.#restore({ project, name, index, incoming, pool: upload.pool, by }, operation),
      });
      void started.done.then(() => incoming[Symbol.asyncDispose]());
      return started;
    } catch (error) {
      await incoming[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #restore(work: Work, operation: OperationContext): Promise<void> {
    const { index, incoming } = work;
    const draft = await this.#draft(work);
    const snapshots = await Promise.all(
      index.snapshotNames.map(async (name) => this.#snapshot(work, draft, name, await readMetadata(incoming, name))),
    );
    await this.#creator.make(draft, operation, work.by, {
      writes: snapshots.flatMap(({ writes }) => writes),
      fill: (made, { signal }) =>
        index.optimized === undefined
          ? this.#fill(work, made, snapshots, signal)
          : this.#receive(work, made, snapshots, operation),
    });
    if (index.optimized !== undefined) await this.#metadataOfRoot(draft);
  }

  /** In a driver's own format the image's metadata lie beside the root, not in the tarball. */
  async #metadataOfRoot({ record }: Draft): Promise<void> {
    const { storage, collections, ledger } = this.#context.deps;
    const root = this.#context.rootVolume(record);
    const metadata = await gatherMetadata((name) => storage.readBeside(root, name));
    await ledger.transact([], [collections.metadata.put(idOf(record.project, record.name), metadata)]);
  }

  async #draft(work: Work): Promise<Draft> {
    const { project, name, index, incoming } = work;
    const { instance } = index;
    this.#checkProfiles(project, instance);
    const draft = draftInstance(this.#context, {
      project,
      name,
      type: 'container',
      body: {
        config: ownConfig(instance.config),
        devices: this.#devices(work, instance),
        profiles: [...instance.profiles],
        description: instance.description,
        ephemeral: instance.ephemeral,
      },
      architecture: instance.architecture === '' ? this.#context.deps.architecture : instance.architecture,
      metadata: await readMetadata(incoming, undefined),
      template: undefined,
    });
    const { createdAt, lastUsedAt } = instance;
    return {
      ...draft,
      record: {
        ...draft.record,
        createdAt: createdAt ?? draft.record.createdAt,
        lastUsedAt: lastUsedAt ?? NEVER_USED,
      },
    };
  }

  /** Record and metadata of one snapshot. @throws bad-request for what a request could not set either. */
  #snapshot(
    work: Work,
    { record }: Draft,
    name: string,
    metadata: InstanceMetadataRecord,
  ): { readonly record: InstanceSnapshotRecord; readonly writes: readonly Write[] } {
    const { instance, snapshots } = work.index;
    const found: DescribedState & Partial<DescribedSnapshot> =
      snapshots.find((one) => one.name === name) ?? ({ ...instance, createdAt: undefined } satisfies DescribedState);
    this.#checkProfiles(work.project, found);
    const state = { config: ownConfig(found.config), devices: this.#devices(work, found), profiles: found.profiles };
    prefixed(`Snapshot "${name}" of the backup: `, () => {
      this.#context.rules.checkConfig(state.config);
      this.#context.rules.checkDeviceTypes(state.devices);
      this.#context.rules.checkDevices(work.project, this.#context.expand({ project: work.project, ...state }).devices);
    });
    this.#context.deps.guard.checkInstance({ ...record, ...state });
    const { name: instanceName, ...rest } = record;
    const snapshot: InstanceSnapshotRecord = {
      ...rest,
      ...state,
      instance: instanceName,
      name,
      architecture: found.architecture === '' ? record.architecture : found.architecture,
      ephemeral: found.ephemeral,
      createdAt: found.createdAt ?? this.#context.timestamp(),
      lastUsedAt: found.lastUsedAt ?? NO_EXPIRY,
      expiresAt: found.expiresAt ?? NO_EXPIRY,
      size: -1,
    };
    const { collections } = this.#context.deps;
    const id = `${idOf(record.project, record.name)}/${name}`;
    return {
      record: snapshot,
      writes: [collections.snapshots.put(id, snapshot), collections.metadata.put(id, metadata)],
    };
  }

  async #fill(
    { index, incoming }: Work,
    { record, size }: Draft,
    snapshots: readonly { readonly record: InstanceSnapshotRecord }[],
    signal: AbortSignal,
  ): Promise<void> {
    const { shift } = index;
    const state = (member: string): RootState => ({
      fill: (path) =>
        shift === undefined
          ? incoming.extract(member, path, signal)
          : incoming.extractUnshifted(member, path, shift, signal),
      with: (use) => incoming.withTree(member, shift, use, signal),
    });
    const states = snapshots.map(({ record: snapshot }) => ({
      ...state(`backup/snapshots/${snapshot.name}/rootfs`),
      snapshot,
    }));
    const root = this.#context.rootVolume(record);
    await this.#context.deps.storage.createFromStates(root, [...states, state(`${ROOT}/rootfs`)], {
      size,
      signal,
      plain: incoming.whiteouts,
    });
  }

  /** A backup in the format of the pool's driver. */
  async #receive(
    { index, incoming }: Work,
    { record, size }: Draft,
    snapshots: readonly { readonly record: InstanceSnapshotRecord }[],
    operation: OperationContext,
  ): Promise<void> {
    const header = await incoming.text(NATIVE_HEADER);
    const made = snapshots.map(({ record: snapshot }) => snapshot);
    await this.#context.deps.storage.createFromNative(
      this.#context.rootVolume(record),
      { snapshots: made, header, backend: index.backend, open: (member) => incoming.open(member) },
      { size, shift: shiftOf(index, index.snapshotNames), ...progressOf(operation) },
    );
  }

  #checkProfiles(project: string, { profiles }: DescribedState): void {
    const home = this.#context.profileProject(project);
    const missing = profiles.find(
      (name) => this.#context.deps.collections.profiles.get(idOf(home, name)) === undefined,
    );
    if (missing !== undefined) throw errors.badRequest(`Requested profile "${missing}" doesn't exist`);
  }

  /** The devices of a state, with a root disk in the pool the instance goes to. */
  #devices({ project, index, pool }: Work, state: DescribedState): InstanceRecord['devices'] {
    const profiles = this.#context.profilesOf({ project, profiles: state.profiles });
    const root = Object.entries(expandDevices(state.devices, profiles)).find(([, device]) => isRootDisk(device));
    const wanted = pool === '' ? (this.#rootPool({ project, index }) ?? index.poolName) : pool;
    if (root !== undefined && root[1]['pool'] === wanted) return state.devices;
    const [name, device] = root ?? ['root', { type: 'disk', path: '/' }];
    return { ...state.devices, [name]: { ...device, pool: wanted } };
  }

  /** Pool that the instance's own devices name. */
  #rootPool({ project, index }: Pick<Work, 'project' | 'index'>): string | undefined {
    const profiles = this.#context.profilesOf({ project, profiles: index.instance.profiles });
    return Object.values(expandDevices(index.instance.devices, profiles)).find(isRootDisk)?.['pool'];
  }
}

interface Work {
  readonly project: string;
  readonly name: string;
  readonly index: BackupIndex;
  readonly incoming: IncomingBackup;
  readonly pool: string;
  readonly by: By;
}

/** Image metadata and templates of the instance or a snapshot, as far as the backup has them. */
function readMetadata(incoming: IncomingBackup, snapshot: string | undefined): Promise<InstanceMetadataRecord> {
  const folder = snapshot === undefined ? ROOT : `backup/snapshots/${snapshot}`;
  return gatherMetadata((name) => incoming.text(`${folder}/${name}`));
}
