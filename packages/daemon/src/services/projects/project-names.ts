import { errors } from '../../core/errors.ts';

const maxLength = 255;

/** @throws bad-request with LXD's text when a project may not have this name. */
export function checkProjectName(name: string): void {
  if (name === '') throw errors.badRequest('No name provided');
  if (name.includes('/')) throw errors.badRequest('Project names may not contain slashes');
  if (name.includes(' ')) throw errors.badRequest('Project names may not contain spaces');
  if (name.includes('_')) throw errors.badRequest('Project names may not contain underscores');
  if (/['"]/.test(name)) throw errors.badRequest('Project names may not contain quotes');
  if (name === '*') throw errors.badRequest('Reserved project name');
  // Names become folders and parts of host names; control characters have no place in either.
  if (name === '.' || name === '..' || name.length > maxLength || /\p{Cc}/u.test(name)) {
    throw errors.badRequest(`Invalid project name ${JSON.stringify(name)}`);
  }
}
