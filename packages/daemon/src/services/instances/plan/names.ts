import { errors } from '../../../core/errors.ts';

const MAX_LENGTH = 63;

/** @throws bad-request with LXD's text when an instance may not have this name (a DNS label). */
export function checkInstanceName(name: string): void {
  if (name.includes('/')) throw errors.badRequest('The character "/" is reserved for snapshots');
  const problem = hostnameProblem(name);
  if (problem !== undefined) throw errors.badRequest(`Invalid instance name: ${problem}`);
}

function hostnameProblem(name: string): string | undefined {
  if (name.length < 1 || name.length > MAX_LENGTH) return 'Name must be 1-63 characters long';
  if (/^[0-9]/.test(name)) return 'Name must not start with a number';
  if (name.startsWith('-')) return 'Name must not start with "-" character';
  if (name.endsWith('-')) return 'Name must not end with "-" character';
  if (!/^[a-zA-Z0-9-]+$/.test(name)) return 'Name can only contain alphanumeric and hyphen characters';
  return undefined;
}

/** @throws bad-request with LXD's text. `name` may be empty where the pattern names the snapshot. */
export function checkSnapshotName(name: string): void {
  if (name.includes('/')) throw errors.badRequest('Invalid snapshot name: Cannot contain "/"');
  if (name === '.' || name === '..' || name.length > 255 || /\p{Cc}/u.test(name)) {
    throw errors.badRequest(`Invalid snapshot name: "${name}"`);
  }
}

const ADJECTIVES = [
  'able',
  'apt',
  'brave',
  'brisk',
  'calm',
  'clear',
  'cosy',
  'deft',
  'eager',
  'fair',
  'fleet',
  'fond',
  'glad',
  'grand',
  'hardy',
  'keen',
  'kind',
  'light',
  'live',
  'loyal',
  'merry',
  'mild',
  'neat',
  'noble',
  'patient',
  'prime',
  'proud',
  'quick',
  'quiet',
  'rapid',
  'ready',
  'sharp',
  'smart',
  'solid',
  'steady',
  'sunny',
  'swift',
  'tidy',
  'trusty',
  'warm',
  'wise',
  'witty',
]; // prettier-ignore
const NOUNS = [
  'anchor',
  'barge',
  'bark',
  'beacon',
  'bow',
  'brig',
  'buoy',
  'canoe',
  'clipper',
  'coble',
  'cutter',
  'dhow',
  'dinghy',
  'dock',
  'dory',
  'ferry',
  'galley',
  'harbour',
  'helm',
  'hull',
  'jetty',
  'junk',
  'kayak',
  'ketch',
  'lugger',
  'mast',
  'oar',
  'pier',
  'pilot',
  'pinnace',
  'pram',
  'punt',
  'raft',
  'rudder',
  'sail',
  'schooner',
  'skiff',
  'sloop',
  'smack',
  'tender',
  'tug',
  'yawl',
]; // prettier-ignore

/** A name nobody has, such as `swift-ketch`. `random` as Math.random. */
export function generateName(taken: (name: string) => boolean, random: () => number): string {
  const pick = (words: readonly string[]): string => words[Math.floor(random() * words.length)] ?? 'keel';
  for (let attempt = 0; attempt < 50; attempt++) {
    const name = `${pick(ADJECTIVES)}-${pick(NOUNS)}`;
    if (!taken(name)) return name;
  }
  for (let number = 1; ; number++) {
    const name = `${pick(ADJECTIVES)}-${pick(NOUNS)}-${number}`;
    if (!taken(name)) return name;
  }
}
