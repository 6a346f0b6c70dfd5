import { expect, it } from 'vitest';
import { rbdArguments, type RbdPlace } from './rbd.ts';
import { verdictOn } from './rbd-orphans.ts';

const place: RbdPlace = { conf: '/etc/ceph/ceph.conf', user: 'admin', pool: 'lxd' };
const verdict = (args: readonly string[], at: RbdPlace = place) => verdictOn(place, rbdArguments(at, args, true));

it.each([
  [['cp', '--no-progress', 'lxd/a@s', 'lxd/new_x'], 'end'],
  [['deep', 'cp', '--no-progress', 'lxd/a@s', 'lxd/new_x'], 'end'],
  [['rm', '--no-progress', '--image', 'a'], 'wait'],
  [['snap', 'rollback', '--no-progress', '--image', 'a', '--snap', 's'], 'wait and end'],
  [['rename', 'new_x', 'a'], 'wait and end'],
] as const)('%j of a daemon that is gone: %s', (args, expected) => {
  expect(verdict(args)).toBe(expected);
  expect(verdictOn(place, rbdArguments(place, args))).toBe(expected);
});

it('leaves other pools, other clusters and what people type alone', () => {
  expect(verdict(['rm', 'a'], { ...place, pool: 'other' })).toBeUndefined();
  expect(verdict(['rm', 'a'], { ...place, conf: '/etc/ceph/far.conf' })).toBeUndefined();
  expect(verdictOn(place, ['--conf', place.conf, '--pool', 'lxd', 'rm', 'a'])).toBeUndefined();
  expect(verdictOn(place, ['rm', 'lxd/a'])).toBeUndefined();
});
