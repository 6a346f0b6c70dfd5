import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { OWNER_VARIABLE } from './run.ts';
import {
  commandLine,
  identify,
  isOfThisHost,
  listProcesses,
  type ProcessIdentity,
  sendSignal,
  waitForEnd,
} from './proc.ts';

/**
 * They copy or remove files: what they leave half done goes with the staging folder they did it in. All others change
 * a device or the kernel, in a moment or in steps that must not be cut off.
 */
const MOVERS = new Set([
  ...['cp', 'dd', 'cat', 'rm', 'tar', 'rsync', 'fallocate', 'qemu-img'],
  ...['unsquashfs', 'mksquashfs', 'sqfs2tar', 'tar2sqfs'],
  ...['gzip', 'bzip2', 'xz', 'lzma', 'lz4', 'zstd', 'pigz', 'pbzip2'],
]);
const STREAMS = new Set(['send', 'receive', 'recv']);

const SIGKILL = 9;

export interface Orphan {
  readonly pid: number;
  readonly command: string;
}

/**
 * Ends the commands whose owner was killed: those that only move files at once, the others are waited for. Returns
 * what runs on after `patienceMs`.
 */
export async function endOrphans(owner: string, patienceMs: number): Promise<readonly Orphan[]> {
  const deadline = performance.now() + patienceMs;
  // One that is about to end may start another before it does.
  for (let found = orphansOf(owner); ; found = orphansOf(owner)) {
    if (found.length === 0) return [];
    for (const { identity, argv } of found) if (isMover(argv)) sendSignal(identity, SIGKILL);
    for (const { identity } of found) await waitForEnd(identity, Math.max(0, deadline - performance.now()));
    if (performance.now() > deadline)
      return orphansOf(owner).map(({ identity, argv }) => ({ pid: identity.pid, command: argv.join(' ') }));
  }
}

function orphansOf(owner: string): { identity: ProcessIdentity; argv: string[] }[] {
  const mark = `${OWNER_VARIABLE}=${owner}`;
  return listProcesses().flatMap((pid) => {
    const identity = identify(pid);
    // A guest's process says of itself what it likes.
    if (identity === undefined || !environmentOf(pid).includes(mark) || !isOfThisHost(pid)) return [];
    return [{ identity, argv: commandLine(pid) }];
  });
}

function isMover([program = '', first = '', second = '']: readonly string[]): boolean {
  const name = basename(program);
  if (name === 'prlimit') return true; // on its way to one of them
  if (name === 'btrfs' || name === 'zfs') return STREAMS.has(first) || STREAMS.has(second);
  return MOVERS.has(name);
}

function environmentOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0');
  } catch {
    return []; // it ended
  }
}
