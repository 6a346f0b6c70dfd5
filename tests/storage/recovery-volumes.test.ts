import {
  openSync,
  closeSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  readSync,
  writeSync,
  fsyncSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Instance, InstanceSnapshot, RecoverPoolPost, RecoverResult, StorageVolume } from '@keelson/api';
import {
  type CephCluster,
  command,
  named,
  type Probe,
  startCeph,
  startDaemon,
  type TestDaemon,
  tinyImage,
  until,
} from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { silentLog } from '../../packages/daemon/src/core/log.ts';
import type { StoragePool, VolumeRef } from '../../packages/daemon/src/drivers/storage/contract.ts';
import { StorageDrivers } from '../../packages/daemon/src/drivers/storage/registry.ts';
import { driverNamed } from './drivers.ts';
import { manifestOf } from './manifest.ts';
import { probeRbd } from './rbd.ts';

/** Where a pool can be made, and is found again by its source alone. */
interface Place extends AsyncDisposable {
  readonly source: string;
  readonly create: Readonly<Record<string, string>>;
  readonly cephFolder?: string;
}

const patience = Number(process.env['KEELSON_TEST_PATIENCE'] ?? 1);
const quiet = { env: { LVM_SUPPRESS_FD_WARNINGS: '1' } };

async function probeDriver(name: string): Promise<Probe> {
  const { supported, reason = '' } = await driverNamed(name).probe();
  return supported ? { ok: true } : { ok: false, reason };
}

/** A file of 1 GiB in a folder of its own. */
function disk(): { readonly file: string } & Disposable {
  const folder = mkdtempSync(join(tmpdir(), 'keelson-recovery-'));
  const file = join(folder, 'disk');
  writeFileSync(file, '');
  truncateSync(file, 1024 ** 3);
  return { file, [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) };
}

