import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { command } from '@keelson/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeTar, type TestEntry } from '../../packages/daemon/src/host/archives/hostile.test-data.ts';
import { SecurityWorld } from './world.ts';

/** Index of a backup as LXD writes it, with config and devices of the attacker's choice. */
const index = (container: object, name = 'back'): string =>
  JSON.stringify({
    name,
    backend: 'dir',
    pool: 'p',
    type: 'container',
    config: {
      container: { name, architecture: 'x86_64', config: {}, devices: {}, profiles: [], ...container },
      pool: { name: 'p', driver: 'dir' },
      volume: { name, type: 'container' },
    },
  });

describe('a hostile author of backups', () => {
  let world: SecurityWorld;
  let scratch: string;
  const root = { root: { type: 'disk', path: '/', pool: 'p' } };

  beforeAll(async () => {
    scratch = mkdtempSync(join(tmpdir(), 'keelson-security-'));
    world = await SecurityWorld.open();
    const config = { restricted: 'true', 'features.images': 'false' };
    await world.world.daemon.run('POST', '/1.0/projects', { name: 'mine', config });
  });
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
    rmSync(scratch, { recursive: true, force: true });
  });

  /** A tarball of what `fill` puts into a new folder. */
  async function archive(fill: (folder: string) => void, ...args: string[]): Promise<Uint8Array> {
    const folder = mkdtempSync(join(scratch, 'backup-'));
    mkdirSync(join(folder, 'backup/container'), { recursive: true });
    fill(folder);
    const members = args.length === 0 ? ['backup'] : args;
    await command('tar', ['-C', folder, '--absolute-names', '-cf', `${folder}.tar`, ...members]);
    return readFileSync(`${folder}.tar`);
  }

  /** What the import says; empty when it worked. */
  async function verdict(tarball: Uint8Array, project = 'default'): Promise<string> {
    const headers = { 'Content-Type': 'application/octet-stream' };
    const { daemon } = world.world;
    return daemon.run('POST', `/1.0/instances?project=${project}`, tarball, { headers }).then(
      () => '',
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    );
  }

  const plain = (folder: string, container: object = { devices: root }): void => {
    writeFileSync(join(folder, 'backup/index.yaml'), index(container));
    mkdirSync(join(folder, 'backup/container/rootfs/etc'), { recursive: true });
    writeFileSync(join(folder, 'backup/container/rootfs/etc/file'), 'guest');
  };

  test('an honest backup comes in', async () => {
    expect(await verdict(await archive(plain))).toBe('');
    await world.world.ok('delete', 'back');
  });

  test('links and names of members lead nowhere', async () => {
    const planted = join(scratch, 'planted');
    const evil: readonly ((folder: string) => void)[] = [
      (folder) => {
        writeFileSync(join(folder, 'backup/index.yaml'), index({ devices: root }));
        symlinkSync(scratch, join(folder, 'backup/container/rootfs'));
      },
      (folder) => {
        mkdirSync(join(folder, 'backup/container/rootfs'));
        symlinkSync('/etc/passwd', join(folder, 'backup/index.yaml'));
      },
      (folder) => {
        rmSync(join(folder, 'backup'), { recursive: true });
        symlinkSync('/', join(folder, 'backup'));
      },
    ];
    for (const fill of evil) expect(await verdict(await archive(fill))).not.toBe('');
    for (const name of [planted, `backup/container/rootfs/../../../../../../..${planted}`]) {
      const options = ['--transform', `s,^backup/container/rootfs/etc/file$,${name},`, 'backup'];
      expect(await verdict(await archive(plain, ...options))).not.toBe('');
    }
    expect(existsSync(planted)).toBe(false);
  });

  test('a link that changes into a folder, or is linked to, leads nowhere', async () => {
    const base = 'backup/container/rootfs/';
    const head: readonly TestEntry[] = [
      { name: 'backup/index.yaml', text: index({ devices: root }) },
      { name: base, type: 'directory' },
      { name: `${base}a`, type: 'symlink', link: scratch },
    ];
    const tails: readonly (readonly TestEntry[])[] = [
      [
        { name: `${base}a`, type: 'directory' },
        { name: `${base}a/planted`, text: 'x' },
      ],
      [
        { name: `${base}h`, type: 'link', link: `${base}a` },
        { name: `${base}h/planted`, text: 'x' },
      ],
      [
        { name: `${base}b`, type: 'symlink', link: 'a' },
        { name: `${base}c`, type: 'link', link: `${base}b` },
        { name: `${base}c/planted`, text: 'x' },
      ],
      [{ name: `${base}planted`, type: 'link', link: '/etc/passwd' }],
    ];
    for (const tail of tails) {
      if ((await verdict(await makeTar([...head, ...tail]))) === '') await world.world.ok('delete', 'back');
      expect(existsSync(join(scratch, 'planted'))).toBe(false);
    }
  });

  test('its metadata and templates are read as files of the archive only', async () => {
    const tarball = await archive((folder) => {
      plain(folder);
      symlinkSync('/etc/passwd', join(folder, 'backup/container/metadata.yaml'));
      mkdirSync(join(folder, 'backup/container/templates'));
      symlinkSync('/etc/passwd', join(folder, 'backup/container/templates/x.tpl'));
    });
    if ((await verdict(tarball)) === '') {
      for (const path of ['metadata', 'metadata/templates?path=x.tpl'])
        expect((await world.world.daemon.request('GET', `/1.0/instances/back/${path}`)).text).not.toContain('root:');
      await world.world.ok('delete', 'back');
    }
  });

  test('its index asks for nothing that a request could not', async () => {
    const forbidden: readonly object[] = [
      { config: { 'security.privileged': 'true' }, devices: root },
      { config: { 'raw.lxc': 'lxc.hook.pre-start=/bin/false' }, devices: root },
      { config: { 'raw.idmap': 'both 0 0' }, devices: root },
      { devices: { ...root, host: { type: 'disk', source: '/', path: '/mnt' } } },
      { devices: { ...root, nic: { type: 'nic', nictype: 'physical', parent: 'lo' } } },
    ];
    for (const container of forbidden)
      expect(await verdict(await archive((folder) => plain(folder, container)), 'mine')).not.toBe('');
    const { body } = await world.world.daemon.request('GET', '/1.0/instances?project=mine');
    expect(body.metadata).toEqual([]);
  });

  test('an index of nonsense is a bad request and no crash', async () => {
    const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefghij'
      .split('')
      .map((letter, at) => `${letter}: &${letter} [${`*${'abcdefghij'[at] ?? 'a'},`.repeat(9)}]`)
      .join('\n')}\n`;
    const texts = ['', '[]', 'null', '{', 'config: 3', index({}, '../../up'), index({ config: { a: {} } }), bomb];
    const before = world.world.daemon.pid;
    for (const text of [...texts, index({ devices: { '../x': { type: 'none' }, ...root } }, '..')]) {
      const tarball = await archive((folder) => {
        plain(folder);
        writeFileSync(join(folder, 'backup/index.yaml'), text);
      });
      expect(await verdict(tarball), text.slice(0, 60)).not.toBe('');
    }
    expect((await world.world.daemon.request('GET', '/1.0')).status).toBe(200);
    expect(world.world.daemon.pid).toBe(before);
  });

  test('compression is a name from a list, never arguments', async () => {
    await world.world.ok('init', 'tiny', 'packed');
    for (const algorithm of [
      'gzip -9 /etc/passwd',
      'zstd --output-dir-flat=/x',
      '/bin/sh',
      'gzip;id',
      '--help',
      'xz\n',
    ]) {
      const body = { name: 'b', compression_algorithm: algorithm };
      const backup = await world.world.daemon.request('POST', '/1.0/instances/packed/backups', body);
      expect(backup.status, algorithm).toBe(400);
      const image = { source: { type: 'instance', name: 'packed' }, compression_algorithm: algorithm };
      expect((await world.world.daemon.request('POST', '/1.0/images', image)).status, algorithm).toBe(400);
    }
    for (const name of ['../up', '..', 'a/b', '-x\n'])
      expect((await world.world.daemon.request('POST', '/1.0/instances/packed/backups', { name })).status).toBe(400);
  });

  test('fills no volume beyond the size that counts against limits', async () => {
    const { daemon } = world.world;
    await daemon.run('POST', '/1.0/storage-pools', { name: 'b', driver: 'btrfs', config: { size: '256MiB' } });
    const volume = async (pool: string, contentType: string): Promise<string> => {
      const described = {
        name: 'fat',
        backend: 'dir',
        pool,
        type: 'custom',
        config: {
          volume: { name: 'fat', type: 'custom', content_type: contentType, config: { size: '1MiB' } },
        },
      };
      const tarball = await archive((folder) => {
        writeFileSync(join(folder, 'backup/index.yaml'), JSON.stringify(described));
        const content = Buffer.alloc(8 * 1024 * 1024, 'x');
        if (contentType === 'block') writeFileSync(join(folder, 'backup/volume.img'), content);
        else {
          mkdirSync(join(folder, 'backup/volume'));
          writeFileSync(join(folder, 'backup/volume/file'), content);
        }
      });
      const headers = { 'Content-Type': 'application/octet-stream' };
      return daemon.run('POST', `/1.0/storage-pools/${pool}/volumes/custom`, tarball, { headers }).then(
        () => '',
        (error: unknown) => (error instanceof Error ? error.message : String(error)),
      );
    };
    expect(await volume('p', 'block')).toMatch('more than its size');
    expect(await volume('b', 'filesystem')).not.toBe('');
    for (const pool of ['p', 'b']) {
      const left = await daemon.request<string[]>('GET', `/1.0/storage-pools/${pool}/volumes/custom`);
      expect(left.body.metadata).toEqual([]);
    }
    await daemon.run('DELETE', '/1.0/storage-pools/b');
  });
});
