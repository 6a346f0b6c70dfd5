import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { tryLock } from './machine-lock.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'keelson-lock-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

test('one owner at a time, free again after dispose', () => {
  const path = join(folder, 'a');
  {
    using held = tryLock(path);
    expect(held).toBeDefined();
    expect(tryLock(path)).toBeUndefined();
  }
  using again = tryLock(path);
  expect(again).toBeDefined();
});

test('a lock of a process that is gone is taken over', () => {
  const { pid } = spawnSync(process.execPath, ['-e', '']);
  const path = join(folder, 'a');
  mkdirSync(path);
  writeFileSync(join(path, 'pid'), String(pid));
  using held = tryLock(path);
  expect(held).toBeDefined();
});

test('a lock that is being written belongs to somebody', () => {
  const path = join(folder, 'a');
  mkdirSync(path);
  writeFileSync(join(path, 'pid'), '');
  expect(tryLock(path)).toBeUndefined();
});
