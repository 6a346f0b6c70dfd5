import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openSqliteStore } from '../../packages/daemon/src/state/sqlite/sqlite-store.ts';

const rounds = 20;
/** Longest life of a writer after its first commit, milliseconds. */
const longestLife = 120;
const writer = fileURLToPath(new URL('./store-writer.ts', import.meta.url));

let folder: string;
let child: ChildProcess | undefined;

// A second try must not find what the first one left.
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'keelson-store-kill-'));
});
afterEach(async () => {
  child?.kill('SIGKILL');
  await rm(folder, { recursive: true, force: true });
});

/** Runs a writer, kills it `life` milliseconds after its first commit and returns what it said was written: pair → revision. */
async function writeAndKill(file: string, first: number, life: number): Promise<Map<number, number>> {
  const running = spawn(process.execPath, ['--conditions=source', writer, file, String(first)], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  child = running;
  let output = '';
  let complaints = '';
  running.stderr.on('data', (chunk: Buffer) => (complaints += chunk.toString()));
  const closed = once(running, 'close');
  const started = new Promise<void>((resolve) => {
    running.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      resolve();
    });
  });
  await Promise.race([started, closed]);
  await sleep(life);
  running.kill('SIGKILL');
  const [, signal] = (await closed) as [number | null, string | null];
  expect(signal, `the writer ended by itself: ${complaints}`).toBe('SIGKILL');
  const lines = output.split('\n').slice(0, -1);
  return new Map(lines.map((line) => line.split(' ').map(Number) as [number, number]));
}

/** Pairs that lie in the database; fails for half a pair. */
async function readPairs(file: string): Promise<Map<number, number>> {
  await using store = await openSqliteStore({ file });
  const pairs = new Map<number, number>();
  const halves = new Map<string, number>();
  for (const { key, revision } of (await store.list('/pairs/')).entries) {
    const [, , number = '', half = ''] = key.split('/');
    halves.set(`${number}${half}`, revision);
    pairs.set(Number(number), revision);
  }
  const torn = [...pairs].filter(
    ([number, revision]) => halves.get(`${number}a`) !== revision || halves.get(`${number}b`) !== revision,
  );
  expect(torn, 'pairs with revisions').toEqual([]);
  expect((await store.get('/last'))?.revision).toBe(Math.max(...pairs.values()));
  return pairs;
}

it('keeps every acknowledged commit and no half one when the writer is killed', { timeout: 300_000 }, async () => {
  const file = join(folder, 'state.db');
  const acknowledged = new Map<number, number>();
  let first = 0;
  for (let round = 0; round < rounds; round += 1) {
    const life = Math.random() * longestLife;
    for (const [number, revision] of await writeAndKill(file, first, life)) acknowledged.set(number, revision);
    const pairs = await readPairs(file);
    const lost = [...acknowledged].filter(([number, revision]) => pairs.get(number) !== revision);
    expect(lost, `pairs with revisions, kill ${round} after ${Math.round(life)} ms`).toEqual([]);
    first = Math.max(...pairs.keys()) + 1;
  }
  expect(acknowledged.size).toBeGreaterThan(rounds);
});
