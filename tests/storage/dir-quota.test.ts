import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { command, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { StoragePool, VolumeRef } from '../../packages/daemon/src/drivers/storage/contract.ts';
import { projectOf, setProject } from '../../packages/daemon/src/host/project-quota.ts';
import { driverNamed } from './drivers.ts';

const MIB = 1024 * 1024;
const options = { idRange: undefined, clone: 'auto', nesting: false } as const;
const root = (name: string): VolumeRef => ({ type: 'container', name, contentType: 'filesystem' });
const custom = (name: string): VolumeRef => ({ type: 'custom', name, contentType: 'filesystem' });

/** What the guest is told: of a project xfs speaks as of a full disk. */
const FULL = /quota exceeded|no space left/i;

const MAKE = {
  ext4: ['mkfs.ext4', '-q', '-O', 'project,quota', '-E', 'quotatype=prjquota'],
  xfs: ['mkfs.xfs', '-q'],
} as const;

describe.each(['ext4', 'xfs'] as const)('project quotas of dir on %s', (type) => {
  const folder = mkdtempSync(join(tmpdir(), `dir-quota-${type}-`));
  const at = join(folder, 'mount');
  let limits = false;
  let pool: StoragePool | undefined;

  const mount = async (option: string) => {
    const { code } = await command('mount', ['-o', `loop,${option}`, join(folder, 'image'), at], { anyExit: true });
    return code === 0;
  };
  beforeAll(async () => {
    mkdirSync(at);
    await command('truncate', ['--size', '400M', join(folder, 'image')]);
    const [program, ...args] = MAKE[type];
    await command(program, [...args, join(folder, 'image')]);
    limits = await mount('prjquota');
    if (!limits && !(await mount('noquota'))) return;
    const driver = driverNamed('dir');
    const source = join(at, 'pool');
    mkdirSync(source);
    const asked = { name: 'p', config: { source }, path: join(folder, 'storage-pools/p'), loopFile: '' };
    const spec = { ...asked, config: await driver.prepare(asked) };
    await driver.create(spec);
    pool = driver.open(spec);
    await pool.mount();
  });
  afterAll(async () => {
    await pool?.destroy();
    await command('umount', [at], { anyExit: true });
    rmSync(folder, { recursive: true, force: true });
  });
  /** The pool of a host that can do it, or the end of the test by name. */
  const limited = (skip: (reason: string) => never): StoragePool =>
    pool !== undefined && limits ? pool : skip(`this kernel does not mount ${type} with prjquota`);

  it('hold, grow live and do not shrink below what is used', async ({ skip }) => {
    const there = limited(skip);
    await there.volumes.create(custom('v'), {});
    const path = await there.volumes.mount(custom('v'));
    writeFileSync(join(path, 'old'), Buffer.alloc(4 * MIB, 1), { flush: true });
    await there.quota?.set(custom('v'), 10 * MIB);
    expect(() => writeFileSync(join(path, 'new'), Buffer.alloc(4 * MIB, 1), { flush: true })).not.toThrow();
    expect(await there.volumes.usage(custom('v'))).toBeGreaterThanOrEqual(8 * MIB);
    const script = `head -c ${8 * MIB} /dev/zero > more`;
    // Root of the host is not held; a guest's is.
    const asGuest = () =>
      command('setpriv', ['--reuid=65534', '--clear-groups', '--inh-caps=-all', 'sh', '-c', script], {
        cwd: path,
        anyExit: true,
      });
    await command('chmod', ['777', path]);
    expect((await asGuest()).stderr).toMatch(FULL);
    await there.quota?.set(custom('v'), 40 * MIB);
    expect((await asGuest()).code).toBe(0);
    await expect(there.quota?.set(custom('v'), 2 * MIB)).rejects.toMatchObject({ code: 'bad-request' });
    rmSync(join(path, 'more'));
    // xfs gives the space of a removed file back a moment later.
    await until('the space', async () => ((await there.volumes.usage(custom('v'))) ?? 0) < 9 * MIB);
    await there.quota?.set(custom('v'), 9 * MIB);
    await there.snapshots.create(custom('v'), 's0', { running: false });
    await there.snapshots.restore(custom('v'), 's0');
    expect(await there.volumes.usage(custom('v'))).toBeGreaterThanOrEqual(8 * MIB);
    expect((await asGuest()).stderr).toMatch(FULL);
    await there.quota?.set(custom('v'), undefined);
    await there.volumes.delete(custom('v'));
  });

  it('hold for roots, through snapshots and back', async ({ skip }) => {
    const there = limited(skip);
    await there.roots.createFilled(root('c'), options, async (path) => writeFileSync(join(path, 'below'), 'x'));
    await there.quota?.set(root('c'), 10 * MIB);
    for (const step of ['first', 'second']) {
      const { path } = await there.roots.mount(root('c'), options);
      await command('chmod', ['777', path]);
      const { stderr } = await command(
        'setpriv',
        ['--reuid=65534', '--clear-groups', '--inh-caps=-all', 'sh', '-c', `head -c ${20 * MIB} /dev/zero > ${step}`],
        { cwd: path, anyExit: true },
      );
      expect(stderr).toMatch(FULL);
      rmSync(join(path, step));
      writeFileSync(join(path, 'below'), step);
      await there.roots.unmount(root('c'));
      await there.snapshots.create(root('c'), step, { running: false });
    }
    await there.snapshots.restore(root('c'), 'first');
    expect(await there.volumes.usage(root('c'))).toBeLessThan(10 * MIB);
    await there.volumes.delete(root('c'));
  });

  it('are not promised where the file system has none', async ({ skip }) => {
    if (pool === undefined || limits) skip('the file system has them');
    else {
      await pool.volumes.create(custom('v'), {});
      await pool.quota?.set(custom('v'), 10 * MIB);
      expect(await pool.volumes.usage(custom('v'))).toBeUndefined();
      await pool.volumes.delete(custom('v'));
    }
  });

  it('label a tree and what is made in it later, and follow no link', async ({ skip }) => {
    if (pool === undefined) skip(`this kernel does not mount ${type} of this kind`);
    const tree = join(at, 'tree');
    mkdirSync(join(tree, 'deep'), { recursive: true });
    mkdirSync(join(at, 'outside'));
    symlinkSync(join(at, 'outside'), join(tree, 'link'));
    await command('mkfifo', [join(tree, 'fifo')]);
    writeFileSync(Buffer.concat([Buffer.from(`${tree}/deep/`), Buffer.from([0xff, 0xfe])]), 'x');
    await setProject(tree, 12_345);
    mkdirSync(join(tree, 'deep/late'));
    expect(
      await Promise.all([tree, join(tree, 'deep'), join(tree, 'deep/late'), join(at, 'outside')].map(projectOf)),
    ).toEqual([12_345, 12_345, 12_345, 0]);
    expect(existsSync(join(tree, 'fifo'))).toBe(true);
  });
});
