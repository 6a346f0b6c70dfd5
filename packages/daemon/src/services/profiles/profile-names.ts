import { errors } from '../../core/errors.ts';

const MAX_LENGTH = 255;

/** @throws bad-request with LXD's text when a profile may not have this name. */
export function checkProfileName(name: string): void {
  if (name === '') throw errors.badRequest('No name provided');
  if (name.includes('/')) throw errors.badRequest('Profile names may not contain slashes');
  if (name === '.' || name === '..' || name.length > MAX_LENGTH || /\p{Cc}/u.test(name)) {
    throw errors.badRequest(`Invalid profile name "${name}"`);
  }
}
