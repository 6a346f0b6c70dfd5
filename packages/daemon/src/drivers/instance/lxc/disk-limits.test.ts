import { expect, it } from 'vitest';
import { mergeDisks } from './disk-limits.ts';

it('several disks on one device share the mean of their limits', () => {
  expect(
    mergeDisks([
      { device: '8:0', readBps: 100, writeIops: 10 },
      { device: '8:16', readIops: 7 },
      { device: '8:0', readBps: 301 },
    ]),
  ).toEqual([
    { device: '8:0', readBps: 200, writeIops: 10 },
    { device: '8:16', readIops: 7 },
  ]);
});
