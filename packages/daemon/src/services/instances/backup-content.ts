import { toYaml } from '../../core/yaml.ts';
import { stringify } from 'yaml';
import type { UndoStack } from '../../core/undo-stack.ts';
import type { InstanceBackupRecord, InstanceRecord, InstanceSnapshotRecord } from '../../state/records/instance.ts';
import { NATIVE_HEADER } from '../storage/native-backup.ts';
import type { BackupPart } from './backup-archives.ts';
import { type InstanceContext, idOf } from './context.ts';
import { backupConfig, type BackupParts, backupTexts } from './plan/backup-index.ts';
import type { RootVolume } from './ports.ts';
import { renderInstance, renderSnapshot } from './render.ts';

export interface BackupContent {
  readonly index: string;
  readonly parts: readonly BackupPart[];
}

/** What is known of an instance and some of its snapshots, as `backup.yaml` and a backup's index tell it. */
export function describeInstance(
  context: InstanceContext,
  record: InstanceRecord,
  snapshots: readonly InstanceSnapshotRecord[],
): BackupParts {
  const effective = context.expand(record);
  const pool = context.deps.collections.pools.get(record.pool)?.value;
  return {
    name: record.name,
    pool: {
      name: record.pool,
      driver: pool?.driver ?? '',
      config: pool?.config ?? {},
      description: pool?.description ?? '',
    },
    container: renderInstance(record, effective, 'Stopped'),
    snapshots: snapshots.map((snapshot) => renderSnapshot(snapshot, context.expand(snapshot))),
    profiles: context
      .profilesOf(record)
      .map(({ name, description, config, devices }) => ({ config, description, devices, name, used_by: [] })),
    project: record.project,
    createdAt: record.createdAt,
  };
}

/** Files beside an instance's root that tell all about it, by name. */
export function filesBesideRoot(context: InstanceContext, record: InstanceRecord): Map<string, string> {
  const snapshots = context.snapshotsOf(record.project, record.name).map(({ value }) => value);
  const known = metadataFiles(context, idOf(record.project, record.name));
  const text = toYaml(backupConfig(describeInstance(context, record, snapshots)));
  return new Map([...known, ['backup.yaml', text]]);
}

/** Gathers what goes into a backup. */
export class BackupContents {
  readonly #context: InstanceContext;

  constructor(context: InstanceContext) {
    this.#context = context;
  }

  /** What `mounts` unwinds must stay until the parts were read. */
  async gather(record: InstanceRecord, backup: InstanceBackupRecord, mounts: UndoStack): Promise<BackupContent> {
    const snapshots = backup.instanceOnly
      ? []
      : this.#context.snapshotsOf(record.project, record.name).map(({ value }) => value);
    const root = this.#context.rootVolume(record);
    if (backup.optimizedStorage) {
      const native = await this.#native(record, root, snapshots, mounts);
      if (native !== undefined) return native;
    }
    const described = describeInstance(this.#context, record, snapshots);
    const { index, backup: text } = backupTexts(described);
    const id = idOf(record.project, record.name);
    const parts: BackupPart[] = [];
    for (const { name } of snapshots) {
      const folder = `backup/snapshots/${name}`;
      const found = await this.#context.deps.storage.mountSnapshot(root, name);
      mounts.add(() => this.#context.deps.storage.unmountSnapshot(root, name));
      parts.push(...this.#metadata(folder, `${id}/${name}`));
      parts.push(this.#rootPart(`${folder}/rootfs`, found, root));
    }
    parts.push(file('backup/container/backup.yaml', text), ...this.#metadata('backup/container', id));
    parts.push(this.#rootPart('backup/container/rootfs', await this.#frozen(record, root, mounts), root));
    return { index, parts };
  }

  /** The root as it is now: of a running guest a snapshot that lives as long as the backup is made. */
  async #frozen(
    record: InstanceRecord,
    root: RootVolume,
    mounts: UndoStack,
  ): Promise<{ path: string; ids: 'shifted' | 'plain' }> {
    if (!this.#context.isRunning(record)) {
      const { mount, release } = await this.#context.roots.use(root);
      mounts.add(release);
      return mount;
    }
    const frozen = await this.#context.deps.storage.freeze(root);
    mounts.add(() => frozen[Symbol.asyncDispose]());
    return frozen.mount;
  }

  /** Undefined when the pool has no format of its own: the backup then holds files, as LXD's does. */
  async #native(
    record: InstanceRecord,
    root: RootVolume,
    snapshots: readonly InstanceSnapshotRecord[],
    mounts: UndoStack,
  ): Promise<BackupContent | undefined> {
    const described = describeInstance(this.#context, record, snapshots);
    // LXD reads the instance's own description out of the volume that arrives.
    const beside = new Map([...filesBesideRoot(this.#context, record), ['backup.yaml', backupTexts(described).backup]]);
    const member = (snapshot: string | undefined): string =>
      snapshot === undefined ? 'backup/container' : `backup/snapshots/${snapshot}`;
    const native = await this.#context.deps.storage.nativeBackup(root, {
      snapshots: snapshots.map(({ name }) => name),
      running: this.#context.isRunning(record),
      beside,
      member,
    });
    if (native === undefined) return undefined;
    mounts.add(() => native[Symbol.asyncDispose]());
    const parts = native.parts.map((part): BackupPart => ({ ...part, source: '', block: false }));
    return {
      index: backupTexts({ ...described, optimized: true }).index,
      parts: [file(NATIVE_HEADER, native.header), ...parts],
    };
  }

  #rootPart(name: string, mount: { path: string; ids: 'shifted' | 'plain' }, root: RootVolume): BackupPart {
    return { name, source: mount.path, block: false, idRange: mount.ids === 'shifted' ? root.idRange : undefined };
  }

  #metadata(folder: string, id: string): BackupPart[] {
    return [...metadataFiles(this.#context, id)].map(([name, text]) => file(`${folder}/${name}`, text));
  }
}

/** metadata.yaml and the templates of an instance or a snapshot. */
function metadataFiles(context: InstanceContext, id: string): Map<string, string> {
  const known = context.deps.collections.metadata.get(id)?.value;
  if (known === undefined) return new Map();
  const templates = Object.entries(known.templates).map(([name, text]) => [`templates/${name}`, text] as const);
  return new Map([['metadata.yaml', stringify(known.metadata)], ...templates]);
}

function file(name: string, text: string): BackupPart {
  return { name, source: '', block: false, text };
}
