import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { copyFile } from '../../packages/daemon/src/host/files.ts';
import { contentSize } from '../../packages/daemon/src/host/tools/block-fs.ts';

const MIB = 1024 * 1024;
let folder: string;
let device: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'block-copy-'));
  writeFileSync(join(folder, 'disk'), Buffer.alloc(8 * MIB, 0xff));
  device = execFileSync('losetup', ['--find', '--show', join(folder, 'disk')], { encoding: 'utf8' }).trim();
});
afterAll(() => {
  if (device !== undefined) execFileSync('losetup', ['--detach', device]);
  rmSync(folder, { recursive: true, force: true });
});

it('a disk goes from a file to a device and back, its zeroes as holes of the file', async () => {
  const file = join(folder, 'file');
  writeFileSync(file, Buffer.alloc(MIB, 1));
  truncateSync(file, 6 * MIB);
  await copyFile(file, device);
  expect(await contentSize(device)).toBe(8 * MIB);
  const back = join(folder, 'back');
  writeFileSync(back, 'longer ago');
  await copyFile(device, back);
  const [wanted, found] = [readFileSync(file), readFileSync(back)];
  expect(found).toHaveLength(8 * MIB);
  expect(found.subarray(0, 6 * MIB).equals(wanted)).toBe(true);
  expect(found.subarray(6 * MIB).every((byte) => byte === 0xff)).toBe(true);
  expect(statSync(back).blocks * 512).toBeLessThan(8 * MIB);
});
