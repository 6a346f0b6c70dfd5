import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { mkdir, open, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { type CephCluster, command, findLeftovers, named, startCeph } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type {
  NativeTransfer,
  PoolSpec,
  StoragePool,
  VolumeRef,
} from '../../packages/daemon/src/drivers/storage/contract.ts';
import { describeNativeTransfer } from '../../packages/daemon/src/drivers/storage/conformance/native-transfer.ts';
import { cephDriver } from './ceph-pool.ts';
import { probeRbd } from './rbd.ts';

const probe = await probeRbd();
const MIB = 1024 ** 2;
const plain = { idRange: undefined, clone: 'auto', nesting: false } as const;

describe.skipIf(!probe.ok)(named('volumes between pools of a real Ceph', probe), { timeout: 240_000 }, () => {
  let cluster: CephCluster;
  beforeAll(async () => {
    cluster = await startCeph();
  }, 120_000);
  afterAll(() => cluster?.[Symbol.asyncDispose](), 60_000);

  const newDriver = () => cephDriver(cluster);
  const specIn = (folder: string): PoolSpec => ({
    name: 'p',
    config: { 'ceph.osd.pg_num': '4', 'ceph.osd.pool_name': basename(folder), 'volume.size': '256MiB' },
    path: join(folder, 'storage-pools/p'),
    loopFile: join(folder, 'disks/p.img'),
  });

  describeNativeTransfer('rbd', { newDriver, volumeConfig: { size: '64MiB' }, checksums: false, spec: specIn });

  describe('that are not what they should be', () => {
    let folder: string;
    let pool: StoragePool;
    const volume = (name: string, more: Partial<VolumeRef> = {}): VolumeRef => ({
      type: 'custom',
      name,
      contentType: 'filesystem',
      ...more,
    });

    beforeAll(async () => {
      folder = mkdtempSync(join(tmpdir(), 'ceph-hostile-'));
      const asked = specIn(folder);
      const spec = { ...asked, config: await newDriver().prepare(asked) };
      await newDriver().create(spec);
      pool = newDriver().open(spec);
      await pool.mount();
    }, 240_000);
    afterAll(async () => {
      await pool?.destroy();
      const { loops } = await findLeftovers(folder);
      rmSync(folder, { recursive: true, force: true });
      if (loops.length > 0) throw new Error(`left over: ${loops.join(' ')}`);
    }, 240_000);

    const transfer = (): NativeTransfer => {
      if (pool.transfer === undefined) throw new Error('no transfer');
      return pool.transfer;
    };
    const images = async (): Promise<string[]> =>
      JSON.parse(await cluster.rbd('ls', '--format', 'json', basename(folder)));
    /** A stream of a device that `make` fills. */
    const streamOf = async (make: (file: string) => Promise<void>): Promise<Buffer> => {
      const file = join(folder, 'disk');
      await using disk = await open(file, 'w');
      await disk.truncate(64 * MIB);
      await make(file);
      const image = `${basename(folder)}/made`;
      await cluster.rbd('import', '--no-progress', file, image);
      const { stdout } = await command('sh', [
        '-c',
        `rbd --conf "$0" export-diff --no-progress "$1" - | base64 -w0`,
        cluster.conf,
        image,
      ]);
      await cluster.rbd('rm', '--no-progress', image);
      return Buffer.from(stdout, 'base64');
    };
    const arrive = async (target: VolumeRef, ...parts: [string | undefined, Buffer][]): Promise<void> => {
      await using receive = await transfer().receive(target, { refresh: false });
      for (const [part, content] of parts) await receive.accept(part, Readable.from([content]));
      await receive.commit();
    };
    const ext4 = (file: string) => command('mkfs.ext4', ['-q', '-F', file]).then(() => undefined);
    const within = async (file: string, fill: (path: string) => void) => {
      const path = join(folder, 'mounted');
      await mkdir(path, { recursive: true });
      await command('mount', ['-o', 'loop', file, path]);
      fill(path);
      await command('umount', [path]);
    };
    const poke = async (file: string, at: number, bytes: Buffer) => {
      await using disk = await open(file, 'r+');
      await disk.write(bytes, 0, bytes.length, at);
    };

    it.each<[string, (file: string) => Promise<void>, RegExp]>([
      ['nothing', () => Promise.resolve(), /no file system this server knows/],
      [
        'another file system',
        async (file) => void (await command('mkswap', [file])),
        /no file system this server knows/,
      ],
      [
        'a broken file system',
        async (file) => {
          await command('mkfs.ext4', ['-q', '-F', '-O', '^metadata_csum', file]);
          await poke(file, 4096, Buffer.alloc(MIB, 0x5a));
        },
        /ext4 file system is broken/,
      ],
      [
        'a journal elsewhere',
        async (file) => {
          await command('mkfs.ext4', ['-q', '-F', '-O', '^metadata_csum', file]);
          await poke(file, 1024 + 0xe4, Buffer.from([1, 7, 0, 0]));
        },
        /journal on another device/,
      ],
      [
        'mount options of its own',
        async (file) => {
          await ext4(file);
          await command('tune2fs', ['-E', 'mount_opts=errors=panic', file]);
        },
        /mount options of its own/,
      ],
    ])('hold %s: they do not arrive', async (_, make, told) => {
      const content = await streamOf(make);
      await expect(arrive(volume('bad'), [undefined, content])).rejects.toMatchObject({
        code: 'bad-request',
        message: expect.stringMatching(told),
      });
      expect(await images()).toEqual([expect.stringMatching(/^lxd_/)]);
    });

    it('never panic the host: what an ext4 says of errors does not count', async () => {
      const content = await streamOf(async (file) => {
        await ext4(file);
        await command('tune2fs', ['-e', 'panic', file]);
      });
      await arrive(volume('angry'), [undefined, content]);
      const path = await pool.volumes.mount(volume('angry'));
      const [options = ''] = readFileSync('/proc/mounts', 'utf8')
        .split('\n')
        .filter((line) => line.includes(` ${path} `));
      expect(options).toContain('errors=remount-ro');
      await pool.volumes.delete(volume('angry'));
    });

    it('have no root that leads to the host, in a snapshot neither', async () => {
      const root = volume('c1', { type: 'container' });
      const bad = await streamOf(async (file) => {
        await ext4(file);
        await within(file, (path) => symlinkSync('/', join(path, 'rootfs')));
      });
      await expect(arrive(root, [undefined, bad])).rejects.toMatchObject({ code: 'bad-request' });
      await pool.roots.createFilled(volume('c2', { type: 'container' }), { ...plain, config: { size: '64MiB' } });
      await using send = await transfer().send(volume('c2', { type: 'container' }), { running: false });
      const good = await buffer(await send.open(undefined, undefined));
      // A snapshot is looked at when it is mounted.
      const head = Buffer.from(good.subarray('rbd diff v1\n'.length));
      const name = Buffer.from('f\x0b\0\0\0snapshot_s0', 'latin1');
      const later = Buffer.concat([Buffer.from('rbd diff v1\n'), name, head]);
      await arrive(root, ['s0', bad], [undefined, later]);
      expect((await pool.roots.mount(root, plain)).path).toMatch(/rootfs$/);
      await expect(pool.snapshots.mount(root, 's0', plain)).rejects.toMatchObject({ code: 'bad-request' });
      await pool.snapshots.unmount(root, 's0');
      for (const name of ['c1', 'c2']) await pool.volumes.delete(volume(name, { type: 'container' }));
    });

    it('are no larger than what was asked for', async () => {
      const content = await streamOf(ext4);
      const blocks = volume('blocks', { contentType: 'block' });
      const take = async (size: string) => {
        await using receive = await transfer().receive(blocks, { refresh: false, config: { size } });
        await receive.accept(undefined, Readable.from([content]));
        await receive.commit();
      };
      await expect(take('32MiB')).rejects.toThrow('more than the size asked for');
      await take('128MiB');
      const { size } = JSON.parse(
        await cluster.rbd('info', '--format', 'json', `${basename(folder)}/custom_blocks.block`),
      );
      expect(size).toBe(128 * MIB);
      await pool.volumes.delete(blocks);
    });

    it('lead to no half refreshed volume when the daemon is killed', async () => {
      const config = { size: '64MiB' };
      const [from, to] = [volume('from'), volume('to')];
      const write = async (name: string, text: string) => {
        await writeFile(join(await pool.volumes.mount(name === 'to' ? to : from), 'file'), text);
        await pool.volumes.unmount(name === 'to' ? to : from);
      };
      await pool.volumes.create(from, { config });
      await write('from', 'one');
      await pool.snapshots.create(from, 's1', { running: false });
      const streams = async (names: readonly (string | undefined)[], parent?: string) => {
        await using send = await transfer().send(from, { running: false });
        const found: [string | undefined, Buffer][] = [];
        let before = parent;
        for (const name of names) {
          found.push([name, await buffer(await send.open(name, before))]);
          before = name;
        }
        return found;
      };
      await arrive(to, ...(await streams(['s1', undefined])));
      await write('to', 'changed here');
      await write('from', 'two');
      await pool.snapshots.create(from, 's2', { running: false });
      await write('from', 'three');
      // What a daemon leaves that is killed after the first of two states has gone over.
      const receive = await transfer().receive(to, { refresh: true });
      for (const [part, content] of await streams(['s2', undefined], 's1'))
        await receive.accept(part, Readable.from([content]));
      expect(readFileSync(join(await pool.volumes.mount(to), 'file'), 'utf8')).toBe('changed here');
      await pool.volumes.unmount(to);
      const staged = (await images()).find((name) => name.startsWith('new_'));
      if (staged === undefined) throw new Error('nothing staged');
      const entry = { volume: to, staged, base: 'snapshot_s1', parts: ['snapshot_s2'], size: 64 * MIB };
      writeFileSync(join(pool.spec.path, 'staging/refresh-x'), JSON.stringify(entry));
      const again = newDriver().open(pool.spec);
      await again.mount();
      await again.recover([]);
      expect(readFileSync(join(await again.volumes.mount(to), 'file'), 'utf8')).toBe('three');
      await again.volumes.unmount(to);
      expect(await again.snapshots.list(to)).toEqual(['s1', 's2']);
      expect(readdirSync(join(pool.spec.path, 'staging'))).toEqual([]);
      expect((await images()).sort()).toEqual(['custom_from', 'custom_to', expect.stringMatching(/^lxd_/)]);
      await again.snapshots.restore(to, 's2');
      expect(readFileSync(join(await again.volumes.mount(to), 'file'), 'utf8')).toBe('two');
      await again.volumes.unmount(to);
      await receive[Symbol.asyncDispose]();
      for (const one of [from, to]) await pool.volumes.delete(one);
    });
  });
});
