import { parseSize } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import type { Collection } from '../../state/collection.ts';
import type { InstanceRecord } from '../../state/records/instance.ts';
import type { ProfileRecord } from '../../state/records/profile.ts';
import type { ProjectRecord } from '../../state/records/project.ts';
import { expandConfig, expandDevices } from '../instances/plan/expand.ts';
import type { ProjectGuard } from './contract.ts';
import { checkRoom, type CountedInstance, type CountedVolume, type ProjectContent } from './project-limits.ts';
import type { ProjectMembers } from './project-usage.ts';
import { checkRestrictions, isBlocked, isDiskSourceAllowed, isRestricted } from './restrictions.ts';
import { effectiveProject } from './scope.ts';

type Config = Readonly<Record<string, string>>;

/** Profile lookup that can see a profile as it will be. */
type FindProfile = (name: string) => ProfileRecord | undefined;

/** Counts what lies in projects and holds changes against their limits and restrictions. */
export class RecordProjectGuard implements ProjectGuard {
  readonly #projects: Collection<ProjectRecord>;
  readonly #members: ProjectMembers;

  constructor(projects: Collection<ProjectRecord>, members: ProjectMembers) {
    this.#projects = projects;
    this.#members = members;
  }

  checkInstance(instance: InstanceRecord): void {
    const { project } = instance;
    const config = this.#configOf(project);
    if (!isGuarded(config)) return;
    const wanted = this.#expand(instance, this.#profilesOf(project));
    checkRestrictions({ name: project, config }, wanted);
    const content = this.content(project);
    const others = content.instances.filter(({ name }) => name !== instance.name);
    checkRoom(project, config, { ...content, instances: [...others, wanted] });
  }

  checkProfile(profile: ProfileRecord): void {
    for (const project of this.#projectsWithProfilesOf(profile.project)) {
      const config = this.#configOf(project);
      if (!isGuarded(config)) continue;
      const known = this.#profilesOf(project);
      const find: FindProfile = (name) => (name === profile.name ? profile : known(name));
      const records = this.#members.instances.list(`${project}/`).map(({ value }) => value);
      const instances = records.map((record) => this.#expand(record, find));
      const users = records.flatMap((record, index) =>
        record.profiles.includes(profile.name) ? [instances[index]] : [],
      );
      for (const user of users) {
        if (user !== undefined) checkRestrictions({ name: project, config }, user);
      }
      if (users.length > 0) checkRoom(project, config, { ...this.content(project), instances });
    }
  }

  checkDiskSource(project: string, path: string): void {
    if (isDiskSourceAllowed(this.#configOf(project), path)) return;
    throw errors.unauthorized(`Disk source path "${path}" not allowed`);
  }

  checkSnapshot(project: string): void {
    if (isBlocked(this.#configOf(project), 'snapshots')) {
      throw errors.unauthorized(`Project "${project}" doesn't allow for snapshot creation`);
    }
  }

  checkBackup(project: string): void {
    if (isBlocked(this.#configOf(project), 'backups')) {
      throw errors.unauthorized(`Project "${project}" doesn't allow for backup creation`);
    }
  }

  checkNewNetwork(project: string): void {
    this.#checkMore(project, 'limits.networks', (content) => ({ ...content, networks: content.networks + 1 }));
  }

  checkVolume(project: string, volume: CountedVolume): void {
    const others = (one: CountedVolume): boolean => one.pool !== volume.pool || one.name !== volume.name;
    this.#checkMore(project, 'limits.disk', (content) => ({
      ...content,
      volumes: [...content.volumes.filter(others), volume],
    }));
  }

  /** Holds every instance of the project against restrictions that it would get. @throws unauthorized */
  checkAll(project: string, config: Config): void {
    for (const instance of this.content(project).instances) checkRestrictions({ name: project, config }, instance);
  }

  content(project: string): ProjectContent {
    const { instances, networks, storageVolumes } = this.#members;
    const find = this.#profilesOf(project);
    return {
      instances: instances.list(`${project}/`).map(({ value }) => this.#expand(value, find)),
      networks: networks.list(`${project}/`).length,
      volumes: storageVolumes
        .list()
        .filter(({ value }) => value.project === project && value.type === 'custom')
        .map(({ value }) => ({ pool: value.pool, name: value.name, size: sizeOf(value.config['size']) })),
    };
  }

  #checkMore(project: string, key: string, add: (content: ProjectContent) => ProjectContent): void {
    const limit = this.#configOf(project)[key];
    if (limit !== undefined) checkRoom(project, { [key]: limit }, add(this.content(project)));
  }

  #expand(instance: InstanceRecord, find: FindProfile): CountedInstance {
    const profiles = instance.profiles.flatMap((name) => find(name) ?? []);
    return {
      name: instance.name,
      type: instance.type,
      config: expandConfig(instance.config, profiles),
      devices: expandDevices(instance.devices, profiles),
    };
  }

  #profilesOf(project: string): FindProfile {
    const home = effectiveProject(this.#projects, project, 'profiles');
    return (name) => this.#members.profiles.get(`${home}/${name}`)?.value;
  }

  /** Projects whose instances use the profiles of `home`. */
  #projectsWithProfilesOf(home: string): string[] {
    const names = this.#projects.list().map(({ value }) => value.name);
    return names.filter((name) => effectiveProject(this.#projects, name, 'profiles') === home);
  }

  #configOf(project: string): Config {
    return this.#projects.get(project)?.value.config ?? {};
  }
}

function isGuarded(config: Config): boolean {
  return isRestricted(config) || Object.keys(config).some((key) => key.startsWith('limits.'));
}

function sizeOf(text: string | undefined): number | undefined {
  const parsed = parseSize(text ?? '');
  return parsed.ok && parsed.value > 0 ? parsed.value : undefined;
}
