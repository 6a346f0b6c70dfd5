import type { ValueType } from './value-type.ts';

/** Longest name that is stored as a file name on every pool. */
const longest = 200;

function nameType(name: string, check: (value: string) => string | undefined): ValueType {
  return { name, check };
}

/** What no name may be: empty, a path, part of a path, or something a terminal or a configuration line would obey. */
function pathProblem(noun: string, value: string, slashes: string): string | undefined {
  if (value === '') {
    return 'No name provided';
  }
  if (value.includes('/')) {
    return slashes;
  }
  if (value === '.' || value === '..') {
    return `Invalid ${noun} name ${JSON.stringify(value)}`;
  }
  if (/\p{Cc}/u.test(value)) {
    return `Invalid ${noun} name: Cannot contain control characters`;
  }
  return value.length > longest ? `Invalid ${noun} name: Cannot be longer than ${longest} characters` : undefined;
}

/** Host name of 1 to 63 letters, digits and hyphens; starts with a letter, does not end with a hyphen. */
export const instanceName = nameType('instance name', (value) => {
  if (value.includes('/')) {
    return 'The character "/" is reserved for snapshots';
  }
  const problem = hostnameProblem(value);
  return problem === undefined ? undefined : `Invalid instance name: ${problem}`;
});

function hostnameProblem(value: string): string | undefined {
  if (value.length < 1 || value.length > 63) {
    return 'Name must be 1-63 characters long';
  }
  if (/^\d/.test(value)) {
    return 'Name must not start with a number';
  }
  if (!/^[a-zA-Z0-9-]+$/.test(value)) {
    return 'Name can only contain alphanumeric and hyphen characters';
  }
  if (value.startsWith('-') || value.endsWith('-')) {
    return `Name must not ${value.startsWith('-') ? 'start' : 'end'} with "-" character`;
  }
  return undefined;
}

/** Name of a snapshot of an instance or a volume. */
export const snapshotName = nameType('snapshot name', (value) => {
  const bad = /[/?+&#\s]/.exec(value)?.[0];
  if (value !== '' && bad !== undefined) {
    return `Invalid snapshot name: Cannot contain ${/\s/.test(bad) ? 'white space' : JSON.stringify(bad)}`;
  }
  return pathProblem('snapshot', value, '');
});

/** Name of a backup of an instance or a volume. */
export const backupName = nameType('backup name', (value) =>
  /\s/.test(value)
    ? 'Invalid backup name: Cannot contain white space'
    : pathProblem('backup', value, 'Backup names may not contain slashes'),
);

export const profileName = nameType('profile name', (value) =>
  pathProblem('profile', value, 'Profile names may not contain slashes'),
);

export const poolName = nameType('storage pool name', (value) => {
  if (/\s/.test(value)) {
    return 'Storage name cannot contain white space';
  }
  return pathProblem('storage pool', value, 'Storage pool names may not contain slashes');
});

/** Name of a custom storage volume. */
export const volumeName = nameType('storage volume name', (value) =>
  pathProblem('storage volume', value, 'Storage volume names may not contain slashes'),
);

export const projectName = nameType('project name', (value) => {
  if (value.includes(' ')) {
    return 'Project names may not contain spaces';
  }
  if (value.includes('_')) {
    return 'Project names may not contain underscores';
  }
  if (/['"]/.test(value)) {
    return 'Project names may not contain quotes';
  }
  if (value === '*') {
    return 'Reserved project name';
  }
  return pathProblem('project', value, 'Project names may not contain slashes');
});

/** Name of a device of an instance or a profile. */
export const deviceName = nameType('device name', (value) =>
  pathProblem('device', value, 'Device names may not contain slashes'),
);

/** Image alias; slashes are allowed, as in `debian/12`. */
export const aliasName = nameType('image alias', (value) => {
  if (value === '') {
    return 'No name provided';
  }
  return /\p{Cc}/u.test(value) || value.length > longest
    ? `Invalid image alias ${JSON.stringify(value.slice(0, 80))}`
    : undefined;
});

/** Name of a network or of an interface inside a guest: 2 to 15 characters, as the kernel takes it. */
export const interfaceName = nameType('interface name', (value) => {
  if (value.length < 2) {
    return 'Network interface is too short (minimum 2 characters)';
  }
  if (value.length > 15) {
    return 'Network interface is too long (maximum 15 characters)';
  }
  return /^[-_a-zA-Z0-9.]+$/.test(value) && value !== '..'
    ? undefined
    : 'Network interface contains invalid characters';
});
