import { parse } from 'yaml';
import { errors } from '../../core/errors.ts';
import type { InstanceMetadataRecord } from '../../state/records/instance-metadata.ts';
import type { StartedOperation } from '../operations/contract.ts';
import type { IncomingBackup } from './backup-archives.ts';
import { type By, type InstanceContext, idOf } from './context.ts';
import type { InstanceCreator } from './creator.ts';
import { draftInstance } from './draft.ts';
import { type BackupIndex, parseBackupIndex } from './plan/backup-index.ts';
import { expandDevices, isRootDisk } from './plan/expand.ts';
import { checkInstanceName } from './plan/names.ts';
import { templateEntries } from './plan/templates.ts';

export interface BackupUpload {
  readonly body: AsyncIterable<Uint8Array>;
  /** New name; empty: that in the backup. */
  readonly name: string;
  /** Pool for the root; empty: that in the backup. */
  readonly pool: string;
  readonly signal: AbortSignal;
}

const ROOT = 'backup/container/rootfs';

/** Config of the server the backup came from, which means nothing here. */
const FOREIGN = [
  'volatile.idmap.base',
  'volatile.idmap.current',
  'volatile.idmap.next',
  'volatile.last_state.idmap',
  'volatile.last_state.power',
];

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
      const started = this.#context.deps.operations.start({
        class: 'task',
        project,
        description: 'Restoring backup',
        action: 'create',
        resources: this.#context.resources(project, name),
        locks: [this.#context.lock({ project, name })],
        run: (operation) => this.#restore({ project, name, index, incoming, pool: upload.pool, by }, operation),
      });
      void started.done.then(() => incoming[Symbol.asyncDispose]());
      return started;
    } catch (error) {
      await incoming[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #restore(
    work: Work,
    operation: Parameters<InstanceCreator['make']>[1],
  ): Promise<Record<string, unknown> | void> {
    const { project, name, index, incoming } = work;
    const missing = index.profiles.filter(
      (profile) =>
        this.#context.deps.collections.profiles.get(idOf(this.#context.profileProject(project), profile)) === undefined,
    );
    if (missing.length > 0) throw errors.badRequest(`Requested profile "${missing[0] ?? ''}" doesn't exist`);
    const draft = draftInstance(this.#context, {
      project,
      name,
      type: 'container',
      body: {
        config: Object.fromEntries(
          Object.entries(index.config).filter(
            ([key]) => !FOREIGN.includes(key) && !/^volatile\..+\.host_name$/.test(key),
          ),
        ),
        devices: this.#devices(work),
        profiles: [...index.profiles],
        description: index.description,
        ephemeral: index.ephemeral,
      },
      architecture: index.architecture === '' ? this.#context.deps.architecture : index.architecture,
      metadata: await readMetadata(incoming),
      template: undefined,
    });
    await this.#creator.make(draft, operation, work.by, {
      fill: async ({ record, size }) => {
        await this.#context.deps.storage.createFilled(this.#context.rootVolume(record), { size }, (path) =>
          index.shift === undefined
            ? incoming.extract(ROOT, path, operation.signal)
            : incoming.extractUnshifted(ROOT, path, index.shift, operation.signal),
        );
      },
    });
    if (index.snapshots.length === 0) return;
    return { warning: `Snapshots of the backup were left out: ${index.snapshots.join(', ')}` };
  }

  /** The backup's devices, with a root disk in a pool that exists here. */
  #devices({ project, index, pool }: Work): BackupIndex['devices'] {
    const profiles = this.#context.profilesOf({ project, profiles: index.profiles });
    const root = Object.entries(expandDevices(index.devices, profiles)).find(([, device]) => isRootDisk(device));
    const wanted = pool === '' ? (root?.[1]['pool'] ?? index.pool) : pool;
    if (root !== undefined && root[1]['pool'] === wanted) return index.devices;
    const [name, device] = root ?? ['root', { type: 'disk', path: '/' }];
    return { ...index.devices, [name]: { ...device, pool: wanted } };
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

async function readMetadata(incoming: IncomingBackup): Promise<InstanceMetadataRecord> {
  const text = await incoming.text('backup/container/metadata.yaml');
  const found: unknown = text === undefined ? {} : parse(text, { maxAliasCount: 100, schema: 'core' });
  const metadata =
    typeof found === 'object' && found !== null && !Array.isArray(found) ? (found as Record<string, unknown>) : {};
  const templates: Record<string, string> = {};
  for (const { template } of Object.values(templateEntries(metadata))) {
    if (template.includes('/')) continue;
    const content = await incoming.text(`backup/container/templates/${template}`);
    if (content !== undefined) templates[template] = content;
  }
  return { metadata, templates };
}
