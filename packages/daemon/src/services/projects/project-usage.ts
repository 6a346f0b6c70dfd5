import type { Collection } from '../../state/collection.ts';
import type { ImageRecord } from '../../state/records/image.ts';
import type { InstanceRecord } from '../../state/records/instance.ts';
import type { NetworkRecord } from '../../state/records/network.ts';
import type { ProfileRecord } from '../../state/records/profile.ts';
import type { StorageVolumeRecord } from '../../state/records/storage.ts';
import { projectUrl } from './scope.ts';

/** Records that belong to projects. */
export interface ProjectMembers {
  readonly instances: Collection<InstanceRecord>;
  readonly profiles: Collection<ProfileRecord>;
  readonly images: Collection<ImageRecord>;
  readonly storageVolumes: Collection<StorageVolumeRecord>;
  readonly networks: Collection<NetworkRecord>;
}

/** What lies in which project; rebuilt when one of the records changed. */
export class ProjectUsage {
  readonly #members: ProjectMembers;
  #version = '';
  #urls = new Map<string, string[]>();

  constructor(members: ProjectMembers) {
    this.#members = members;
  }

  /** Changes whenever an answer of `usedBy` could. */
  get version(): string {
    const { instances, profiles, images, storageVolumes, networks } = this.#members;
    return [instances, profiles, images, storageVolumes, networks].map(({ revision }) => revision).join('.');
  }

  /** URLs of the project's objects in LXD's order. */
  usedBy(project: string): readonly string[] {
    if (this.#version !== this.version) this.#rebuild();
    return this.#urls.get(project) ?? [];
  }

  /** True when nothing but its default profile lies in the project. */
  isEmpty(project: string): boolean {
    const own = projectUrl('/1.0/profiles/default', project);
    return this.usedBy(project).every((url) => url === own);
  }

  #rebuild(): void {
    const { instances, profiles, images, storageVolumes, networks } = this.#members;
    this.#version = this.version;
    this.#urls = new Map();
    for (const { value } of instances.list()) this.#add(value.project, 'instances', value.name);
    for (const { value } of profiles.list()) this.#add(value.project, 'profiles', value.name);
    for (const { value } of images.list()) this.#add(value.project, 'images', value.fingerprint);
    for (const { value } of storageVolumes.list()) {
      if (value.type === 'custom') {
        this.#add(value.project, 'storage-pools', value.pool, 'volumes', 'custom', value.name);
      }
    }
    for (const { value } of networks.list()) this.#add(value.project, 'networks', value.name);
  }

  #add(project: string, ...path: string[]): void {
    const url = projectUrl(`/1.0/${path.map(encodeURIComponent).join('/')}`, project);
    const urls = this.#urls.get(project);
    if (urls === undefined) this.#urls.set(project, [url]);
    else urls.push(url);
  }
}
