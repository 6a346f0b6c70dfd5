import { randomBytes } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { command, named, startDaemon, type TestDaemon } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectBack, expectLost, volumes } from './lost-pool.ts';
import { detachLoops, forgetGroup, logicalVolumes, lvmHere, noSpaceTimeout, removeGroup } from './lvm-host.ts';

const MIB = 1024 ** 2;
const groupOf = (pool: string) => `keelson-${process.pid}-${pool}`;

describe.skipIf(!lvmHere.ok)(
  named('faults of lvm pools', lvmHere),
  {
    timeout: 900_000,
  },
  () => {
    let daemon: TestDaemon;
    let outside: string;
    const made: string[] = [];

    beforeAll(async () => {
      outside = mkdtempSync(join(tmpdir(), 'keelson-lvm-faults-'));
      daemon = await startDaemon();
      await daemon.run('POST', '/1.0/storage-pools', { name: 'well', driver: 'dir' });
      for (const [name, size] of [
        ['small', 8],
        ['big', 90],
      ] as const) {
        await daemon.run('POST', volumes('well'), { name });
        writeFileSync(wellFile(name), randomBytes(size * MIB));
      }
    });
    afterAll(async () => {
      await daemon?.stop();
      for (const pool of made) await removeGroup(groupOf(pool));
      await daemon?.[Symbol.asyncDispose]();
      rmSync(outside, { recursive: true, force: true });
    });

    const wellFile = (volume: string) => join(daemon.stateDir, `storage-pools/well/custom/default_${volume}/f`);
    const image = (pool: string) => join(daemon.stateDir, `disks/${pool}.img`);
    const makePool = async (name: string, config: Record<string, string>): Promise<void> => {
      made.push(name);
      const all = { 'lvm.vg_name': groupOf(name), 'volume.size': '64MiB', ...config };
      await daemon.run('POST', '/1.0/storage-pools', { name, driver: 'lvm', config: all });
    };
    const copyOf = (pool: string, name: string) => ({ type: 'copy', pool, name });
    /** The error of a request or of its operation; empty when all went well. */
    const failureOf = (method: string, path: string, body?: unknown): Promise<string> =>
      daemon.run(method, path, body).then(
        () => '',
        (error: unknown) => String(error),
      );
    /** Content of a volume's file, by way of a copy in the pool that is well. */
    const contentOf = async (pool: string, name: string): Promise<Buffer> => {
      await daemon.run('POST', volumes('well'), { name: 'seen', source: copyOf(pool, name) });
      const content = readFileSync(wellFile('seen'));
      await daemon.run('DELETE', `${volumes('well')}/seen`);
      return content;
    };

    describe('space that runs out', () => {
      it.each([
        ['thin', {}, /No space left in the thin pool ".*\/LXDThinPool" of storage pool "thin"/],
        ['plain', { 'lvm.use_thinpool': 'false', 'volume.size': '120MiB' }, /No space left in the volume group/],
      ])('fails the copy, keeps the rest, and is mended by growing: %s', async (pool, config, refusal) => {
        using _timeout = noSpaceTimeout(3);
        await makePool(pool, { size: '96MiB', 'volume.size': '160MiB', ...config });
        await daemon.run('POST', volumes(pool), {
          name: 'old',
          config: { size: '24MiB' },
          source: copyOf('well', 'small'),
        });
        const failing = failureOf('POST', volumes(pool), { name: 'new', source: copyOf('well', 'big') });
        expect((await daemon.request('GET', '/1.0')).status).toBe(200);
        expect(await failing).toMatch(refusal);
        expect(await logicalVolumes(groupOf(pool))).toEqual(['custom_default_old']);
        expect((await daemon.request('GET', `${volumes(pool)}/new`)).status).toBe(404);
        expect((await daemon.request('GET', `/1.0/storage-pools/${pool}/resources`)).status).toBe(200);
        expect((await contentOf(pool, 'old')).equals(readFileSync(wellFile('small')))).toBe(true);
        await daemon.run('PATCH', `/1.0/storage-pools/${pool}`, { config: { size: '400MiB' } });
        await daemon.run('POST', volumes(pool), { name: 'new', source: copyOf('well', 'big') });
        expect((await contentOf(pool, 'new')).equals(readFileSync(wellFile('big')))).toBe(true);
      });

      it('fails writes of a guest after a while; they go on when the pool has grown', async () => {
        using _timeout = noSpaceTimeout(3);
        await makePool('busy', { size: '96MiB', 'volume.size': '160MiB' });
        for (const name of ['old', 'full'])
          await daemon.run('POST', volumes('busy'), { name, source: copyOf('well', 'small') });
        const device = `/dev/${groupOf('busy')}/custom_default_full`;
        const at = mkdtempSync(join(outside, 'mount-'));
        const mount = async () => {
          await command('lvchange', ['--activate', 'y', '--ignoreactivationskip', device.slice('/dev/'.length)]);
          await command('mount', ['-o', 'discard', device, at]);
        };
        const write = async (mib: number) =>
          (
            await command('dd', ['if=/dev/urandom', `of=${at}/more`, 'bs=1M', `count=${mib}`, 'conv=fsync'], {
              anyExit: true,
            })
          ).code;
        await mount();
        expect(await write(20)).toBe(0);
        expect(await write(120)).not.toBe(0);
        expect((await daemon.request('GET', '/1.0/storage-pools/busy/resources')).status).toBe(200);
        // A little may still fit.
        const refused = await failureOf('POST', volumes('busy'), { name: 'another' });
        expect(refused).toMatch(/^$|No space left in the thin pool/);
        if (refused === '') await daemon.run('DELETE', `${volumes('busy')}/another`);
        // What was written before is there, on the full volume as on the others.
        expect(readFileSync(join(at, 'f')).equals(readFileSync(wellFile('small')))).toBe(true);
        await daemon.run('PATCH', '/1.0/storage-pools/busy', { config: { size: '400MiB' } });
        // The file system may have given up; mounted again it works.
        await command('umount', [at]);
        await mount();
        expect(await write(120)).toBe(0);
        await command('umount', [at]);
        expect((await contentOf('busy', 'old')).equals(readFileSync(wellFile('small')))).toBe(true);
        expect((await contentOf('busy', 'full')).equals(readFileSync(wellFile('small')))).toBe(true);
        await daemon.run('POST', volumes('busy'), { name: 'another' });
      });
    });

    describe('a source that is not what it was', () => {
      const prepare = async (pool: string): Promise<void> => {
        await daemon.run('POST', volumes(pool), { name: 'v', source: copyOf('well', 'small') });
        await daemon.run('POST', `${volumes(pool)}/v/snapshots`, { name: 's0' });
      };
      const works = async (pool: string): Promise<void> => {
        await expectBack(daemon, pool);
        await daemon.run('PUT', `${volumes(pool)}/v`, { restore: 's0' });
        expect((await contentOf(pool, 'v')).equals(readFileSync(wellFile('small')))).toBe(true);
        await daemon.run('DELETE', `${volumes(pool)}/v`);
        await daemon.run('DELETE', `/1.0/storage-pools/${pool}`);
      };

      it.each(['running', 'starting'])('the device of the group is pulled out and comes back: %s', async (when) => {
        const [pool, file] = [`device-${when}`, join(outside, `${when}.img`)];
        writeFileSync(file, '');
        truncateSync(file, 256 * MIB);
        const attach = async () => (await command('losetup', ['--find', '--show', file])).stdout.trim();
        await makePool(pool, { source: await attach() });
        await prepare(pool);
        if (when === 'starting') await daemon.stop();
        await forgetGroup(groupOf(pool));
        await detachLoops(file);
        if (when === 'starting') await daemon.start();
        await expectLost(daemon, pool, /Volume group ".*" of the pool ".*" doesn't exist/);
        await attach();
        await works(pool);
        expect((await daemon.request('GET', `/1.0/storage-pools/${pool}`)).status).toBe(404);
        await detachLoops(file);
      });

      it('the loop file is away and comes back', async () => {
        await makePool('away', { size: '256MiB' });
        await prepare('away');
        await daemon.stop();
        await forgetGroup(groupOf('away'));
        await detachLoops(image('away'));
        renameSync(image('away'), `${image('away')}-away`);
        await daemon.start();
        await expectLost(daemon, 'away', /Source ".*away.img" of the pool "away" doesn't exist/);
        renameSync(`${image('away')}-away`, image('away'));
        await works('away');
        expect(existsSync(image('away'))).toBe(false);
      });

      it.each([
        ['running', 'half', 128 * MIB, /is smaller than it was: 134217728 bytes of 26\d+/],
        ['starting', 'half', 128 * MIB, /is smaller than it was: 134217728 bytes of 26\d+/],
        ['starting', 'all', 0, /Volume group ".*" of the pool ".*" doesn't exist|is smaller than it was/],
      ])('the loop file is cut off and put back: %s, %s of it', async (when, part, size, reason) => {
        const pool = `cut-${when}-${part}`;
        await makePool(pool, { size: '256MiB' });
        await prepare(pool);
        if (when === 'starting') await daemon.stop();
        await forgetGroup(groupOf(pool));
        if (when === 'starting') await detachLoops(image(pool));
        await command('sync', []); // what is written later would make the file longer again
        copyFileSync(image(pool), join(outside, 'whole'));
        truncateSync(image(pool), size);
        if (when === 'starting') await daemon.start();
        await expectLost(daemon, pool, reason);
        // Nothing is made anew over what may be rescued.
        expect(readFileSync(image(pool)).length).toBe(size);
        // A loop device would go on with what it read of the short file.
        await detachLoops(image(pool));
        copyFileSync(join(outside, 'whole'), image(pool));
        await works(pool);
      });
    });
  },
);
