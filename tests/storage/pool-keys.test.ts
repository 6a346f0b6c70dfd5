import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { StorageVolume } from '@keelson/api';
import { startDaemon, type TestDaemon } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const volumes = (pool: string) => `/1.0/storage-pools/${pool}/volumes/custom`;
const MIB = 1024 ** 2;

describe('keys of a pool', () => {
  let daemon: TestDaemon;

  beforeAll(async () => {
    daemon = await startDaemon();
    await daemon.run('POST', '/1.0/storage-pools', { name: 'p', driver: 'dir' });
    await daemon.run('POST', '/1.0/storage-pools', { name: 'b', driver: 'btrfs', config: { size: '256MiB' } });
  });
  afterAll(() => daemon?.[Symbol.asyncDispose]());

  const file = (pool: string, volume: string) =>
    join(daemon.stateDir, 'storage-pools', pool, `custom/default_${volume}/file`);
  const configOf = async (pool: string, name: string) =>
    (await daemon.request<StorageVolume>('GET', `${volumes(pool)}/${name}`)).body.metadata.config;

  it('rsync.bwlimit holds for copies between pools, and may change at any time', { timeout: 180_000 }, async () => {
    await daemon.run('POST', volumes('p'), { name: 'v' });
    const content = randomBytes(6 * MIB);
    writeFileSync(file('p', 'v'), content);
    const source = { type: 'copy', pool: 'p', name: 'v' };
    await daemon.run('PATCH', '/1.0/storage-pools/b', { config: { 'rsync.bwlimit': '2MiB' } });
    const started = performance.now();
    await daemon.run('POST', volumes('b'), { name: 'slow', source });
    expect(performance.now() - started).toBeGreaterThan(1500);
    expect(readFileSync(file('b', 'slow')).equals(content)).toBe(true);
    await daemon.run('PATCH', '/1.0/storage-pools/b', { config: { 'rsync.bwlimit': '' } });
    await daemon.run('POST', volumes('b'), { name: 'fast', source });
    expect(readFileSync(file('b', 'fast')).equals(content)).toBe(true);
  });

  it('volume.* are defaults that a volume overrides', async () => {
    await daemon.run('PATCH', '/1.0/storage-pools/b', {
      config: { 'volume.size': '16MiB', 'volume.snapshots.expiry': '3d' },
    });
    await daemon.run('POST', volumes('b'), { name: 'plain' });
    expect(await configOf('b', 'plain')).toMatchObject({ size: '16MiB', 'snapshots.expiry': '3d' });
    await daemon.run('POST', volumes('b'), { name: 'own', config: { size: '32MiB' } });
    expect(await configOf('b', 'own')).toMatchObject({ size: '32MiB', 'snapshots.expiry': '3d' });
    // EDQUOT, which Node has no name for.
    expect(() => writeFileSync(file('b', 'plain'), randomBytes(24 * MIB))).toThrow('write');
    writeFileSync(file('b', 'own'), randomBytes(24 * MIB));
    // Later defaults are for later volumes.
    await daemon.run('PATCH', '/1.0/storage-pools/b', { config: { 'volume.size': '8MiB' } });
    expect(await configOf('b', 'plain')).toMatchObject({ size: '16MiB' });
  });

  it('an update that cannot be is refused with the name of the key', async () => {
    for (const [config, text] of [
      [{ 'volume.size': 'much' }, 'Invalid value for option "volume.size": Invalid value: much'],
      [{ 'zfs.pool_name': 'x' }, 'Invalid option "zfs.pool_name"'],
      [{ 'rsync.compression': 'maybe' }, 'Invalid value for option "rsync.compression"'],
      [{ size: '128MiB' }, 'size'],
    ] as const) {
      const { status, body } = await daemon.request('PATCH', '/1.0/storage-pools/b', { config });
      expect([status, body.error]).toEqual([400, expect.stringContaining(text)]);
    }
  });
});
