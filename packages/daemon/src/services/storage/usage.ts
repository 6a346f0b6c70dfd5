import type { Collection } from '../../state/collection.ts';
import type { InstanceRecord, InstanceSnapshotRecord } from '../../state/records/instance.ts';
import type { ProfileRecord } from '../../state/records/profile.ts';
import type { ServerRecord } from '../../state/records/server.ts';
import type { ProjectRecord } from '../../state/records/project.ts';
import type { StorageVolumeRecord, StorageVolumeSnapshotRecord } from '../../state/records/storage.ts';
import { effectiveProject, projectUrl } from '../projects/scope.ts';
import { serverVolumesOf } from './server-volume-keys.ts';
import { volumeId, type VolumeId, volumeUrl } from './volume-names.ts';

export interface UsageOptions {
  readonly instances: Collection<InstanceRecord>;
  readonly instanceSnapshots: Collection<InstanceSnapshotRecord>;
  readonly profiles: Collection<ProfileRecord>;
  readonly projects: Collection<ProjectRecord>;
  readonly volumes: Collection<StorageVolumeRecord>;
  readonly volumeSnapshots: Collection<StorageVolumeSnapshotRecord>;
  readonly server: Collection<ServerRecord>;
}

type Devices = Readonly<Record<string, Readonly<Record<string, string>>>>;

interface Attachment {
  readonly url: string;
  readonly instance: InstanceRecord | undefined;
  /** Not an instance that has it from a profile alone: the profile is told. */
  readonly told: boolean;
}

/** Who uses which pool and which volume; rebuilt when a record that tells has changed. */
export class StorageUsage {
  readonly #options: UsageOptions;
  #version = '';
  readonly #held = new Set<string>();
  #pools = new Map<string, string[]>();
  #attachments = new Map<string, Attachment[]>();

  constructor(options: UsageOptions) {
    this.#options = options;
  }

  /** Changes whenever an answer could. */
  get version(): string {
    return Object.values(this.#options)
      .map(({ revision }: { revision: number }) => revision)
      .join('.');
  }

  /** URLs of everything in or on the pool, images included. */
  ofPool(pool: string): readonly string[] {
    this.#refresh();
    return this.#pools.get(pool) ?? [];
  }

  /** URLs of what uses the volume. */
  ofVolume(volume: VolumeId): readonly string[] {
    switch (volume.type) {
      case 'container':
      case 'virtual-machine':
        return [instanceUrl(volume.project, volume.name)];
      case 'image':
        return [projectUrl(`/1.0/images/${volume.name}`, volume.project)];
      case 'custom':
        this.#refresh();
        return [
          ...(this.isServers(volume) ? ['/1.0'] : []),
          ...(this.#attachments.get(volumeId(volume)) ?? []).filter(({ told }) => told).map(({ url }) => url),
        ];
    }
  }

  /** Whether the server keeps something of its own on the volume, or is about to. */
  isServers(volume: VolumeId): boolean {
    const id = volumeId(volume);
    const { config = {} } = this.#options.server.get('config')?.value ?? {};
    return this.#held.has(id) || serverVolumesOf(config).some((one) => volumeId(one) === id);
  }

  /** The server takes the volume, until disposed of; from then on its key says so. */
  hold(volume: VolumeId): Disposable {
    const id = volumeId(volume);
    this.#held.add(id);
    return { [Symbol.dispose]: () => void this.#held.delete(id) };
  }

  /** Whether an instance or a profile has the custom volume. */
  attached(volume: VolumeId): boolean {
    this.#refresh();
    return this.#attachments.has(volumeId(volume));
  }

  /** Instances that have the custom volume attached, by themselves or through a profile. */
  instancesOf(volume: VolumeId): readonly InstanceRecord[] {
    this.#refresh();
    const found = this.#attachments.get(volumeId(volume)) ?? [];
    return found.flatMap(({ instance }) => (instance === undefined ? [] : [instance]));
  }

  #refresh(): void {
    const { version } = this;
    if (version === this.#version) return;
    this.#version = version;
    this.#pools = new Map();
    this.#attachments = new Map();
    const { instances, instanceSnapshots, profiles, volumes, volumeSnapshots } = this.#options;
    for (const { value } of instances.list()) this.#addInstance(value);
    for (const { value } of instanceSnapshots.list()) {
      const path = `/1.0/instances/${encodeURIComponent(value.instance)}/snapshots/${encodeURIComponent(value.name)}`;
      this.#use(value.pool, projectUrl(path, value.project));
    }
    for (const { value } of profiles.list()) {
      const url = projectUrl(`/1.0/profiles/${encodeURIComponent(value.name)}`, value.project);
      this.#addDevices(value.project, value.devices, { url, instance: undefined, told: true });
      for (const pool of poolsIn(value.devices)) this.#use(pool, url);
    }
    for (const { value } of volumes.list()) {
      if (value.type === 'custom') this.#use(value.pool, volumeUrl(value));
      if (value.type === 'image') this.#use(value.pool, projectUrl(`/1.0/images/${value.name}`, value.project));
    }
    for (const { value } of volumeSnapshots.list()) {
      if (value.type !== 'custom') continue;
      this.#use(
        value.pool,
        volumeUrl({ ...value, name: value.volume }, `/snapshots/${encodeURIComponent(value.name)}`),
      );
    }
    for (const urls of this.#pools.values()) urls.sort();
  }

  #addInstance(record: InstanceRecord): void {
    const { profiles, projects } = this.#options;
    const url = instanceUrl(record.project, record.name);
    const home = effectiveProject(projects, record.project, 'profiles');
    const inherited = record.profiles.map((name) => profiles.get(`${home}/${name}`)?.value.devices ?? {});
    const devices: Devices = Object.assign({}, ...inherited, record.devices);
    this.#addDevices(record.project, record.devices, { url, instance: record, told: true });
    this.#addDevices(record.project, devices, { url, instance: record, told: false });
    this.#use(record.pool, url); // its other disks are volumes, which are listed themselves
  }

  #addDevices(project: string, devices: Devices, attachment: Attachment): void {
    const home = effectiveProject(this.#options.projects, project, 'storage.volumes');
    for (const device of Object.values(devices)) {
      const { type, pool, source, path } = device;
      if (type !== 'disk' || pool === undefined || source === undefined || path === '/') continue;
      const id = volumeId({ pool, project: home, type: 'custom', name: source });
      const known = this.#attachments.get(id) ?? [];
      if (!known.some(({ url }) => url === attachment.url)) this.#attachments.set(id, [...known, attachment]);
    }
  }

  #use(pool: string, url: string): void {
    const urls = this.#pools.get(pool);
    if (urls === undefined) this.#pools.set(pool, [url]);
    else urls.push(url);
  }
}

function poolsIn(devices: Devices): string[] {
  return Object.values(devices).flatMap(({ type, pool }) => (type === 'disk' && pool !== undefined ? [pool] : []));
}

function instanceUrl(project: string, name: string): string {
  return projectUrl(`/1.0/instances/${encodeURIComponent(name)}`, project);
}