async function cephPlace(): Promise<Place> {
  const cluster: CephCluster = await startCeph();
  return {
    source: 'lost',
    create: { 'ceph.osd.pg_num': '4', source: 'lost', 'volume.size': '64MiB' },
    cephFolder: cluster.folder,
    [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
  };
}

async function lvmPlace(): Promise<Place> {
  const { file, [Symbol.dispose]: drop } = disk();
  const group = `keelson-lost-${process.pid}`;
  const loop = (await command('losetup', ['--find', '--show', file])).stdout.trim();
  await command('vgcreate', [group, loop], quiet);
  return {
    source: group,
    create: { source: group, 'volume.size': '64MiB' },
    [Symbol.asyncDispose]: async () => {
      await command('vgremove', ['--force', group], { ...quiet, anyExit: true });
      await command('losetup', ['--detach', loop], { anyExit: true });
      drop();
    },
  };
}

async function zfsPlace(): Promise<Place> {
  const { file, [Symbol.dispose]: drop } = disk();
  const zpool = `keelson-lost-${process.pid}`;
  await command('zpool', ['create', '-m', 'none', zpool, file]);
  return {
    source: `${zpool}/lxd`,
    create: { source: `${zpool}/lxd`, 'volume.size': '64MiB', 'volume.zfs.remove_snapshots': 'true' },
    [Symbol.asyncDispose]: async () => {
      await command('zpool', ['destroy', '-f', zpool], { anyExit: true });
      drop();
    },
  };
}

const targets = [
  { driver: 'ceph', probe: await probeRbd(), open: cephPlace },
  { driver: 'lvm', probe: await probeDriver('lvm'), open: lvmPlace },
  { driver: 'zfs', probe: await probeDriver('zfs'), open: zfsPlace },
];

describe.each(targets)('$driver', ({ driver, probe, open }) => {
  describe.skipIf(!probe.ok)(named(`recovery of lost records from a ${driver} pool`, probe), () => {
    let place: Place;
    let daemon: TestDaemon;
    let drivers: StorageDrivers;

    beforeAll(async () => {
      place = await open();
      drivers = new StorageDrivers(silentLog, { cephFolder: place.cephFolder });
      daemon = await startDaemon({
        ...(place.cephFolder === undefined ? {} : { env: { KEELSON_CEPH_DIR: place.cephFolder } }),
      });
      await daemon.run('POST', '/1.0/storage-pools', {
        name: 'p',
        driver,
        config: place.create,
        description: 'shared one',
      });
      await importTiny();
    }, 180_000 * patience);
    afterAll(async () => {
      await daemon?.[Symbol.asyncDispose]();
      await drivers?.[Symbol.asyncDispose]();
      await place?.[Symbol.asyncDispose]();
    }, 120_000 * patience);

    const at = (...parts: string[]): string => join(daemon.stateDir, 'storage-pools/p', ...parts);
    const lxc = (...args: string[]) =>
      command('lxc', args, { env: { LXD_DIR: daemon.stateDir }, anyExit: true, timeoutMs: 120_000 });
    const ok = async (...args: string[]): Promise<string> => {
      const { code, stdout, stderr } = await lxc(...args);
      if (code !== 0) throw new Error(`lxc ${args.join(' ')}: ${code} ${stderr}`);
      return stdout;
    };
    const importTiny = async (): Promise<void> => {
      const { metadata, rootfs } = await tinyImage();
      await ok('image', 'import', metadata, rootfs, '--alias', 'tiny');
    };
    const sh = (name: string, script: string) => ok('exec', name, '--', 'sh', '-c', script);
    const recover = async (action: 'validate' | 'import'): Promise<RecoverResult> => {
      const pools: RecoverPoolPost[] = [{ name: 'p', driver, config: { source: place.source } }];
      const { status, body } = await daemon.request<RecoverResult>('POST', `/internal/recover/${action}`, { pools });
      expect([status, body.error]).toEqual([200, '']);
      return body.metadata;
    };
    /** The pool as it is with the daemon away. */
    const withPool = async (use: (pool: StoragePool) => Promise<void>): Promise<void> => {
      const spec = { name: 'p', config: { source: place.source }, path: at(), loopFile: at('none') };
      const found = drivers.get(driver);
      const config = await found?.reopen?.(spec);
      if (found === undefined || config === undefined) throw new Error('cannot open the pool');
      const pool = found.open({ ...spec, config });
      await pool.mount();
      await use(pool);
    };
    /** Forgets all records, and makes what recovery asks for again. */
    const loseRecords = async (meanwhile: (pool: StoragePool) => Promise<void>): Promise<void> => {
      await daemon.stop();
      await withPool(meanwhile);
      rmSync(join(daemon.stateDir, 'database'), { recursive: true });
      await daemon.start();
    };
    const instance = async (name: string) => {
      const found = (await daemon.request<Instance>('GET', `/1.0/instances/${name}`)).body.metadata;
      const url = `/1.0/instances/${name}/snapshots?recursion=1`;
      const snapshots = (await daemon.request<InstanceSnapshot[]>('GET', url)).body.metadata;
      const kept = ({ config, devices, profiles, created_at: created }: Instance | InstanceSnapshot) => ({
        config: Object.fromEntries(Object.entries(config).filter(([key]) => !/host_name$|last_state|idmap/.test(key))),
        devices,
        profiles,
        created,
      });
      return [kept(found), snapshots.map((one) => ({ ...kept(one), name: one.name, expires: one.expires_at }))];
    };
    const volume = async (name: string) => {
      const url = `/1.0/storage-pools/p/volumes/custom/${name}`;
      const {
        config,
        description,
        content_type: type,
      } = (await daemon.request<StorageVolume>('GET', url)).body.metadata;
      const snapshots = await daemon.request<object[]>('GET', `${url}/snapshots?recursion=1`);
      return [config, description, type, snapshots.body.metadata];
    };
    const dataOf = (name: string): Promise<string[]> => {
      const root = at('containers', name, 'rootfs');
      return manifestOf(join(root, 'data'), statSync(root).uid);
    };
    const onDisk = (name: string, contentType: VolumeRef['contentType'] = 'filesystem'): VolumeRef => ({
      type: 'custom',
      name: `default_${name}`,
      contentType,
    });

    it('brings instances, snapshots and volumes back, as they were', { timeout: 300_000 * patience }, async () => {
      await ok('init', 'tiny', 'c1', '-s', 'p', '-c', 'user.note=one');
      await ok('storage', 'volume', 'create', 'p', 'v', 'snapshots.pattern=x%d');
      await ok('storage', 'volume', 'attach', 'p', 'v', 'c1', '/vol');
      await ok('storage', 'volume', 'create', 'p', 'blk', '--type=block', 'size=8MiB');
      await ok('start', 'c1');
      await sh('c1', 'mkdir /data; echo first > /data/file; chown 1000:1000 /data/file');
      await ok('snapshot', 'c1', 's0');
      await sh('c1', 'echo second > /data/file; ln /data/file /data/same; ln -s /etc /data/link');
      await ok('config', 'set', 'c1', 'user.odd=yes "quoted"\n\ttab \u2028 end');
      await daemon.run('POST', '/1.0/instances/c1/snapshots', { name: 's1', expires_at: '2031-02-03T04:05:06Z' });
      await sh('c1', 'echo volume > /vol/file; chown 1000:1000 /vol/file; sync');
      await ok('storage', 'volume', 'snapshot', 'p', 'v', 'vs0');
      await ok('init', 'tiny', 'idle', '-s', 'p', '-c', 'user.note=never started');
      const seen = daemon.logs.length;
      await ok('config', 'set', 'idle', 'user.late=yes');
      await until('the notes', async () => daemon.logs.includes('What recovery needs is written', seen));
      const before = {
        instances: [await instance('c1'), await instance('idle')],
        volumes: [await volume('v'), await volume('blk')],
        data: await dataOf('c1'),
      };
      const told = at('containers/c1/backup.yaml');
      await until('the description beside the root', async () => /name: s1/.test(readFileSync(told, 'utf8')));
      await loseRecords(async (pool) => {
        const path = await pool.volumes.mount(onDisk('blk', 'block'));
        writeBlock(path, 'on the disk');
        await pool.volumes.unmount(onDisk('blk', 'block'));
      });

      const first = await recover('validate');
      const found = [
        { name: 'blk', type: 'volume', snapshotCount: 0, project: 'default', pool: 'p' },
        { name: 'v', type: 'volume', snapshotCount: 1, project: 'default', pool: 'p' },
        { name: 'c1', type: 'container', snapshotCount: 2, project: 'default', pool: 'p' },
        { name: 'idle', type: 'container', snapshotCount: 0, project: 'default', pool: 'p' },
      ];
      expect(first).toEqual({ UnknownVolumes: found, DependencyErrors: [], Problems: [] });
      expect((await daemon.request('GET', '/1.0/storage-pools')).body.metadata).toEqual([]);
      expect(await recover('import')).toEqual(first);
      expect([await instance('c1'), await instance('idle')]).toEqual(before.instances);
      expect([await volume('v'), await volume('blk')]).toEqual(before.volumes);
      const { body } = await daemon.request('GET', '/1.0/storage-pools/p');
      expect(body.metadata).toMatchObject({
        description: 'shared one',
        driver,
        config: { source: place.source, 'volume.size': '64MiB' },
      });
      await ok('start', 'c1');
      expect(await dataOf('c1')).toEqual(before.data);
      expect(await sh('c1', 'cat /data/file /vol/file; stat -c %u /data/file /vol/file')).toBe(
        'second\nvolume\n1000\n1000\n',
      );
      await ok('stop', '--force', 'c1');
      if (driver === 'zfs') await ok('delete', 'c1/s1');
      await ok('restore', 'c1', 's0');
      for (const name of ['c1', 'idle']) await ok('start', name);
      expect(await sh('c1', 'cat /data/file')).toBe('first\n');
      await sh('idle', 'true');
      expect(await recover('validate')).toEqual({ UnknownVolumes: [], DependencyErrors: [], Problems: [] });
    });

    it('believes no name and no description that cannot be right', { timeout: 300_000 * patience }, async () => {
      await importTiny();
      await ok('launch', 'tiny', 'honest', '-s', 'p');
      const told = at('containers/honest/backup.yaml');
      await until('the description', async () => statSync(told, { throwIfNoEntry: false }) !== undefined);
      const description = readFileSync(told, 'utf8');
      const called = (name: string): string => description.replace('name: honest\n', `name: ${name}\n`);
      await ok('stop', '--force', 'honest');
      await loseRecords(async (pool) => {
        expect(readBlock(await pool.volumes.mount(onDisk('blk', 'block')))).toBe('on the disk');
        await pool.volumes.unmount(onDisk('blk', 'block'));
        const plant = async (name: string, text?: string): Promise<void> => {
          const root: VolumeRef = { type: 'container', name, contentType: 'filesystem' };
          const how = { idRange: undefined, clone: 'auto', nesting: false, config: { size: '64MiB' } } as const;
          await pool.roots.createFilled(root, how);
          if (text !== undefined) await pool.recovery?.describe(root, new Map([['backup.yaml', text]]));
          if (name !== 'linked') return;
          const { path } = await pool.roots.mount(root, how);
          symlinkSync('/etc/shadow', join(dirname(path), 'backup.yaml'));
          await pool.roots.unmount(root);
        };
        await plant('tenant_forged', called('forged')); // says it belongs to another project
        await plant('forged', called('honest')); // says it is another instance
        await plant('default_twice', called('twice'));
        await plant('linked');
        await plant('without');
        await plant('huge', `${called('huge')}# ${'x'.repeat(5 * 1024 ** 2)}`);
        await plant('privileged', called('privileged').replace('config:', 'config:\n    no.such.key: "1"'));
        await plant('dotdot', `${called('dotdot')}snapshots:\n  - name: "../../honest"\n`);
        await pool.volumes.create({ ...onDisk('x', 'block'), name: 'noproject' }, { size: 4 * 1024 ** 2 });
        const machine: VolumeRef = { type: 'virtual-machine', name: 'vm', contentType: 'block' };
        await pool.volumes.create(machine, { size: 4 * 1024 ** 2 });
      });
      await daemon.run('POST', '/1.0/projects', { name: 'tenant', config: { 'features.profiles': 'false' } });
      const found = await recover('validate');
      const names = found.UnknownVolumes.filter(({ type }) => type === 'container').map(({ name }) => name);
      expect(names.toSorted()).toEqual(['c1', 'dotdot', 'honest', 'idle', 'privileged']);
      for (const name of ['tenant_forged', 'forged', 'default_twice', 'linked', 'without', 'huge', 'noproject', 'vm']) {
        const told = found.Problems.filter((one) => one.replace(/^(Instance|Volume) /, '').startsWith(`"${name}" `));
        expect(told, name).toHaveLength(1);
      }
      expect(JSON.stringify(found)).not.toContain('root:');
      const done = await recover('import');
      expect(done.Problems).toContainEqual(
        'Instance "privileged" in project "default" on pool "p" cannot be recovered: Unknown configuration key: no.such.key',
      );
      const { body } = await daemon.request<string[]>('GET', '/1.0/instances?all-projects=true');
      expect(body.metadata.map((url) => url.replace('/1.0/instances/', '')).toSorted()).toEqual(
        ['c1', 'dotdot', 'honest', 'idle'].toSorted(),
      );
      expect((await daemon.request('GET', '/1.0/instances/dotdot/snapshots')).body.metadata).toEqual([]);
      await ok('start', 'honest');
    });

    it('finds what LXD laid out, with ids of its host', { timeout: 300_000 * patience }, async () => {
      const base = 1_500_000;
      const state = (name: string) =>
        `${name}:\n  volatile.last_state.idmap: '[{"Isuid":true,"Isgid":false,"Hostid":${base},"Nsid":0,"Maprange":65536},` +
        `{"Isuid":false,"Isgid":true,"Hostid":${base},"Nsid":0,"Maprange":65536}]'\n`;
      const common = (name: string, indent = '') =>
        `${indent}name: ${name}\n${indent}architecture: x86_64\n${indent}devices: {}\n${indent}ephemeral: false\n` +
        `${indent}profiles:\n${indent}- default\n`;
      const config = state('config');
      const text =
        `container:\n${common('old', '  ')}  type: container\n  project: default\n${config.replace(/^/gm, '  ').trimEnd()}\n` +
        `snapshots:\n- ${common('s0', '  ').trimStart()}${config.replace(/^/gm, '  ').trimEnd()}\n`;
      await ok('delete', '--force', 'honest');
      await loseRecords(async (pool) => {
        const root: VolumeRef = { type: 'container', name: 'old', contentType: 'filesystem' };
        const how = { idRange: undefined, clone: 'auto', nesting: false, config: { size: '64MiB' } } as const;
        const { metadata, rootfs } = await tinyImage();
        expect(metadata).toBeDefined();
        await pool.roots.createFilled(root, how, async (path) => {
          await command('unsquashfs', ['-f', '-d', path, rootfs]);
          await command('sh', ['-c', `echo then > ${path}/state; chown 1000:1000 ${path}/state`]);
          await shift(path, base);
        });
        const { path } = await pool.roots.mount(root, how);
        writeFileSync(join(dirname(path), 'backup.yaml'), text, { mode: 0o400 });
        await pool.roots.unmount(root);
        await pool.snapshots.create(root, 's0', { running: false });
        await pool.roots.mount(root, how);
        writeFileSync(join(path, 'state'), 'now\n');
        await pool.roots.unmount(root);
      });
      const answers = ['yes', 'p', driver, place.source, '', 'no', 'yes', 'yes', ''];
      const { stdout } = await command('lxd', ['recover'], {
        env: { LXD_DIR: daemon.stateDir },
        input: answers.join('\n'),
        timeoutMs: 300_000,
      });
      expect(stdout).toContain('Container "old" on pool "p" in project "default" (includes 1 snapshots)');
      await ok('start', 'old');
      expect(await sh('old', 'cat /state; stat -c %u /state; stat -c %u /')).toBe('now\n1000\n0\n');
      await ok('stop', '--force', 'old');
      await ok('restore', 'old', 's0');
      await ok('start', 'old');
      expect(await sh('old', 'cat /state; stat -c %u /state')).toBe('then\n1000\n');
    });

    it('holds to sources that hold a pool', async () => {
      const ask = async (config: Record<string, string>) => {
        const pools = [{ name: 'other', driver, config }];
        return (await daemon.request('POST', '/internal/recover/validate', { pools })).body.error;
      };
      expect(await ask({ source: 'keelson-none' })).toMatch(/doesn't exist|does not exist/);
    });
  });
});

function writeBlock(path: string, text: string): void {
  const file = openSync(path, 'r+');
  try {
    writeSync(file, Buffer.from(text.padEnd(4096, '\0')));
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

function readBlock(path: string): string {
  const file = openSync(path, 'r');
  try {
    const block = Buffer.alloc(4096);
    readSync(file, block);
    return block.toString().replace(/\0+$/, '');
  } finally {
    closeSync(file);
  }
}

/** Gives the files ids as a server has them that maps ids on disk. */
async function shift(path: string, base: number): Promise<void> {
  const script =
    'find "$1" -xdev -printf "%U %G %p\\0" | while IFS=" " read -r -d "" uid gid file; do chown -h $((uid + $2)):$((gid + $2)) "$file"; done';
  await command('bash', ['-c', script, 'shift', path, String(base)]);
}
