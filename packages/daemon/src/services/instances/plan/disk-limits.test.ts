import { expect, it } from 'vitest';
import { planChange } from './changes.ts';
import { needsReplug } from './devices.ts';
import { diskRates } from './disk-limits.ts';

it.each<[Record<string, string>, unknown]>([
  [{}, undefined],
  [{ 'limits.read': '', 'limits.max': '' }, undefined],
  [{ 'limits.read': '10MB' }, { readBps: 10_000_000 }],
  [
    { 'limits.read': '10MiB', 'limits.write': '20iops' },
    { readBps: 10_485_760, writeIops: 20 },
  ],
  [{ 'limits.max': '30iops' }, { readIops: 30, writeIops: 30 }],
  [
    { 'limits.max': '1kB', 'limits.read': '5MB' },
    { readBps: 1000, writeBps: 1000 },
  ],
  [{ 'limits.max': '', 'limits.read': '512' }, { readBps: 512 }],
])('limits of a disk: %j', (device, rates) => {
  expect(diskRates(device)).toEqual(rates);
});

it('a running disk takes new limits where it is', () => {
  const root = { type: 'disk', path: '/', pool: 'p' };
  const data = { type: 'disk', path: '/data', pool: 'p', source: 'v' };
  const slow = { ...data, 'limits.read': '1MB' };
  const plan = (before: typeof data, after: typeof data) =>
    planChange({ config: {}, devices: { root, data: before } }, { config: {}, devices: { root, data: after } }).limits;
  expect([plan(data, slow), plan(slow, data), plan(slow, slow), plan(data, { ...data, path: '/d' })]).toEqual([
    true,
    true,
    false,
    false,
  ]);
  expect(needsReplug(data, slow)).toBe(false);
  expect(needsReplug(data, { ...slow, path: '/other' })).toBe(true);
  expect(needsReplug(root, { ...root, size: '1GB' })).toBe(false);
  expect(needsReplug({ type: 'nic' }, { type: 'nic', 'limits.max': '1Mbit' })).toBe(true);
});
