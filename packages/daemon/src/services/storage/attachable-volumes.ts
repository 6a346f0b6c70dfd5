import { errors } from '../../core/errors.ts';
import type { Collection } from '../../state/collection.ts';
import type { ProjectRecord } from '../../state/records/project.ts';
import type { StorageVolumeRecord } from '../../state/records/storage.ts';
import type { InstanceVolumes } from '../instances/ports.ts';
import { effectiveProject } from '../projects/scope.ts';
import type { LivePools } from './live-pools.ts';
import type { StorageUsage } from './usage.ts';
import { refOf, type VolumeId, volumeId } from './volume-names.ts';

export interface AttachableVolumesOptions {
  readonly live: LivePools;
  readonly volumes: Collection<StorageVolumeRecord>;
  readonly projects: Collection<ProjectRecord>;
  readonly usage: Pick<StorageUsage, 'isServers'>;
}

/** Custom volumes as disk devices of instances use them. */
export class AttachableVolumes implements InstanceVolumes {
  readonly #options: AttachableVolumesOptions;

  constructor(options: AttachableVolumesOptions) {
    this.#options = options;
  }

  async mount(pool: string, project: string, volume: string) {
    const record = this.#require(pool, project, volume);
    const { mapsIds, volumes } = await this.#options.live.use(pool);
    const unmapped = record.config['security.unmapped'] === 'true';
    if (mapsIds === false && !unmapped)
      throw errors.badRequest(
        `Volume "${volume}" cannot be attached: mounts of the pool "${pool}" cannot show the ids of an instance; set security.unmapped=true on the volume`,
      );
    const path = await volumes.mount(refOf(record), record);
    return { path, block: record.contentType !== 'filesystem', shifted: !unmapped };
  }

  async unmount(pool: string, project: string, volume: string): Promise<void> {
    const record = this.#require(pool, project, volume);
    await (await this.#options.live.use(pool)).volumes.unmount(refOf(record));
  }

  exists(pool: string, project: string, volume: string): boolean {
    return this.#find(pool, project, volume) !== undefined;
  }

  isBlock(pool: string, project: string, volume: string): boolean {
    return this.#find(pool, project, volume)?.contentType === 'block';
  }

  isServers(pool: string, project: string, volume: string): boolean {
    return this.#options.usage.isServers(this.#id(pool, project, volume));
  }

  #id(pool: string, project: string, name: string): VolumeId {
    return {
      pool,
      project: effectiveProject(this.#options.projects, project, 'storage.volumes'),
      type: 'custom',
      name,
    };
  }

  #find(pool: string, project: string, volume: string): StorageVolumeRecord | undefined {
    return this.#options.volumes.get(volumeId(this.#id(pool, project, volume)))?.value;
  }

  #require(pool: string, project: string, volume: string): StorageVolumeRecord {
    const record = this.#find(pool, project, volume);
    if (record === undefined) throw errors.notFound(`Storage volume "${volume}" not found in pool "${pool}"`);
    return record;
  }
}
