import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FolderGate } from '../../core/folder-gate.ts';
import type { ArchiveContent } from './backup-writer.ts';
import { contentLength, memberHeader, padding, textMember, withSize } from './tar-members.ts';
import { VolumeArchives } from './volume-archive.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'keelson-backup-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Two trees that end in what an end could be taken for, a block image, a stream and a text. */
function content(): ArchiveContent {
  const trees = ['one', 'two & three'].map((name) => {
    const tree = join(mkdtempSync(join(folder, 'tree-')), name);
    mkdirSync(join(tree, 'dev/PaxHeaders'), { recursive: true });
    writeFileSync(join(tree, 'dev/null'), 'no device');
    writeFileSync(join(tree, 'dev/PaxHeaders/null'), name);
    writeFileSync(join(tree, 'zeros'), Buffer.alloc(200_000));
    symlinkSync('zeros', join(tree, 'zzz'));
    return tree;
  });
  const image = join(folder, 'image');
  writeFileSync(image, Buffer.alloc(300_001, 'image'));
  const [one = '', two = ''] = trees;
  return {
    index: 'name: it\n',
    parts: [
      { name: 'backup/text', source: '', block: false, text: 'text' },
      { name: 'backup/snapshots/one', source: one, block: false },
      {
        name: 'backup/stream.bin',
        source: '',
        block: false,
        open: async () => Readable.from([Buffer.alloc(70_000, 's')]),
      },
      { name: 'backup/volume.img', source: image, block: true },
      { name: 'backup/two & three', source: two, block: false },
    ],
  };
}

const MEMBERS = [
  'backup/index.yaml',
  'backup/text',
  ...['', 'dev/', 'dev/PaxHeaders/', 'dev/PaxHeaders/null', 'dev/null', 'zeros', 'zzz'].map(
    (name) => `backup/snapshots/one/${name}`,
  ),
  'backup/stream.bin',
  'backup/volume.img',
  ...['', 'dev/', 'dev/PaxHeaders/', 'dev/PaxHeaders/null', 'dev/null', 'zeros', 'zzz'].map(
    (name) => `backup/two & three/${name}`,
  ),
];

describe('backups', () => {
  it.each(['none', 'gzip', 'zstd'])('hold every member once, and nothing else: %s', async (compression) => {
    const target = join(folder, `made.${compression}`);
    await new VolumeArchives(folder, new FolderGate()).write(target, content(), { compression });
    const plain = join(folder, 'plain.tar');
    const codec = compression === 'none' ? 'cat' : compression;
    execFileSync('sh', ['-c', `${codec} ${codec === 'cat' ? '' : '-dc'} < "$1" > "$2"`, 'sh', target, plain]);
    const names = execFileSync('tar', ['-tf', plain], { encoding: 'utf8' }).trim().split('\n');
    expect(names.toSorted()).toEqual(MEMBERS.toSorted());
    expect(names[0]).toBe('backup/index.yaml');
    const read = (name: string) => execFileSync('tar', ['-xOf', plain, name], { maxBuffer: 2 ** 20 });
    expect(read('backup/text').toString()).toBe('text');
    expect(read('backup/stream.bin').equals(Buffer.alloc(70_000, 's'))).toBe(true);
    expect(read('backup/volume.img').equals(Buffer.alloc(300_001, 'image'))).toBe(true);
    expect(read('backup/two & three/zeros').equals(Buffer.alloc(200_000))).toBe(true);
    expect(read('backup/two & three/dev/PaxHeaders/null').toString()).toBe('two & three');
    expect(readFileSync(plain).subarray(-1024).equals(Buffer.alloc(1024))).toBe(true);
  });

  it.each(['none', 'gzip'])('that fail leave no file: %s', async (compression) => {
    const target = join(folder, 'failed');
    const fails = { name: 'backup/x', source: '', block: false, open: () => Promise.reject(new Error('no stream')) };
    const writing = new VolumeArchives(folder, new FolderGate()).write(
      target,
      { index: '', parts: [fails] },
      { compression },
    );
    await expect(writing).rejects.toThrow('no stream');
    expect(() => readFileSync(target)).toThrow('ENOENT');
    expect(() => readFileSync(`${target}.part`)).toThrow('ENOENT');
  });
});

describe('tar members', () => {
  it('tell sizes of eight gigabytes and more', async () => {
    const path = join(folder, 'large.tar');
    for (const size of [0, 511, 8 ** 11 - 1, 8 ** 11, 3 * 8 ** 12]) {
      writeFileSync(path, await memberHeader({ name: 'large', mode: 0o600 }, size));
      const { stdout } = {
        stdout: execFileSync('sh', ['-c', 'tar -tvf "$1" 2>/dev/null || true', 'sh', path], { encoding: 'utf8' }),
      };
      expect(stdout).toMatch(new RegExp(`^-rw------- 0/0 +${size} `));
    }
  });

  it('of any name keep it when the size comes later', async () => {
    const name = `backup/${'ö'.repeat(200)}`;
    const path = join(folder, 'named.tar');
    const header = await memberHeader({ name, mode: 0o600 }, 0);
    const body = Buffer.from('content');
    writeFileSync(path, Buffer.concat([withSize(header, body.length), body, padding(body.length), Buffer.alloc(1024)]));
    expect(execFileSync('tar', ['--quoting-style=literal', '-tf', path], { encoding: 'utf8' }).trim()).toBe(name);
    expect(execFileSync('tar', ['-xOf', path], { encoding: 'utf8' })).toBe('content');
  });

  it('say where the content of a tar ends, or that it does not end as told', async () => {
    const text = await textMember({ name: 'a', mode: 0o600 }, 'text');
    expect(() => contentLength(Buffer.concat([text, Buffer.alloc(1024)]))).toThrow('tar did not end');
    expect(() => contentLength(Buffer.alloc(2048))).toThrow('tar did not end');
  });
});
