import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hostileImages, METADATA, writeTar } from './hostile.test-data.ts';
import { inspectImage } from './inspect.ts';
import { DEFAULT_LIMITS } from './tree-check.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'keelson-inspect-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const sound = [
  { name: 'metadata.yaml', text: METADATA },
  { name: 'templates/', type: 'directory' as const },
  { name: 'templates/hostname.tpl', text: 'name\n' },
  { name: 'rootfs/', type: 'directory' as const },
  { name: 'rootfs/etc/', type: 'directory' as const },
  { name: 'rootfs/etc/hostname', text: 'x' },
  { name: 'rootfs/etc/copy', type: 'link' as const, link: 'rootfs/etc/hostname' },
  { name: 'rootfs/bin', type: 'symlink' as const, link: '/usr/bin' },
  { name: 'rootfs/dev/', type: 'directory' as const },
  { name: 'rootfs/dev/null', type: 'character-device' as const, device: [1, 3] as const },
];

describe('inspectImage', () => {
  it.each(hostileImages)('refuses $what', async ({ entries, names }) => {
    const main = join(folder, 'hostile.tar');
    await writeTar(main, entries);
    await expect(inspectImage({ main })).rejects.toMatchObject({
      code: 'bad-request',
      message: expect.stringMatching(names) as string,
    });
  });

  it.each(['none', 'gzip', 'xz', 'zstd', 'bzip2'] as const)('reads a unified image compressed with %s', async (how) => {
    const main = join(folder, `sound-${how}`);
    await writeTar(main, sound);
    if (how !== 'none') writeFileSync(main, execFileSync(how, ['-c', main]));
    const image = await inspectImage({ main });
    expect(image).toMatchObject({ type: 'container', metadata: METADATA });
    expect([...image.templates]).toEqual([['hostname.tpl', 'name\n']]);
  });

  it('reads names written with a leading ./', async () => {
    const main = join(folder, 'dotted.tar');
    await writeTar(main, [
      { name: './', type: 'directory' },
      ...sound.map((entry) => ({
        ...entry,
        name: `./${entry.name}`,
        ...(entry.type === 'link' ? { link: `./${entry.link}` } : {}),
      })),
    ]);
    expect((await inspectImage({ main })).templates.size).toBe(1);
  });

  it('refuses a truncated gzip', async () => {
    const main = join(folder, 'cut.tar.gz');
    await writeTar(main, sound);
    const whole = execFileSync('gzip', ['-c', main]);
    writeFileSync(main, whole.subarray(0, whole.length - 40));
    await expect(inspectImage({ main })).rejects.toMatchObject({ code: 'bad-request' });
  });

  it('refuses what is no archive, and an empty file', async () => {
    const main = join(folder, 'text');
    writeFileSync(main, 'hello');
    await expect(inspectImage({ main })).rejects.toThrow('Unsupported compression');
    writeFileSync(main, '');
    await expect(inspectImage({ main })).rejects.toThrow('EOF');
  });

  it('stops at the ratio limit', async () => {
    const main = join(folder, 'bomb.tar.gz');
    await writeTar(main, [...sound, { name: 'rootfs/zeros', text: '\0'.repeat(1024 * 1024) }]);
    writeFileSync(main, execFileSync('gzip', ['-c', main]));
    expect(statSync(main).size).toBeLessThan(10_000);
    const limits = { ...DEFAULT_LIMITS, ratio: 10, ratioFloor: 64 * 1024 };
    await expect(inspectImage({ main }, { limits })).rejects.toThrow(/"rootfs\/zeros".*unpacks to more than/);
  });

  it('bounds metadata.yaml', async () => {
    const main = join(folder, 'large.tar');
    await writeTar(main, [{ name: 'metadata.yaml', text: '#'.repeat(2 * 1024 * 1024) }]);
    await expect(inspectImage({ main })).rejects.toThrow(/"metadata.yaml": it is larger than/);
  });

  it('refuses a disk that names a backing file', async () => {
    const main = join(folder, 'meta.tar');
    const disk = join(folder, 'disk.qcow2');
    await writeTar(main, [{ name: 'metadata.yaml', text: METADATA }]);
    const head = Buffer.alloc(512);
    head.write('QFI\xfb', 'latin1');
    head.writeUInt32BE(3, 4);
    head.writeBigUInt64BE(8n * 1024n * 1024n, 24);
    writeFileSync(disk, head);
    const files = { main, root: { path: disk, disk: true } };
    expect(await inspectImage(files)).toMatchObject({ type: 'virtual-machine', unpackedBytes: 8 * 1024 * 1024 });
    head.writeBigUInt64BE(112n, 8);
    writeFileSync(disk, head);
    await expect(inspectImage(files)).rejects.toThrow('names a backing file');
  });
});
