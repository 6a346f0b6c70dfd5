import type { Collection } from '../../state/collection.ts';
import type { InstanceRecord } from '../../state/records/instance.ts';
import type { ProjectRecord } from '../../state/records/project.ts';
import { effectiveProject, projectUrl } from '../projects/scope.ts';

/** Which instances use which profile; rebuilt when an instance or a project changed. */
export class ProfileUsage {
  readonly #instances: Collection<InstanceRecord>;
  readonly #projects: Collection<ProjectRecord>;
  #version = '';
  #urls = new Map<string, string[]>();

  constructor(instances: Collection<InstanceRecord>, projects: Collection<ProjectRecord>) {
    this.#instances = instances;
    this.#projects = projects;
  }

  /** Changes whenever an answer of `usedBy` could. */
  get version(): string {
    return `${this.#instances.revision}.${this.#projects.revision}`;
  }

  /** URLs of the instances that use the profile, also those of projects without own profiles. */
  usedBy(project: string, name: string): readonly string[] {
    if (this.#version !== this.version) this.#rebuild();
    return this.#urls.get(`${project}/${name}`) ?? [];
  }

  #rebuild(): void {
    this.#version = this.version;
    this.#urls = new Map();
    for (const { value: instance } of this.#instances.list()) {
      const project = effectiveProject(this.#projects, instance.project, 'profiles');
      const url = projectUrl(`/1.0/instances/${encodeURIComponent(instance.name)}`, instance.project);
      for (const profile of new Set(instance.profiles)) {
        const key = `${project}/${profile}`;
        const urls = this.#urls.get(key);
        if (urls === undefined) this.#urls.set(key, [url]);
        else urls.push(url);
      }
    }
  }
}
