import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Instance, InstanceSnapshot, RecoverPoolPost, RecoverResult, StorageVolume } from '@keelson/api';
import { command, tinyImage, until } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { InstanceWorld } from '../instances/world.ts';
import { manifestOf } from './manifest.ts';

/** The daemon lost its records: files of pools are all that is left. */
describe('recovery of lost records', () => {
  let world: InstanceWorld;

  beforeAll(async () => {
    world = await InstanceWorld.open();
    await world.daemon.run('POST', '/1.0/storage-pools', {
      name: 'b',
      driver: 'btrfs',
      config: { size: '512MiB', 'volume.security.shifted': 'true' },
      description: 'fast one',
    });
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  const at = (...parts: string[]): string => join(world.daemon.stateDir, 'storage-pools', ...parts);
  const inside = (name: string, script: string): Promise<string> => world.ok('exec', name, '--', 'sh', '-c', script);
  const recover = async (action: 'validate' | 'import', pools: RecoverPoolPost[]): Promise<RecoverResult> => {
    const { status, body } = await world.daemon.request<RecoverResult>('POST', `/internal/recover/${action}`, {
      pools,
    });
    expect(body.error, body.error).toBeFalsy();
    expect(status).toBe(200);
    return body.metadata;
  };
  const instance = async (name: string) => {
    const found = (await world.daemon.request<Instance>('GET', `/1.0/instances/${name}`)).body.metadata;
    const snapshots = await world.daemon.request<InstanceSnapshot[]>(
      'GET',
      `/1.0/instances/${name}/snapshots?recursion=1`,
    );
    const kept = ({
      config,
      devices,
      profiles,
      created_at,
      description,
    }: Instance | (InstanceSnapshot & { description?: string })) => ({
      config: Object.fromEntries(Object.entries(config).filter(([key]) => !/host_name$|last_state|idmap/.test(key))),
      devices,
      profiles,
      created_at,
      description,
    });
    return {
      own: kept(found),
      snapshots: snapshots.body.metadata.map((one) => ({ ...kept(one), name: one.name, expires: one.expires_at })),
    };
  };
  const volume = async (pool: string, name: string) => {
    const url = `/1.0/storage-pools/${pool}/volumes/custom/${name}`;
    const found = (await world.daemon.request<StorageVolume>('GET', url)).body.metadata;
    const snapshots = await world.daemon.request<object[]>('GET', `${url}/snapshots?recursion=1`);
    return [found.config, found.description, found.content_type, snapshots.body.metadata];
  };
  /** What root of a running instance holds in /data. */
  const dataOf = async (pool: string, name: string): Promise<string[]> => {
    const root = at(pool, 'containers', name, 'rootfs');
    return manifestOf(join(root, 'data'), statSync(root).uid);
  };
  const told = (pool: string, name: string): string => {
    const path = at(pool, 'containers', name, 'backup.yaml');
    return existsSync(path) ? readFileSync(path, 'utf8') : '';
  };

  /** Stops the daemon as a crash would, forgets all records, and makes what recovery asks for again. */
  const loseRecords = async (): Promise<void> => {
    await world.daemon.kill();
    rmSync(join(world.daemon.stateDir, 'database'), { recursive: true });
    await world.daemon.start();
  };

  it('brings instances, snapshots and volumes of a dir and a btrfs pool back, as they were', {
    timeout: 180_000,
  }, async () => {
    for (const pool of ['p', 'b']) {
      const name = `i-${pool}`;
      await world.ok('init', 'tiny', name, '-s', pool, '-c', 'user.note=one', '-c', 'security.nesting=false');
      await world.ok('start', name);
      await inside(name, 'mkdir /data');
      const root = at(pool, 'containers', name, 'rootfs');
      const base = statSync(root).uid;
      await inside(name, 'echo first > /data/file; chown tester /data/file');
      await world.ok('snapshot', name, 's0');
      await inside(name, 'echo second > /data/file; ln /data/file /data/same; ln -s /etc /data/link');
      await world.ok('config', 'set', name, 'user.note=two');
      await world.ok('config', 'set', name, 'user.odd=yes "quoted"\n\ttab \u2028 end');
      await world.daemon.run('POST', `/1.0/instances/${name}/snapshots`, {
        name: 's1',
        expires_at: '2031-02-03T04:05:06Z',
      });
      await world.ok('storage', 'volume', 'create', pool, `v-${pool}`, 'snapshots.pattern=x%d', 'size=64MiB');
      await world.ok('storage', 'volume', 'attach', pool, `v-${pool}`, name, '/vol');
      await inside(name, 'echo volume > /vol/file; chown tester /vol/file');
      await world.ok('storage', 'volume', 'snapshot', pool, `v-${pool}`, 'vs0');
      await world.ok('storage', 'volume', 'create', pool, `blk-${pool}`, '--type=block', 'size=8MiB');
      expect(base).toBe(statSync(root).uid);
    }
    const before = {
      instances: await Promise.all(['p', 'b'].map((pool) => instance(`i-${pool}`))),
      volumes: await Promise.all(
        ['p', 'b'].flatMap((pool) => [volume(pool, `v-${pool}`), volume(pool, `blk-${pool}`)]),
      ),
      data: await Promise.all(['p', 'b'].map((pool) => dataOf(pool, `i-${pool}`))),
      profile: (await world.daemon.request('GET', '/1.0/profiles/default')).body.metadata,
    };
    for (const pool of ['p', 'b']) {
      await until(
        'the description to be written',
        async () => /name: s1/.test(told(pool, `i-${pool}`)) && /\/vol/.test(told(pool, `i-${pool}`)),
      );
      await until('the note of the volume', async () =>
        /vs0/.test(readFileSync(at(pool, `.keelson/custom/default_v-${pool}/volume.yaml`), 'utf8')),
      );
      await until('the note of the block volume', async () =>
        existsSync(at(pool, `.keelson/custom/default_blk-${pool}/volume.yaml`)),
      );
    }
    await loseRecords();

    const pools = [
      { name: 'p', driver: 'dir' },
      { name: 'b', driver: 'btrfs', config: {} },
    ];
    const first = await recover('validate', pools);
    expect(first.DependencyErrors).toEqual([`Network "${world.bridge}" in project "default"`]);
    expect(first.Problems).toEqual([]);
    expect(first.UnknownVolumes).toHaveLength(6);
    expect(first.UnknownVolumes).toContainEqual({
      name: 'i-p',
      type: 'container',
      snapshotCount: 2,
      project: 'default',
      pool: 'p',
    });
    expect(first.UnknownVolumes).toContainEqual({
      name: 'v-b',
      type: 'volume',
      snapshotCount: 1,
      project: 'default',
      pool: 'b',
    });
    expect((await recover('import', pools)).DependencyErrors).toEqual(first.DependencyErrors);
    expect((await world.daemon.request('GET', '/1.0/instances')).body.metadata).toEqual([]);
    expect((await world.daemon.request('GET', '/1.0/storage-pools')).body.metadata).toEqual([]);

    await command('ip', ['link', 'delete', world.bridge]); // the bridge itself outlived the records
    await world.makeNetwork();
    const done = await recover('import', pools);
    expect(done).toEqual({ UnknownVolumes: first.UnknownVolumes, DependencyErrors: [], Problems: [] });
    await world.daemon.run('PUT', '/1.0/profiles/default', before.profile);
    expect(await Promise.all(['p', 'b'].map((pool) => instance(`i-${pool}`)))).toEqual(before.instances);
    const volumes = ['p', 'b'].flatMap((pool) => [volume(pool, `v-${pool}`), volume(pool, `blk-${pool}`)]);
    expect(await Promise.all(volumes)).toEqual(before.volumes);
    const { body } = await world.daemon.request<{ description: string; config: Record<string, string> }>(
      'GET',
      '/1.0/storage-pools/b',
    );
    expect(body.metadata.description).toBe('fast one');
    expect(body.metadata.config).toMatchObject({ 'volume.security.shifted': 'true' });

    for (const [index, pool] of ['p', 'b'].entries()) {
      const name = `i-${pool}`;
      await world.ok('start', name);
      expect(await dataOf(pool, name)).toEqual(before.data[index]);
      expect(await inside(name, 'cat /data/file /vol/file; stat -c %u /data/file /vol/file')).toBe(
        'second\nvolume\n1000\n1000\n',
      );
      const mac = before.instances[index]?.own.config['volatile.eth0.hwaddr'];
      expect((await inside(name, 'cat /sys/class/net/eth0/address')).trim()).toBe(mac);
      await world.ok('stop', '--force', name);
      await world.ok('restore', name, 's0');
      await world.ok('start', name);
      expect(await inside(name, 'cat /data/file')).toBe('first\n');
    }
    expect(await recover('validate', pools)).toEqual({ UnknownVolumes: [], DependencyErrors: [], Problems: [] });
    await world.ok('delete', '--force', 'i-p', 'i-b');
    for (const pool of ['p', 'b']) {
      await world.ok('storage', 'volume', 'delete', pool, `v-${pool}`);
      await world.ok('storage', 'volume', 'delete', pool, `blk-${pool}`);
      await until(
        'the image to go with its last root',
        async () => readdirSync(at(pool, 'images')).length === 0 || pool === 'b',
      );
      await until('the notes to go', async () => readdirSync(at(pool, '.keelson/custom')).length === 0);
    }
  });

  it('believes no name and no description that cannot be right', { timeout: 120_000 }, async () => {
    await world.daemon.run('POST', '/1.0/projects', { name: 'tenant', config: { 'features.profiles': 'false' } });
    const { metadata, rootfs } = await tinyImage();
    await world.lxc('image', 'import', metadata, rootfs, '--alias', 'tiny'); // images are lost with the records
    for (const name of ['honest', 'victim']) await world.ok('init', 'tiny', name, '-s', 'p');
    for (const name of ['honest', 'victim'])
      await until(`the description of ${name}`, async () => told('p', name) !== '');
    const description = told('p', 'honest');
    const plant = (name: string, text: string | undefined, link = false): void => {
      const folder = at('p', 'containers', name);
      mkdirSync(join(folder, 'rootfs'), { recursive: true });
      const path = join(folder, 'backup.yaml');
      if (link) symlinkSync('/etc/shadow', path);
      else if (text !== undefined) writeFileSync(path, text);
    };
    const called = (name: string, project = 'default'): string =>
      description.replace('name: honest\n', `name: ${name}\n`).replace('project: default', `project: ${project}`);
    plant('tenant_forged', called('forged', 'default')); // says it belongs to another project
    plant('forged', called('victim')); // says it is another instance
    plant('default_twice', called('twice'));
    plant('linked', undefined, true);
    plant('without', undefined);
    plant('huge', `${called('huge')}# ${'x'.repeat(5 * 1024 ** 2)}`);
    plant('alias', `a: &a [x]\nb: [${'*a, '.repeat(500)}]\n`);
    plant('not a name', called('not a name'));
    plant('privileged', called('privileged').replace('config:', 'config:\n    no.such.key: "1"'));
    plant('dotdot', `${called('dotdot')}snapshots:\n  - name: "../../victim"\n`);
    symlinkSync('/etc', at('p', 'containers', 'away'));
    for (const name of ['noproject', 'a b_volume', '.._x']) mkdirSync(at('p', 'custom', name));
    await world.daemon.kill();
    rmSync(join(world.daemon.stateDir, 'database'), { recursive: true });
    await world.daemon.start();
    await world.daemon.run('POST', '/1.0/projects', { name: 'tenant', config: { 'features.profiles': 'false' } });
    await command('ip', ['link', 'delete', world.bridge]);
    await world.makeNetwork();

    const pools = [{ name: 'p', driver: 'dir' }];
    const found = await recover('validate', pools);
    expect(found.UnknownVolumes.map(({ name }) => name).sort()).toEqual(['dotdot', 'honest', 'privileged', 'victim']);
    const named = (name: string) =>
      found.Problems.filter((one) => one.replace(/^(Instance|Volume) /, '').startsWith(`"${name}" `));
    for (const name of [
      'tenant_forged',
      'forged',
      'default_twice',
      'linked',
      'without',
      'huge',
      'alias',
      'not a name',
      'noproject',
      'a b_volume',
      '.._x',
    ])
      expect(named(name), name).toHaveLength(1);
    expect(JSON.stringify(found)).not.toContain('root:');
    const done = await recover('import', pools);
    expect(done.UnknownVolumes.map(({ name }) => name).sort()).toEqual(['dotdot', 'honest', 'victim']);
    expect(done.Problems).toContainEqual(
      'Instance "privileged" in project "default" on pool "p" cannot be recovered: Unknown configuration key: no.such.key',
    );
    const all = await world.daemon.request<string[]>('GET', '/1.0/instances?all-projects=true');
    expect(all.body.metadata.sort()).toEqual([
      '/1.0/instances/dotdot',
      '/1.0/instances/honest',
      '/1.0/instances/victim',
    ]);
    expect((await world.daemon.request('GET', '/1.0/instances/dotdot/snapshots')).body.metadata).toEqual([]);
    await world.ok('start', 'honest');
    expect(existsSync(at('p', 'containers', 'linked', 'backup.yaml'))).toBe(true);
  });
});
