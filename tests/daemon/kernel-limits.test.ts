import { readFileSync, writeFileSync } from 'node:fs';
import { startDaemon } from '@keelson/testkit';
import { afterAll, expect, it } from 'vitest';

const file = '/proc/sys/kernel/keys/maxbytes';
const before = readFileSync(file, 'utf8').trim();

afterAll(() => writeFileSync(file, before));

it('raises limits that are too low for many guests, and leaves higher ones', async () => {
  writeFileSync(file, '20000');
  await using daemon = await startDaemon();
  expect(Number(readFileSync(file, 'utf8'))).toBe(2_000_000);
  expect(Number(readFileSync('/proc/sys/fs/inotify/max_user_instances', 'utf8'))).toBeGreaterThanOrEqual(1_048_576);
  writeFileSync(file, '3000000');
  await daemon.restart();
  expect(Number(readFileSync(file, 'utf8'))).toBe(3_000_000);
});
