import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { command, startDaemon, type TestDaemon } from '@keelson/testkit';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { expectBack, expectLost, volumes } from './lost-pool.ts';

describe('a pool whose source is not what it was', () => {
  let daemon: TestDaemon;
  let outside: string;

  // A second try must not find what the first one left.
  beforeEach(async () => {
    outside = mkdtempSync(join(tmpdir(), 'keelson-sources-'));
    daemon = await startDaemon();
    await daemon.run('POST', '/1.0/storage-pools', { name: 'well', driver: 'dir' });
    await daemon.run('POST', volumes('well'), { name: 'v' });
  }, 120_000);
  afterEach(async () => {
    await daemon?.[Symbol.asyncDispose]();
    rmSync(outside, { recursive: true, force: true });
  }, 120_000);

  const at = (pool: string) => join(daemon.stateDir, 'storage-pools', pool);
  const file = (pool: string) => join(at(pool), 'custom/default_v/file');
  const prepare = async (pool: string): Promise<void> => {
    await daemon.run('POST', volumes(pool), { name: 'v' });
    writeFileSync(file(pool), 'old');
    await daemon.run('POST', `${volumes(pool)}/v/snapshots`, { name: 's0' });
    writeFileSync(file(pool), 'new');
  };

  const works = async (pool: string): Promise<void> => {
    await expectBack(daemon, pool);
    expect(readFileSync(file(pool), 'utf8')).toBe('new');
    await daemon.run('PUT', `${volumes(pool)}/v`, { restore: 's0' });
    expect(readFileSync(file(pool), 'utf8')).toBe('old');
    await daemon.run('DELETE', `${volumes(pool)}/v`);
    await daemon.run('DELETE', `/1.0/storage-pools/${pool}`);
  };

  /** The mount goes with the source, as that of a disk that is pulled out. */
  const unplug = (pool: string) => command('umount', ['-l', at(pool)]);

  it.each(['running', 'starting'])(
    'is unavailable, and back with its folder: %s',
    { timeout: 180_000 },
    async (when) => {
      const [pool, source] = [`dir-${when}`, join(outside, when)];
      mkdirSync(source);
      await daemon.run('POST', '/1.0/storage-pools', { name: pool, driver: 'dir', config: { source } });
      await prepare(pool);
      if (when === 'starting') await daemon.stop();
      await unplug(pool);
      renameSync(source, `${source}-away`);
      if (when === 'starting') await daemon.start();
      await expectLost(daemon, pool);
      renameSync(`${source}-away`, source);
      await works(pool);
      expect(existsSync(source)).toBe(true);
    },
  );

  it.each(['running', 'starting'])(
    'is unavailable, and back with its loop file: %s',
    { timeout: 180_000 },
    async (when) => {
      const pool = `loop-${when}`;
      await daemon.run('POST', '/1.0/storage-pools', { name: pool, driver: 'btrfs', config: { size: '128MiB' } });
      await prepare(pool);
      const image = join(daemon.stateDir, `disks/${pool}.img`);
      if (when === 'starting') await daemon.stop();
      await unplug(pool);
      renameSync(image, `${image}-away`);
      if (when === 'starting') await daemon.start();
      await expectLost(daemon, pool);
      renameSync(`${image}-away`, image);
      await works(pool);
      expect(existsSync(image)).toBe(false);
    },
  );

  it('says so when its loop file was cut off, and can be deleted', { timeout: 180_000 }, async () => {
    await daemon.run('POST', '/1.0/storage-pools', { name: 'cut', driver: 'btrfs', config: { size: '128MiB' } });
    await prepare('cut');
    const image = join(daemon.stateDir, 'disks/cut.img');
    await daemon.stop();
    await unplug('cut');
    truncateSync(image, 1024 ** 2);
    await daemon.start();
    await expectLost(daemon, 'cut');
    // A file system that is broken is never made anew over what may be rescued.
    expect(existsSync(image)).toBe(true);
    expect((await daemon.request('GET', '/1.0')).status).toBe(200);
  });
});
