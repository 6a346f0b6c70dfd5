import { errors, isKeelsonError, KeelsonError } from '../../core/errors.ts';
import type { FolderGate } from '../../core/folder-gate.ts';
import type { Log } from '../../core/log.ts';
import type { Collection } from '../../state/collection.ts';
import type { ServerRecord } from '../../state/records/server.ts';
import type { StorageVolumeRecord, StorageVolumeSnapshotRecord } from '../../state/records/storage.ts';
import type { Intent, Intents } from '../intents/contract.ts';
import { DEFAULT_PROJECT } from '../projects/scope.ts';
import type { ConfigEffect } from '../server/contract.ts';
import type { LivePools } from './live-pools.ts';
import type { StorageUsage } from './usage.ts';
import { keyOf, SERVER_CONTENTS, type ServerContent, serverVolume } from './server-volume-keys.ts';
import { refOf, snapshotPrefix, volumeId } from './volume-names.ts';

/** A folder of the state folder that may be a link to a volume; the host's part. */
export interface MovableFolder {
  /** Folder that it links to; undefined when it is one itself. */
  target(): Promise<string | undefined>;
  /** Copies all there is to the folder `to`, or to one of the state folder; nothing changes before `swap`. */
  copyTo(to: string | undefined): Promise<void>;
  /** What was prepared takes the place, and what was there stays beside it; again: back. */
  swap(): Promise<void>;
  /** Makes it a link at once. */
  point(to: string): Promise<void>;
  /** Removes what lies beside. */
  discard(): Promise<void>;
}

interface MovedContent {
  readonly folder: MovableFolder;
  readonly gate: FolderGate;
}

export interface ServerVolumesOptions {
  readonly contents: Readonly<Record<ServerContent, MovedContent>>;
  readonly server: Collection<ServerRecord>;
  readonly volumes: Collection<StorageVolumeRecord>;
  readonly snapshots: Collection<StorageVolumeSnapshotRecord>;
  readonly live: LivePools;
  readonly usage: StorageUsage;
  readonly intents: Intents;
  readonly log: Log;
  readonly isEmpty: (folder: string) => Promise<boolean>;
  readonly empty: (folder: string) => Promise<void>;
}

/** Values of the key before and after: `pool/volume`, or nothing for the state folder. */
interface SwitchIntent {
  readonly content: ServerContent;
  readonly from: string;
  readonly to: string;
}

interface Switch {
  readonly intent: Intent<SwitchIntent>;
  readonly held: DisposableStack;
}

/** Milliseconds that a change waits for whoever reads or writes. */
const PATIENCE = 5000;

/** Keeps backups and image files on custom volumes: `storage.backups_volume` and `storage.images_volume`. */
export class ServerVolumes {
  readonly effects: readonly ConfigEffect[];
  readonly #options: ServerVolumesOptions;
  readonly #running = new Map<ServerContent, Switch>();

