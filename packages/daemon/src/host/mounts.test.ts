import { describe, expect, it } from 'vitest';
import { fitsOverlay, overlayData, parseMountInfo } from './mounts.ts';

describe('parseMountInfo', () => {
  it('reads fields, optional fields and octal escapes', () => {
    const text =
      '36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n' +
      '37 36 0:20 / /proc rw - proc proc rw\n';
    expect(parseMountInfo(text)).toEqual([
      {
        id: 36,
        parent: 35,
        device: '98:0',
        root: '/mnt1',
        target: '/mnt 2',
        options: ['rw', 'noatime'],
        type: 'ext3',
        source: '/dev/root',
        superOptions: ['rw', 'errors=continue'],
      },
      expect.objectContaining({ target: '/proc', type: 'proc', options: ['rw'] }),
    ]);
  });
});

describe('overlayData', () => {
  it('escapes what the option parser would split at', () => {
    const data = overlayData({ lower: ['/a:b', '/c,d'], upper: '/u,1', work: '/w' });
    expect(data).toContain('lowerdir=/a\\:b:/c\\,d,');
    expect(data).toContain('upperdir=/u\\,1,workdir=/w,');
  });

  it('knows what one mount call can hold', () => {
    expect(fitsOverlay({ lower: ['/short'] })).toBe(true);
    expect(fitsOverlay({ lower: Array.from({ length: 50 }, () => `/${'x'.repeat(100)}`) })).toBe(false);
  });
});
