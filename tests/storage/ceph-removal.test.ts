import { createWriteStream, readFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { type CephCluster, command, handled, named, startCeph, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { identify } from '../../packages/daemon/src/host/proc.ts';
import { rbdArguments } from '../../packages/daemon/src/host/tools/rbd.ts';
import { CephTestPool, disk } from './ceph-pool.ts';
import { probeRbd } from './rbd.ts';

const probe = await probeRbd();
const MIB = 1024 ** 2;

describe.skipIf(!probe.ok)(named('what goes from a ceph pool', probe), { timeout: 240_000 }, () => {
  let cluster: CephCluster;
  beforeAll(async () => {
    cluster = await startCeph();
  }, 180_000);
  afterAll(() => cluster?.[Symbol.asyncDispose](), 120_000);

  const rados = (pool: string, ...args: string[]) =>
    command('rados', ['--conf', cluster.conf, '--pool', pool, ...args]);

  it('leaves nothing, in whatever order it goes', { timeout: 300_000 }, async () => {
    await using at = await CephTestPool.make(cluster, 'order');
    const { volumes, snapshots } = at.pool;
    const make = async () => {
      await volumes.create(disk('a'), { size: MIB });
      await snapshots.create(disk('a'), 's0', { running: false });
      await volumes.copy({ ...disk('a'), snapshot: 's0' }, disk('b'));
      await volumes.copy(disk('a'), disk('c'));
      await volumes.copy(disk('b'), disk('d'));
    };
    const gone = ['a', 'b', 'c', 'd'].map((name) => () => volumes.delete(disk(name)));
    await make();
    await Promise.all(gone.map((remove) => remove()));
    expect([await at.images(), at.staged()]).toEqual([[], []]);
    await make();
    await Promise.all([snapshots.delete(disk('a'), 's0'), volumes.delete(disk('b'))]);
    expect(await at.images()).toEqual(['custom_a.block', 'custom_c.block', 'custom_d.block', 'zombie_custom_b.block']);
    await Promise.all([volumes.rename(disk('a'), 'e'), volumes.delete(disk('d')), volumes.delete(disk('c'))]);
    expect([await at.images(), at.staged()]).toEqual([['custom_e.block'], []]);
    expect(await at.snapshots('custom_e.block')).toEqual([]);
  });

  it('goes with the last clone also after a crash', { timeout: 300_000 }, async () => {
    await using at = await CephTestPool.make(cluster, 'crash');
    const { volumes } = at.pool;
    // a is a zombie that b stands on, c has a zombie snapshot that d stands on.
    for (const [name, copy] of [
      ['a', 'b'],
      ['c', 'd'],
    ] as const) {
      await volumes.create(disk(name), { size: MIB });
      await volumes.copy(disk(name), disk(copy));
    }
    await volumes.delete(disk('a'));
    expect(await at.images()).toContain('zombie_custom_a.block');
    expect(await at.snapshots('custom_c.block')).toEqual([expect.stringMatching(/^zombie_snapshot_/)]);
    for (const [image, clone] of [
      ['zombie_custom_a.block', 'custom_b.block'],
      ['custom_c.block', 'custom_d.block'],
    ] as const)
      at.note(`stood-${await at.id(clone)}`, { image: await at.id(image), clone: await at.id(clone) });
    const before = await at.images();
    await at.again();
    expect(await at.images(), 'while the clones are there').toEqual(before);
    await at.rbd('rm', '--no-progress', 'custom_b.block');
    await at.rbd('rm', '--no-progress', 'custom_d.block');
    await at.again();
    expect([await at.images(), at.staged()]).toEqual([['custom_c.block'], []]);
    expect(await at.snapshots('custom_c.block')).toEqual([]);
  });

  it('waits until whoever looks at the device lets go', { timeout: 120_000 }, async () => {
    await using at = await CephTestPool.make(cluster, 'looked');
    await at.pool.volumes.create(disk('a'), { size: MIB });
    await using device = await open(await at.pool.volumes.mount(disk('a')), 'r');
    const removing = handled(at.pool.volumes.delete(disk('a')));
    await setTimeout(3000);
    await device.close();
    await removing;
    expect(await at.images()).toEqual([]);
  });

  it('takes the remains of a removal along that was cut off', { timeout: 120_000 }, async () => {
    await using at = await CephTestPool.make(cluster, 'ghost');
    const { volumes } = at.pool;
    const ghost = async (name: string) => {
      await volumes.create(disk(name), { size: MIB });
      await rados('ghost', 'rm', `rbd_header.${await at.id(`custom_${name}.block`)}`);
    };
    await ghost('a');
    await volumes.delete(disk('a'));
    expect(await at.images()).toEqual([]);
    await ghost('b');
    expect(await at.images()).toEqual(['custom_b.block']);
    await volumes.create(disk('b'), { size: 2 * MIB });
    expect(await volumes.exists(disk('b'))).toBe(true);
    expect(await at.images()).toEqual(['custom_b.block']);
  });

  it('is not what another server makes in the same OSD pool', { timeout: 300_000 }, async () => {
    await using at = await CephTestPool.make(cluster, 'shared');
    const config = { 'ceph.osd.pool_name': 'shared', 'ceph.osd.force_reuse': 'true' };
    await using other = await CephTestPool.make(cluster, 'other', config);
    await using third = await CephTestPool.make(cluster, 'third', config);
    const pools = [at, other, third];
    const views = async () => (await at.images()).filter((image) => image.startsWith('view'));
    for (const [index, { pool }] of pools.entries()) {
      const volume = disk(`v${index}`);
      await pool.volumes.create(volume, { size: MIB });
      await pool.snapshots.create(volume, 's0', { running: false });
      await pool.snapshots.mount(volume, 's0', { idRange: undefined, clone: 'auto', nesting: false });
      await pool.unmount(); // nothing holds them any more
    }
    expect(await views()).toHaveLength(3);
    for (const [index, one] of pools.toReversed().entries()) {
      await one.again();
      expect(await views()).toHaveLength(2 - index);
    }
    for (const [index, { pool }] of pools.entries()) await pool.volumes.delete(disk(`v${index}`));
    expect(await at.images()).toEqual([]);
  });

  /** A snapshot of an image that stays as it is, as `rbd import-diff` reads it. */
  const nothingBut = (snapshot: string, size: number): Buffer => {
    const [name, length, bytes] = [Buffer.from(snapshot), Buffer.alloc(4), Buffer.alloc(8)];
    length.writeUInt32LE(name.length);
    bytes.writeBigUInt64LE(BigInt(size));
    return Buffer.concat([Buffer.from('rbd diff v1\nt'), length, name, Buffer.from('s'), bytes, Buffer.from('e')]);
  };

  it('waits for what a daemon began that is gone', { timeout: 300_000 }, async () => {
    await using at = await CephTestPool.make(cluster, 'late');
    await at.pool.volumes.create(disk('a'), { size: MIB });
    const place = { conf: cluster.conf, user: 'admin', pool: 'late' };
    const words = rbdArguments(
      place,
      ['import-diff', '--no-progress', '--image', 'custom_a.block', '--path', '-'],
      true,
    );
    const [fifo, late] = [join(at.path, 'fifo'), 'zombie_snapshot_late'];
    await command('mkfifo', [fifo]);
    // The shell ends, so that the command has no parent of ours; it waits for what it is to read.
    const started = command('sh', ['-c', 'rbd "$@" <"$0" >/dev/null 2>&1 & echo $!', fifo, ...words]);
    const input = createWriteStream(fifo);
    onTestFinished(() => void input.destroy());
    const pid = Number((await started).stdout);
    await until('the command', () => readFileSync(`/proc/${pid}/cmdline`, 'latin1').startsWith('rbd'));
    at.note('frozen-x', { image: 'custom_a.block', snapshot: late });
    let recovered = false;
    const recovering = handled(at.again().then(() => (recovered = true)));
    await setTimeout(1000);
    expect([recovered, await at.snapshots('custom_a.block')]).toEqual([false, []]);
    input.end(nothingBut(late, MIB));
    await recovering;
    expect(identify(pid)).toBeUndefined();
    expect([await at.images(), at.staged()]).toEqual([['custom_a.block'], []]);
    expect(await at.snapshots('custom_a.block')).toEqual([]);
  });
});
