import { names } from '@keelson/api';
import { describe, expect, it } from 'vitest';
import { checkName, refOf, volumeUrl } from './volume-names.ts';

describe('names of volumes', () => {
  it('are qualified by project for the driver', () => {
    const volume = { name: 'v', contentType: 'filesystem' } as const;
    expect(refOf({ ...volume, project: 'default', type: 'custom' }).name).toBe('default_v');
    expect(refOf({ ...volume, project: 'default', type: 'container' }).name).toBe('v');
    expect(refOf({ ...volume, project: 'other', type: 'container' }).name).toBe('other_v');
    expect(refOf({ ...volume, project: 'default', type: 'image' }).name).toBe('v');
  });

  it('are escaped in URLs, which name the project', () => {
    const volume = { pool: 'p', project: 'a b', type: 'custom', name: 'x y' } as const;
    expect(volumeUrl(volume, '/snapshots/s')).toBe(
      '/1.0/storage-pools/p/volumes/custom/x%20y/snapshots/s?project=a%20b',
    );
  });

  it.each(['', '.', '..', '.hidden', 'a/b', 'a\u0000b', 'x'.repeat(300)])('may not be %j', (name) => {
    expect(() => checkName(names.volumeName, name)).toThrow();
    expect(() => checkName(names.poolName, name)).toThrow();
  });
});
