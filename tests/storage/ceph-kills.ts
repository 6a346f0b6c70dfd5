import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** When a daemon is killed: as the n-th command that changes the cluster begins, or has ended. The first one is 1. */
export interface Moment {
  readonly command: number;
  readonly when: 'begins' | 'ended';
}

/** Numbers from 0 to 1, the same for the same seed. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** One moment of each part of the work, the last part among them. */
export function momentsOf(commands: number, rounds: number, random: () => number): Moment[] {
  return Array.from({ length: rounds }, (_, round) => ({
    command: 1 + Math.floor(((round + random()) / rounds) * commands),
    when: random() < 0.7 ? 'begins' : 'ended',
  }));
}

/**
 * Follows the commands of a daemon until the moment has come, or the work is done. What the last one was, and how many
 * there were.
 */
export async function followCommands(
  daemon: number,
  work: Promise<unknown>,
  moment?: Moment,
): Promise<{ readonly count: number; readonly last: string }> {
  const running = new Map<number, string | undefined>();
  const count = { begins: 0, ended: 0 };
  let last = 'nothing';
  let done = false;
  const follow = work.finally(() => (done = true)).catch(() => undefined);
  while (!done) {
    const present = new Set(childrenOf(daemon));
    for (const [pid, words] of running) {
      if (present.has(pid)) continue;
      running.delete(pid);
      if (words === undefined) continue;
      last = words;
      count.ended += 1;
      if (moment?.when === 'ended' && count.ended === moment.command) return { count: count.ended, last };
    }
    for (const pid of present) {
      if (running.has(pid)) continue;
      const args = commandLine(pid);
      if (args.length === 0 || basename(args[0] ?? '').startsWith('node')) continue; // not yet itself
      const words = changeOf(args);
      running.set(pid, words);
      if (words === undefined) continue;
      last = words;
      count.begins += 1;
      if (moment?.when === 'begins' && count.begins === moment.command) return { count: count.begins, last };
    }
    await sleep(1);
  }
  await follow;
  return { count: count.begins, last };
}

const CHANGES =
  /^(?:create|clone|rename|rm|cp|deep cp|resize|import-diff|snap (?:create|rm|purge|rename|protect|unprotect|rollback))\b/;

/** The words of a command of `rbd` that changes something. */
function changeOf([program = '', ...args]: readonly string[]): string | undefined {
  if (basename(program) !== 'rbd') return undefined;
  const words = args.slice(args.indexOf('--pool') + 2).join(' ');
  return CHANGES.test(words) ? words : undefined;
}

function childrenOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
      readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
    );
  } catch {
    return []; // it ended, or one of its threads did
  }
}

function commandLine(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').slice(0, -1);
  } catch {
    return []; // it ended
  }
}
