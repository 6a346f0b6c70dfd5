import { expect, it } from 'vitest';
import { formatBytes, progressMetadata } from './progress.ts';

it.each([
  [0, '0B'],
  [999, '999B'],
  [1000, '1.00kB'],
  [1_894_736_842, '1.89GB'],
  [2.5e12, '2.50TB'],
  [1e18, '1.00EB'],
])('formats %d bytes as %s', (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text);
});

it('tells a stage as LXD does', () => {
  expect(
    progressMetadata('create_instance_from_image_unpack', { percent: 99.9, bytesPerSecond: 1_894_736_842 }),
  ).toEqual({
    create_instance_from_image_unpack_progress: 'Unpack: 99% (1.89GB/s)',
    progress: { stage: 'create_instance_from_image_unpack', percent: '99', speed: '1894736842' },
  });
  expect(progressMetadata('fs', { bytes: 12_345_678 })).toEqual({
    fs_progress: '12.35MB',
    progress: { stage: 'fs', processed: '12345678' },
  });
});
