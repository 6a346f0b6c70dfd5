import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { command } from '@keelson/testkit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { UserNamespaces } from '../../packages/daemon/src/host/idmap.ts';
import { cloneMount, unmountAll } from '../../packages/daemon/src/host/mounts.ts';
import { shiftOwners } from '../../packages/daemon/src/host/owner-shift.ts';
import { fillTree, manifestOf } from './manifest.ts';

const RANGE = { base: 1_000_000, size: 65_536 };
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'owner-shift-'));
});
afterAll(async () => {
  await unmountAll(join(folder, 'view'));
  rmSync(folder, { recursive: true, force: true });
});

it('owners on disk are shifted to what a mapped mount shows, and back', async () => {
  const [tree, view] = [join(folder, 'tree'), join(folder, 'view')];
  for (const path of [tree, view]) mkdirSync(path);
  await fillTree(tree, 1);
  const before = await manifestOf(tree);
  await using namespaces = new UserNamespaces();
  const usernsFd = await namespaces.get({ from: 0, to: RANGE.base, size: RANGE.size });
  await cloneMount(tree, view, { usernsFd, readOnly: true });
  const shown = await manifestOf(view);
  await unmountAll(view);
  expect(shown).not.toEqual(before);

  await shiftOwners(tree, { from: 0, to: RANGE.base, size: RANGE.size });
  expect(await manifestOf(tree)).toEqual(shown);
  await shiftOwners(tree, { from: RANGE.base, to: 0, size: RANGE.size });
  expect(await manifestOf(tree)).toEqual(before);
});

it('owners are shifted also where paths are longer than the kernel takes', async () => {
  const chain = (name: string) => Array<string>(15).fill(name.repeat(200)).join('/');
  const tree = join(folder, 'deep');
  for (const name of ['a', 'b']) mkdirSync(join(tree, chain(name)), { recursive: true });
  await command('mv', [join(tree, 'b'.repeat(200)), join(tree, chain('a'))]);
  await shiftOwners(tree, { from: 0, to: RANGE.base, size: RANGE.size });
  const { stdout } = await command('find', [tree, '-printf', '%U:%G\n']);
  expect(stdout.trim().split('\n')).toEqual(Array(31).fill(`${RANGE.base}:${RANGE.base}`));
});
