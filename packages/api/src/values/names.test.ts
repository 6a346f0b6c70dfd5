import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as names from './names.ts';

const byName = { ...names };
const all = Object.entries(byName);

describe('instance names', () => {
  test.each(['a', 'AB', 'web-1', 'x'.repeat(63)])('takes %s', (name) => {
    expect(names.instanceName.check(name)).toBeUndefined();
  });

  test.each([
    ['a/b', 'The character "/" is reserved for snapshots'],
    ['a_b', 'Invalid instance name: Name can only contain alphanumeric and hyphen characters'],
    ['-ab', 'Invalid instance name: Name must not start with "-" character'],
    ['ab-', 'Invalid instance name: Name must not end with "-" character'],
    ['1ab', 'Invalid instance name: Name must not start with a number'],
    ['x'.repeat(64), 'Invalid instance name: Name must be 1-63 characters long'],
    ['', 'Invalid instance name: Name must be 1-63 characters long'],
  ])('refuses %j', (name, message) => {
    expect(names.instanceName.check(name)).toBe(message);
  });
});

describe('other names', () => {
  test.each([
    ['profileName', 'a/b', 'Profile names may not contain slashes'],
    ['profileName', '..', 'Invalid profile name ".."'],
    ['poolName', 'a b', 'Storage name cannot contain white space'],
    ['poolName', '', 'No name provided'],
    ['volumeName', 'a/b', 'Storage volume names may not contain slashes'],
    ['projectName', 'a_b', 'Project names may not contain underscores'],
    ['snapshotName', 'a/b', 'Invalid snapshot name: Cannot contain "/"'],
    ['snapshotName', 'a+b', 'Invalid snapshot name: Cannot contain "+"'],
    ['interfaceName', 'x'.repeat(16), 'Network interface is too long (maximum 15 characters)'],
    ['interfaceName', 'a', 'Network interface is too short (minimum 2 characters)'],
    ['interfaceName', 'a:b', 'Network interface contains invalid characters'],
  ] as const)('%s refuses %j', (type, name, message) => {
    expect(byName[type].check(name)).toBe(message);
  });

  test('an alias may hold slashes', () => {
    expect(names.aliasName.check('debian/12')).toBeUndefined();
  });

  test.each(all.filter(([type]) => type !== 'aliasName'))('%s never lets a path through', (_, type) => {
    const climbing = fc.oneof(
      fc.constantFrom('', '.', '..', '/', '../x', 'a/../b', 'a\0b', 'a\nb'),
      fc.tuple(fc.string(), fc.string()).map((parts) => parts.join('/')),
    );
    fc.assert(
      fc.property(climbing, (name) => {
        expect(type.check(name)).toBeDefined();
      }),
    );
  });
});
