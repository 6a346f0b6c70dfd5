import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';

/** A process that cannot be mistaken for a later one with the same pid. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Field 22 of `/proc/<pid>/stat`: clock ticks since boot. */
  readonly startTime: string;
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return undefined; // the process ended
  }
}

/** State letter and start time out of the text of `/proc/<pid>/stat`; the command in it may hold any bytes. */
export function parseStat(text: string): { state: string; parent: number; startTime: string } | undefined {
  const rest = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, parent] = rest;
  const startTime = rest[19];
  if (state === undefined || startTime === undefined) return undefined;
  return { state, parent: Number(parent), startTime };
}

/** Identity of a running process; undefined when there is none or it is a zombie. */
export function identify(pid: number): ProcessIdentity | undefined {
  const stat = parseStat(read(`/proc/${pid}/stat`) ?? '');
  if (stat === undefined || stat.state === 'Z' || stat.state === 'X') return undefined;
  return { pid, startTime: stat.startTime };
}

export function isAlive(process: ProcessIdentity): boolean {
  return identify(process.pid)?.startTime === process.startTime;
}

/** Sends a signal (by number) to exactly this process; false when it has ended. */
export function sendSignal(target: ProcessIdentity, signal: number): boolean {
  if (!isAlive(target)) return false;
  try {
    return process.kill(target.pid, signal);
  } catch {
    return false;
  }
}

/** Direct children of a process. */
export function childrenOf(pid: number): number[] {
  const text = read(`/proc/${pid}/task/${pid}/children`) ?? '';
  return text.split(' ').filter(Boolean).map(Number);
}

/** Argument vector; a process that set its title has one long argument. */
export function commandLine(pid: number): string[] {
  const text = read(`/proc/${pid}/cmdline`) ?? '';
  const words = text.split('\0');
  while (words.at(-1) === '') words.pop();
  return words;
}

/** Value of a field of `/proc/<pid>/status`. */
export function statusField(pid: number, name: string): string | undefined {
  const text = read(`/proc/${pid}/status`);
  if (text === undefined) return undefined;
  const start = text.indexOf(`\n${name}:`);
  if (start === -1) return undefined;
  return text.slice(start + name.length + 2, text.indexOf('\n', start + 1)).trim();
}

/** Pids of the process in its pid namespaces, ours first. */
export function namespacePids(pid: number): number[] {
  return (statusField(pid, 'NSpid') ?? '').split('\t').filter(Boolean).map(Number);
}

/** Whether the process blocks the signal: how systemd shows that it waits for it. */
export function blocksSignal(pid: number, signal: number): boolean {
  const mask = statusField(pid, 'SigBlk');
  return mask !== undefined && ((BigInt(`0x${mask}`) >> BigInt(signal - 1)) & 1n) === 1n;
}

/** Identifies a namespace, for example `pid:[4026531836]`. */
export function namespaceOf(pid: number | 'self', kind: 'pid' | 'user' | 'net' | 'mnt'): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/${kind}`);
  } catch {
    return undefined;
  }
}

/** Whether the process lives in this process's pid and user namespaces: a guest's process never does. */
export function isOfThisHost(pid: number): boolean {
  return (
    namespaceOf(pid, 'pid') === namespaceOf('self', 'pid') && namespaceOf(pid, 'user') === namespaceOf('self', 'user')
  );
}

export function listProcesses(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

/** Whether both run the same program file; false when one of them has ended. */
export function runSameProgram(a: number, b: number): boolean {
  try {
    const [first, second] = [statSync(`/proc/${a}/exe`), statSync(`/proc/${b}/exe`)];
    return first.dev === second.dev && first.ino === second.ino;
  } catch {
    return false;
  }
}

/** Resolves once the process has ended; false when `timeoutMs` passes first. */
export async function waitForEnd(target: ProcessIdentity, timeoutMs: number): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  for (let pause = 1; isAlive(target); pause = Math.min(pause * 1.5, 20)) {
    if (performance.now() > deadline) return false;
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  return true;
}
