import { errors } from '../../core/errors.ts';
import { projectUrl } from '../projects/scope.ts';

const MAX_LENGTH = 255;

/** @throws bad-request when an alias may not have this name. Slashes are allowed (`debian/12`). */
export function checkAliasName(name: string): void {
  if (name === '') throw errors.badRequest('Alias name is required');
  if (name.length > MAX_LENGTH || /\p{Cc}/u.test(name) || name.startsWith('/') || name.endsWith('/')) {
    throw errors.badRequest(`Invalid alias name "${name}"`);
  }
}

/** In lists and operations LXD names no project. */
export function imageUrl(fingerprint: string): string {
  return `/1.0/images/${fingerprint}`;
}

export function aliasUrl(name: string, project?: string): string {
  const path = `/1.0/images/aliases/${encodeURIComponent(name)}`;
  return project === undefined ? path : projectUrl(path, project);
}
