import {
  commandLine,
  identify,
  isOfThisHost,
  listProcesses,
  type ProcessIdentity,
  runSameProgram,
  sendSignal,
  statusField,
  waitForEnd,
} from '../proc.ts';
import { clientArguments } from './ceph.ts';
import type { RbdPlace } from './rbd.ts';

const SIGKILL = 9;
/** Milliseconds a command has that works on what is kept, and one that was ended. */
const [PATIENCE, LETTING_GO] = [60_000, 10_000];

/** What to do with a command whose daemon is gone. */
export type Verdict = 'end' | 'wait' | 'wait and end';

/**
 * `args`: those of `rbd`, without the program. Undefined for what no daemon began in the OSD pool. Copies go into what is
 * half made: they are ended. A removal goes on, as it would have to be done again; all else is awaited for a time.
 */
export function verdictOn(place: RbdPlace, args: readonly string[]): Verdict | undefined {
  const own = clientArguments(place);
  if (own.some((argument, index) => args[index] !== argument)) return undefined;
  const pool = args.indexOf('--pool', own.length);
  if (pool === -1 || args[pool + 1] !== place.pool) return undefined;
  const verb = args[pool + 2];
  if (verb === 'cp' || verb === 'deep') return 'end';
  return verb === 'rm' ? 'wait' : 'wait and end';
}

/** Until no command changes the OSD pool any more that a daemon of this host began which is gone. */
export async function settleCommands(place: RbdPlace): Promise<void> {
  const found = listProcesses().flatMap((pid) => orphan(place, pid) ?? []);
  const deadline = performance.now() + PATIENCE;
  for (const { command, verdict } of found) {
    const ended = verdict !== 'end' && (await waitForEnd(command, Math.max(0, deadline - performance.now())));
    if (ended || verdict === 'wait') continue;
    sendSignal(command, SIGKILL);
    await waitForEnd(command, LETTING_GO);
  }
}

function orphan(place: RbdPlace, pid: number): { command: ProcessIdentity; verdict: Verdict } | undefined {
  const [program = '', ...args] = commandLine(pid);
  if (!/(?:^|\/)rbd$/.test(program)) return undefined;
  const verdict = verdictOn(place, args);
  const found = identify(pid);
  if (verdict === undefined || found === undefined || !isOfThisHost(pid)) return undefined;
  // Children of a daemon that lives are its own business.
  return runSameProgram(Number(statusField(pid, 'PPid')), process.pid) ? undefined : { command: found, verdict };
}
