import { errors } from '../../core/errors.ts';
import type { Collection } from '../../state/collection.ts';
import type { InstanceMetadataRecord } from '../../state/records/instance-metadata.ts';
import type { InstanceRecord, InstanceSnapshotRecord } from '../../state/records/instance.ts';
import type { InstanceStorage, RootVolume } from '../instances/ports.ts';
import type { ImageInstances, PublishSource } from './ports.ts';

const IMAGE_KEY = 'image.';

export interface PublishInstancesOptions {
  readonly instances: Collection<InstanceRecord>;
  readonly snapshots: Collection<InstanceSnapshotRecord>;
  readonly metadata: Collection<InstanceMetadataRecord>;
  readonly storage: Pick<InstanceStorage, 'mount' | 'unmount' | 'mountSnapshot' | 'unmountSnapshot'>;
  /** Where the instance's root is and which host ids its files carry. */
  readonly rootVolume: (record: InstanceRecord) => RootVolume;
  readonly isRunning: (record: InstanceRecord) => boolean;
}

/** Instances as publishing sees them. */
export class PublishInstances implements ImageInstances {
  readonly #options: PublishInstancesOptions;

  constructor(options: PublishInstancesOptions) {
    this.#options = options;
  }

  describe(project: string, name: string, snapshot: string | undefined): ReturnType<ImageInstances['describe']> {
    const { type, architecture, config } = this.#record(project, name, snapshot);
    const properties = Object.entries(config)
      .filter(([key]) => key.startsWith(IMAGE_KEY))
      .map(([key, value]): [string, string] => [key.slice(IMAGE_KEY.length), value]);
    return { type, architecture, properties: Object.fromEntries(properties) };
  }

  async open(project: string, name: string, snapshot: string | undefined): Promise<PublishSource> {
    const { storage, rootVolume, isRunning } = this.#options;
    const record = this.#instance(project, name);
    this.#record(project, name, snapshot);
    const root = rootVolume(record);
    const { path, ids } =
      snapshot === undefined ? await storage.mount(root) : await storage.mountSnapshot(root, snapshot);
    return {
      path,
      idRange: ids === 'shifted' ? root.idRange : undefined,
      [Symbol.asyncDispose]: async () => {
        if (snapshot !== undefined) await storage.unmountSnapshot(root, snapshot);
        else if (!isRunning(record)) await storage.unmount(root); // the guest's own mount stays
      },
    };
  }

  templates(project: string, name: string, snapshot: string | undefined): ReturnType<ImageInstances['templates']> {
    const below = snapshot === undefined ? '' : `/${snapshot}`;
    const found = this.#options.metadata.get(`${project}/${name}${below}`)?.value;
    const templates = found?.metadata['templates'];
    if (found === undefined || templates === undefined || templates === null) return undefined;
    return { templates, files: new Map(Object.entries(found.templates)) };
  }

  #instance(project: string, name: string): InstanceRecord {
    const entry = this.#options.instances.get(`${project}/${name}`);
    if (entry === undefined) throw errors.notFound('Instance not found');
    return entry.value;
  }

  #record(project: string, name: string, snapshot: string | undefined): InstanceRecord | InstanceSnapshotRecord {
    const instance = this.#instance(project, name);
    if (snapshot === undefined) return instance;
    const entry = this.#options.snapshots.get(`${project}/${name}/${snapshot}`);
    if (entry === undefined) throw errors.notFound('Instance snapshot not found');
    return entry.value;
  }
}
