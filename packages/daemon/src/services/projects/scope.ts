import { isTrue } from '@keelson/api';
import type { Collection } from '../../state/collection.ts';
import type { ProjectRecord } from '../../state/records/project.ts';

export type ProjectFeature =
  | 'images'
  | 'profiles'
  | 'storage.volumes'
  | 'storage.buckets'
  | 'networks'
  | 'networks.zones';

export const DEFAULT_PROJECT = 'default';

/** The project that holds the objects of `feature` for `project`: itself, or `default` where it has no own ones. */
export function effectiveProject(
  projects: Collection<ProjectRecord>,
  project: string,
  feature: ProjectFeature,
): string {
  if (project === DEFAULT_PROJECT) return project;
  return isTrue(projects.get(project)?.value.config[`features.${feature}`]) ? project : DEFAULT_PROJECT;
}

/** URL of an object in a project as LXD writes it: the project is named unless it is `default`. */
export function projectUrl(path: string, project: string): string {
  return project === DEFAULT_PROJECT ? path : `${path}?project=${encodeURIComponent(project)}`;
}
