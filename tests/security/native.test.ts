import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { command } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { encodeCommand } from '../../packages/daemon/src/drivers/storage/btrfs/send-stream.ts';
import type { StoragePool, VolumeRef } from '../../packages/daemon/src/drivers/storage/contract.ts';
import { driverNamed } from '../storage/drivers.ts';

const options = { idRange: undefined, clone: 'auto', nesting: false } as const;

describe('a hostile author of native streams', () => {
  let folder: string;
  let pool: StoragePool;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'keelson-native-'));
    const driver = driverNamed('btrfs');
    const asked = {
      name: 'native',
      config: { size: '256MiB' },
      path: join(folder, 'pool'),
      loopFile: join(folder, 'pool.img'),
    };
    const spec = { ...asked, config: await driver.prepare(asked) };
    await driver.create(spec);
    pool = driver.open(spec);
    await pool.mount();
  });
  afterAll(async () => {
    await pool?.destroy();
    rmSync(folder, { recursive: true, force: true });
  });

  /** A stream of a subvolume that `fill` fills. */
  async function stream(name: string, fill: (path: string) => void): Promise<Buffer> {
    const [path, file] = [join(pool.spec.path, name), join(folder, `${name}.bin`)];
    await command('btrfs', ['subvolume', 'create', path]);
    fill(path);
    await command('btrfs', ['property', 'set', path, 'ro', 'true']);
    await command('btrfs', ['send', '-f', file, path]);
    await command('btrfs', ['subvolume', 'delete', path]);
    return readFileSync(file);
  }

  async function arrive(target: VolumeRef, parts: readonly [string | undefined, Buffer][]): Promise<void> {
    if (pool.transfer === undefined) throw new Error('no transfer');
    await using receive = await pool.transfer.receive(target, { refresh: false });
    for (const [part, content] of parts) await receive.accept(part, Readable.from([content]));
    await receive.commit();
  }

  test('has no root that leads to the host', async () => {
    const good = await stream('good', (path) => mkdirSync(join(path, 'rootfs')));
    const bad = await stream('bad', (path) => symlinkSync('/', join(path, 'rootfs')));
    const target = (name: string): VolumeRef => ({ type: 'container', name, contentType: 'filesystem' });
    await expect(arrive(target('c1'), [[undefined, bad]])).rejects.toMatchObject({ code: 'bad-request' });
    const snapshot = arrive(target('c2'), [
      ['s', bad],
      [undefined, good],
    ]);
    await expect(snapshot).rejects.toMatchObject({ code: 'bad-request' });
    for (const name of ['c1', 'c2']) expect(await pool.volumes.exists(target(name))).toBe(false);
    await arrive(target('c3'), [[undefined, good]]);
    expect((await pool.roots.mount(target('c3'), options)).path).toMatch(/rootfs$/);
  });

  test('has no blocks that are files of the host', async () => {
    const target: VolumeRef = { type: 'custom', name: 'default_blocks', contentType: 'block' };
    const secret = join(folder, 'secret');
    const bad = await stream('blocks', (path) => symlinkSync(secret, join(path, 'root.img')));
    await expect(arrive(target, [[undefined, bad]])).rejects.toMatchObject({ code: 'bad-request' });
    expect(await pool.volumes.exists(target)).toBe(false);
  });

  test('writes nothing outside of the volume', async () => {
    const target: VolumeRef = { type: 'custom', name: 'default_files', contentType: 'filesystem' };
    const good = await stream('files', (path) => mkdirSync(join(path, 'a')));
    const end = good.length - encodeCommand(21, []).length;
    const text = (value: string): Buffer => Buffer.from(value);
    const number = Buffer.alloc(8);
    for (const path of ['../escaped', '../../escaped', '/escaped', `${folder}/escaped`, 'link/escaped']) {
      const more = [
        encodeCommand(9, [
          { type: 15, value: text('link') },
          { type: 3, value: number },
          { type: 17, value: text(folder) },
        ]),
        encodeCommand(3, [
          { type: 15, value: text(path) },
          { type: 3, value: number },
        ]),
      ];
      await arrive(target, [[undefined, Buffer.concat([good.subarray(0, end), ...more, good.subarray(end)])]]).catch(
        () => undefined,
      );
      if (await pool.volumes.exists(target)) await pool.volumes.delete(target);
      for (const place of [folder, '/', pool.spec.path, join(pool.spec.path, 'custom')])
        expect(existsSync(join(place, 'escaped')), `${path} in ${place}`).toBe(false);
    }
  });
});
