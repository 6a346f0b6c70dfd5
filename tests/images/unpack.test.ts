import { command } from '@keelson/testkit';
import { execFileSync } from 'node:child_process';
import { chownSync, linkSync, mkdirSync, mkdtempSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inspectImage } from '../../packages/daemon/src/host/archives/inspect.ts';
import { ArchivePacker } from '../../packages/daemon/src/host/archives/pack.ts';
import { unpackImage } from '../../packages/daemon/src/host/archives/unpack.ts';

const METADATA = 'architecture: x86_64\ncreation_date: 1700000000\n';

const SPARSE = 32 * 1024 * 1024;
const ODD = 'etc/new\nline "quoted" é';

/** A root file system with everything that is easily lost. */
function makeRoot(root: string): void {
  mkdirSync(join(root, 'etc'), { recursive: true });
  writeFileSync(join(root, 'etc/owned'), 'x', { mode: 0o640 });
  chownSync(join(root, 'etc/owned'), 1000, 1001);
  linkSync(join(root, 'etc/owned'), join(root, 'etc/linked'));
  writeFileSync(join(root, 'etc/setuid'), 'x', { mode: 0o755 });
  execFileSync('chmod', ['4755', join(root, 'etc/setuid')]);
  execFileSync('setfattr', ['-n', 'user.colour', '-v', 'blue', join(root, 'etc/setuid')]);
  execFileSync('setfacl', ['-m', 'u:1234:rwx', join(root, 'etc/owned')]);
  writeFileSync(join(root, 'etc/capable'), 'x', { mode: 0o755 });
  execFileSync('setcap', ['cap_net_raw=ep', join(root, 'etc/capable')]);
  writeFileSync(join(root, 'etc/sparse'), '');
  truncateSync(join(root, 'etc/sparse'), SPARSE);
  execFileSync('ln', ['-s', '/proc/self/mounts', join(root, 'etc/mtab')]);
  mkdirSync(join(root, 'dev'));
  execFileSync('mknod', [join(root, 'dev/null'), 'c', '1', '3']);
  execFileSync('mkfifo', [join(root, 'etc/fifo')]);
  writeFileSync(join(root, ODD), 'odd');
  execFileSync('chmod', ['755', root]);
}

async function describeRoot(root: string): Promise<string> {
  const { stdout: files } = await command('find', [root, '-printf', '%P %y %m %U %G %l %n\\n']);
  const { stdout: attributes } = await command('getfattr', ['-R', '-h', '-d', '-m', '^(user|security)', '.'], {
    cwd: root,
  });
  const { stdout: acls } = await command('getfacl', ['-R', '-n', '-p', '.'], { cwd: root });
  return [files.split('\n').toSorted().join('\n'), attributes.split('\n\n').toSorted().join('\n\n'), acls].join('\n');
}

describe('a root file system survives packing and unpacking', () => {
  let folder: string;
  let work: string;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'keelson-unpack-'));
    work = join(folder, 'work');
    makeRoot(join(work, 'rootfs'));
    writeFileSync(join(work, 'metadata.yaml'), METADATA);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const target = (name: string): string => {
    const path = join(folder, name);
    mkdirSync(path);
    return path;
  };
  /** What is true of an unpacked image when nothing was lost. */
  const intact = async (unpacked: string): Promise<boolean> => {
    expect(await describeRoot(join(unpacked, 'rootfs'))).toBe(await describeRoot(join(work, 'rootfs')));
    const { blocks, size } = statSync(join(unpacked, 'rootfs/etc/sparse'));
    const [one, two] = ['owned', 'linked'].map((name) => statSync(join(unpacked, 'rootfs/etc', name)).ino);
    return size === SPARSE && blocks * 512 < 1024 * 1024 && one === two;
  };

  const tarOptions = ['--numeric-owner', '--xattrs', '--xattrs-include=*', '--acls', '--sparse'];

  it('unified tar', async () => {
    const main = join(folder, 'unified.tar.gz');
    await command('tar', [...tarOptions, '-C', work, '-czf', main, 'metadata.yaml', 'rootfs']);
    expect(await inspectImage({ main })).toMatchObject({ type: 'container', metadata: METADATA });
    const unpacked = target('from-unified');
    await unpackImage({ main }, unpacked);
    expect(await intact(unpacked)).toBe(true);
  });

  it('unified tar with names that start with ./', async () => {
    const main = join(folder, 'dotted.tar');
    await command('tar', [...tarOptions, '-C', work, '-cf', main, './metadata.yaml', './rootfs']);
    await inspectImage({ main });
    const unpacked = target('from-dotted');
    await unpackImage({ main }, unpacked);
    expect(await intact(unpacked)).toBe(true);
  });

  it('split tar', async () => {
    const root = join(folder, 'root.tar.zst');
    await command('tar', [...tarOptions, '-C', join(work, 'rootfs'), '--zstd', '-cf', root, '.']);
    const unpacked = target('from-split');
    await unpackImage({ main: '/nowhere', root: { path: root, disk: false } }, unpacked);
    expect(await intact(unpacked)).toBe(true);
  });

  const pack = async (compression: string): Promise<string> => {
    const main = join(folder, `packed-${compression}`);
    const source = { path: join(work, 'rootfs'), idRange: undefined };
    const head = { metadata: METADATA, templates: new Map([['a.tpl', 'text\n']]) };
    const chunks: Uint8Array[] = [];
    for await (const chunk of new ArchivePacker(folder).pack(source, head, { compression })) chunks.push(chunk);
    writeFileSync(main, Buffer.concat(chunks));
    return main;
  };

  it.each(['none', 'gzip', 'zstd'])('what the packer makes with %s', async (compression) => {
    const main = await pack(compression);
    const image = await inspectImage({ main });
    expect(image.metadata).toBe(METADATA);
    expect([...image.templates]).toEqual([['a.tpl', 'text\n']]);
    const unpacked = target(`from-packed-${compression}`);
    await unpackImage({ main }, unpacked);
    expect(await intact(unpacked)).toBe(true);
  });

  it('a squashfs, but for ACLs, which it cannot hold; a name with a line break is refused', async () => {
    await expect(inspectImage({ main: await pack('squashfs') })).rejects.toThrow(/cannot understand/);
    rmSync(join(work, 'rootfs', ODD));
    const main = await pack('squashfs');
    const image = await inspectImage({ main });
    expect([...image.templates]).toEqual([['a.tpl', 'text\n']]);
    const unpacked = target('from-squashfs');
    await unpackImage({ main }, unpacked);
    const lines = async (root: string): Promise<string> => (await describeRoot(root)).split('# file:')[0] ?? '';
    const withoutAcls = (text: string): string => text.replace(/^(etc\/(owned|linked) f) \d+/gm, '$1');
    const expected = withoutAcls(await lines(join(work, 'rootfs')));
    expect(withoutAcls(await lines(join(unpacked, 'rootfs')))).toBe(expected);
  });

  it('the packer fails when it cannot read, instead of ending early', async () => {
    const source = { path: join(folder, 'missing'), idRange: undefined };
    const head = { metadata: METADATA, templates: new Map<string, string>() };
    const read = async (): Promise<void> => {
      for await (const chunk of new ArchivePacker(folder).pack(source, head, { compression: 'gzip' })) void chunk;
    };
    await expect(read()).rejects.toThrow();
  });
});
