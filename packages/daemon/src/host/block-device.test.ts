import { expect, it } from 'vitest';
import { blockDeviceOf, numbers } from './block-device.ts';

it('block devices have the numbers the kernel shows', () => {
  expect(numbers(0x0801)).toBe('8:1');
  expect(numbers(0xfe00)).toBe('254:0');
  expect(numbers(0x1_00_03_05)).toBe('3:4101');
});

it('nothing is behind a path that is gone, or behind memory', async () => {
  expect(await blockDeviceOf('/no/such/path')).toBeUndefined();
  expect(await blockDeviceOf('/proc/self')).toBeUndefined();
});