  constructor(options: ServerVolumesOptions) {
    this.#options = options;
    this.effects = SERVER_CONTENTS.map((content) => this.#effect(content));
    for (const content of SERVER_CONTENTS) options.contents[content].gate.preparedBy(() => this.#mountFor(content));
    options.intents.handle<SwitchIntent>('server-volume-switch', (intent) => this.#settle(intent));
  }

  /** Mounts the volumes in use; before anything that a crash left is undone, as that may lie there. */
  async prepare(): Promise<void> {
    for (const content of SERVER_CONTENTS) {
      await this.#restore(content).catch((error: unknown) =>
        this.#options.log.error('The volume that the server uses cannot be mounted', { content, error }),
      );
    }
  }

  async #restore(content: ServerContent): Promise<void> {
    const value = this.#stored(content);
    if (value === '') return;
    const path = await this.#mount(value);
    const { folder } = this.#options.contents[content];
    const target = await folder.target();
    if (target !== undefined && target !== path) await folder.point(path);
  }

  #effect(content: ServerContent): ConfigEffect {
    const key = keyOf(content);
    return {
      key,
      atStart: false,
      check: async (value, config) => {
        try {
          await this.#check(content, value, config);
        } catch (error) {
          if (!isKeelsonError(error)) throw error;
          throw new KeelsonError(error.code, `Failed validation of "${key}": ${error.message}`, { cause: error });
        }
      },
      // What was begun and is not stored goes back.
      apply: (value) => (this.#running.has(content) ? this.#finish(content) : this.#begin(content, value)),
      settled: () => this.#finish(content),
    };
  }

  async #check(content: ServerContent, value: string, config: Readonly<Record<string, string>>): Promise<void> {
    if (value === '') return;
    const id = serverVolume(value);
    const { live, volumes, snapshots, usage } = this.#options;
    if (!live.has(id.pool)) throw errors.notFound(`Unable to load storage pool "${id.pool}": Storage pool not found`);
    const record = volumes.get(volumeId(id))?.value;
    if (record === undefined)
      throw errors.notFound(
        `Failed loading storage volume "${value}" in "${DEFAULT_PROJECT}" project: Storage volume not found`,
      );
    if (record.contentType !== 'filesystem')
      throw errors.badRequest(
        `Storage volume "${value}" in "${DEFAULT_PROJECT}" project is not filesystem content type`,
      );
    if (snapshots.list(snapshotPrefix(id)).length > 0)
      throw errors.badRequest('Storage volumes for use by the server itself cannot have snapshots');
    const other = SERVER_CONTENTS.find((one) => one !== content && config[keyOf(one)] === value);
    if (other !== undefined) throw errors.badRequest(`Storage volume "${value}" is used for ${other}`);
    if (usage.attached(id))
      throw errors.badRequest(`Storage volume "${value}" is attached to an instance or a profile`);
    if (!(await this.#options.isEmpty(await this.#mount(value))))
      throw errors.badRequest(`Storage volume "${value}" isn't empty`);
  }

  /** Copies the content and puts the copy in place of the original, which stays until the change is stored. */
  async #begin(content: ServerContent, to: string): Promise<void> {
    const { contents, usage, intents } = this.#options;
    const { folder, gate } = contents[content];
    using held = new DisposableStack();
    if (to !== '') held.use(usage.hold(serverVolume(to)));
    const closed = await gate.close(PATIENCE);
    if (closed === undefined)
      throw errors.badRequest(`The ${content} are being read or written; try again when that is done`);
    held.use(closed);
    const intent = await intents.begin<SwitchIntent>('server-volume-switch', {
      content,
      from: this.#stored(content),
      to,
    });
    try {
      await folder.copyTo(to === '' ? undefined : await this.#mount(to));
      await folder.swap();
    } catch (error) {
      await this.#settle(intent);
      throw errors.unavailable(
        `The ${content} cannot be moved${to === '' ? '' : ` to "${to}"`}: ${reason(error)}`,
        error,
      );
    }
    this.#running.set(content, { intent, held: held.move() });
  }

  /** The key says by now where the content belongs. */
  async #finish(content: ServerContent): Promise<void> {
    const running = this.#running.get(content);
    if (running === undefined) return;
    this.#running.delete(content);
    using _ = running.held;
    // The next start tries again.
    await this.#settle(running.intent).catch((error: unknown) =>
      this.#options.log.error('What the server moved could not be cleaned up', { content, error }),
    );
  }

  /** Leaves the content where the stored key says, and nothing of it at the other place. */
  async #settle(intent: Intent<SwitchIntent>): Promise<void> {
    const { content, from, to } = intent.data;
    const { folder } = this.#options.contents[content];
    const stored = this.#stored(content);
    const place = stored === '' ? undefined : await this.#mount(stored);
    if ((await folder.target()) !== place) await folder.swap();
    const other = stored === to ? from : to;
    if (other !== '') await this.#clear(other);
    await folder.discard();
    await this.#options.intents.end(intent);
  }

  async #clear(value: string): Promise<void> {
    const { pool, ref } = await this.#open(value);
    await this.#options.empty(await pool.volumes.mount(ref));
    await pool.volumes.unmount(ref);
  }

  async #mountFor(content: ServerContent): Promise<void> {
    const value = this.#stored(content);
    if (value !== '') await this.#mount(value);
  }

  async #mount(value: string): Promise<string> {
    const { pool, ref, record } = await this.#open(value);
    return pool.volumes.mount(ref, { config: record.config });
  }

  async #open(value: string) {
    const id = serverVolume(value);
    const record = this.#options.volumes.get(volumeId(id))?.value;
    if (record === undefined) throw errors.notFound(`Storage volume "${value}" not found`);
    return { record, pool: await this.#options.live.use(id.pool), ref: refOf(record) };
  }

  #stored(content: ServerContent): string {
    return this.#options.server.get('config')?.value.config[keyOf(content)] ?? '';
  }
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
