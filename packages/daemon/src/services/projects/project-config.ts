import { isTrue, projectConfig, validateConfig } from '@keelson/api';
import { errors } from '../../core/errors.ts';
import { DEFAULT_PROJECT } from './scope.ts';

type Config = Readonly<Record<string, string>>;

/** Own objects a new project has unless it says otherwise. */
const newFeatures: Config = {
  'features.images': 'true',
  'features.profiles': 'true',
  'features.storage.volumes': 'true',
};

/** The default project keeps everything itself. */
export const defaultProjectConfig: Config = checkedConfig({ ...newFeatures, 'features.networks': 'true' });

/** May be switched on while the project has objects: none of them would change place. */
const canEnableNonEmpty = new Set(['features.networks']);

/** Config of a new project. @throws bad-request */
export function newConfig(wanted: Config): Config {
  return checkedConfig({ ...newFeatures, ...wanted });
}

/** Sorted, without empty values. @throws bad-request naming the first bad key. */
export function checkedConfig(wanted: Config): Config {
  const [problem] = validateConfig(projectConfig, wanted);
  if (problem !== undefined) throw errors.badRequest(problem.message);
  const set = Object.entries(wanted).filter(([, value]) => value !== '');
  const config = Object.fromEntries(set.sort(([a], [b]) => (a < b ? -1 : 1)));
  if (isTrue(config['restricted'] ?? '') && !isTrue(config['features.profiles'] ?? '')) {
    throw errors.badRequest('Projects without their own profiles cannot be restricted');
  }
  return config;
}

/** Features that differ between two configs, sorted. */
export function changedFeatures(before: Config, after: Config): string[] {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys]
    .filter((key) => key.startsWith('features.') && isTrue(before[key] ?? '') !== isTrue(after[key] ?? ''))
    .sort();
}

/** @throws bad-request when a feature may not change now. */
export function checkFeatureChange(project: string, change: { before: Config; after: Config; empty: boolean }): void {
  for (const feature of changedFeatures(change.before, change.after)) {
    if (project === DEFAULT_PROJECT) throw errors.badRequest("You can't change the features of the default project");
    if (change.empty) continue;
    const enabling = isTrue(change.after[feature] ?? '');
    if (!enabling) throw errors.badRequest(`Project feature "${feature}" cannot be disabled on non-empty projects`);
    if (!canEnableNonEmpty.has(feature)) {
      throw errors.badRequest(`Project feature "${feature}" cannot be enabled on non-empty projects`);
    }
  }
}
