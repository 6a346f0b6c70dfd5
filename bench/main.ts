import { markdown, met, type Row } from './report.ts';
import { api, execs, fullMemory, launches, manyLaunches, memory, responsiveness, writes } from './sections.ts';
import type { Run } from './measure.ts';
import { migration } from './migration.ts';
import { storage } from './storage.ts';
import { startServers } from './servers.ts';

const SECTIONS = {
  memory,
  launches,
  exec: execs,
  many: manyLaunches,
  responsiveness,
  writes,
  api,
  full: fullMemory,
  storage,
  migration,
};

/**
 * Measures this server beside LXD 5.0.2 in one run, alternating, and prints a table of ratios. Words on the command
 * line choose sections; `BENCH_ROUNDS` is the number of samples (default 5).
 */
async function main(): Promise<void> {
  const wanted = process.argv.slice(2);
  const rounds = Number(process.env['BENCH_ROUNDS'] ?? 5);
  await using stack = new AsyncDisposableStack();
  const note = (text: string): void => void process.stderr.write(`${text}\n`);
  note('Starting the servers; the image is imported into each …');
  const run: Run = { servers: await startServers(stack), rounds, note };
  const rows: Row[] = [];
  for (const [name, section] of Object.entries(SECTIONS)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    rows.push(...(await section(run)));
  }
  const names = run.servers.map(({ name }) => name);
  process.stdout.write(markdown(rows, names));
  const [ours = '', peer = ''] = names;
  const missed = rows.filter((row) => met(row, ours, peer) === false);
  note(missed.length === 0 ? 'Every goal was met.' : `Goals missed: ${missed.map(({ name }) => name).join('; ')}`);
}

await main();
