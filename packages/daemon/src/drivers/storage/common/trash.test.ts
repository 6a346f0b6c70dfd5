import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { silentLog } from '../../../core/log.ts';
import { Trash } from './trash.ts';

let pool: string;
beforeEach(() => {
  pool = mkdtempSync(join(tmpdir(), 'keelson-trash-'));
  for (const name of ['trash', 'trash/old', 'a', 'b']) mkdirSync(join(pool, name));
});
afterEach(() => rmSync(pool, { recursive: true }));

/** A trash that tells what it was asked to purge. */
function trashOf(purge: (path: string) => Promise<void> = async (path) => rmSync(path, { recursive: true })) {
  const [purged, warned]: [string[], string[]] = [[], []];
  let id = 0;
  const trash = new Trash({
    folder: join(pool, 'trash'),
    newId: () => `id${++id}`,
    log: { ...silentLog, warn: (message) => warned.push(message) },
    purge: async (path) => {
      purged.push(path.slice(pool.length + 1));
      await purge(path);
    },
  });
  return { trash, purged, warned };
}

it('deletes what was discarded and what an earlier run left, each once', async () => {
  const { trash, purged, warned } = trashOf();
  for (const name of ['a', 'b', 'none']) await trash.discard(join(pool, name));
  expect([existsSync(join(pool, 'a')), existsSync(join(pool, 'b'))]).toEqual([false, false]);
  await trash.resume();
  await trash.settled();
  expect(purged.toSorted()).toEqual(['trash/id1', 'trash/id2', 'trash/old']);
  expect(warned).toEqual([]);
  expect(readdirSync(join(pool, 'trash'))).toEqual([]);
});

it('tells what it cannot delete, and tries again when it resumes', async () => {
  const problems = [new Error('no')];
  const { trash, purged, warned } = trashOf(async (path) => {
    const problem = problems.pop();
    if (problem !== undefined) throw problem;
    rmSync(path, { recursive: true });
  });
  for (const _ of [1, 2]) {
    await trash.resume();
    await trash.settled();
  }
  expect([purged, warned]).toEqual([['trash/old', 'trash/old'], ['cannot delete the remains of a volume']]);
  expect(readdirSync(join(pool, 'trash'))).toEqual([]);
});
