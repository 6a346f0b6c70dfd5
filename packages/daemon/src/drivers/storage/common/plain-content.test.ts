import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { blocksIn, machineIn, rootIn } from './plain-content.ts';
import { VolumeFolders } from './volume-folders.ts';
import { KeyedQueue } from '../../../core/keyed-queue.ts';
import { FolderRecovery } from './recovery.ts';

let base = '';
beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), 'keelson-plain-'));
});
afterAll(() => rm(base, { recursive: true, force: true }));

test('a root is a folder, never a link to one', async () => {
  const volume = join(base, 'volume');
  await mkdir(volume);
  await expect(rootIn(volume)).rejects.toMatchObject({ code: 'not-found' });
  await symlink('/', join(volume, 'rootfs'));
  await expect(rootIn(volume)).rejects.toMatchObject({ code: 'bad-request' });
  await rm(join(volume, 'rootfs'));
  await mkdir(join(volume, 'rootfs'));
  expect(await rootIn(volume)).toBe(join(volume, 'rootfs'));
});

test('the disk of a virtual machine is a file, never a link to one', async () => {
  const volume = join(base, 'machine');
  await mkdir(volume);
  expect(await machineIn(volume)).toEqual({ path: volume, ids: 'plain' });
  await symlink('/dev/null', join(volume, 'root.img'));
  await expect(machineIn(volume)).rejects.toMatchObject({ code: 'bad-request' });
});

test('blocks are a file, never a link to one', async () => {
  const volume = join(base, 'custom', 'default_blocks');
  await mkdir(volume, { recursive: true });
  await symlink('/etc/passwd', join(volume, 'root.img'));
  await expect(blocksIn(volume, 'root.img')).rejects.toMatchObject({ code: 'bad-request' });
  const folders = new VolumeFolders({ path: base, queue: new KeyedQueue() });
  const ref = { type: 'custom', name: 'default_blocks', contentType: 'block' } as const;
  await expect(folders.content(ref)).rejects.toMatchObject({ code: 'bad-request' });
  await expect(folders.resizeBlock(ref, 1_000_000)).rejects.toMatchObject({ code: 'bad-request' });
  await rm(join(volume, 'root.img'));
  await expect(folders.content(ref)).rejects.toMatchObject({ code: 'not-found' });
  await writeFile(join(volume, 'root.img'), '');
  expect(await folders.content(ref)).toBe(join(volume, 'root.img'));
});

test('descriptions are written into the volume, whatever links stand in it', async () => {
  const outside = join(base, 'outside');
  const volume = join(base, 'containers', 'c1');
  await mkdir(outside);
  await mkdir(volume, { recursive: true });
  await symlink(outside, join(volume, 'templates'));
  const recovery = new FolderRecovery({ path: base, snapshotsOf: async () => [], adopt: async () => undefined });
  const ref = { type: 'container', name: 'c1', contentType: 'filesystem' } as const;
  await recovery.describe(ref, new Map([['templates/job', 'text']]));
  await expect(rm(join(outside, 'job'))).rejects.toMatchObject({ code: 'ENOENT' });
  expect(await recovery.read(ref, 'templates/job')).toBe('text');
});
