import { readdirSync, readFileSync } from 'node:fs';
import { command } from './command.ts';

/** What of a daemon is still on the machine: every process, mount and loop device that names its state folder. */
export interface Leftovers {
  /** Pids, with their command line. */
  readonly processes: ReadonlyMap<number, string>;
  readonly mounts: readonly string[];
  readonly loops: readonly string[];
}

export async function findLeftovers(stateDir: string): Promise<Leftovers> {
  return { processes: findProcesses(stateDir), mounts: findMounts(stateDir), loops: await findLoops(stateDir) };
}

/** Ends and removes all of it. */
export async function removeLeftovers(stateDir: string): Promise<void> {
  // A container's own processes do not name the folder: they are found as descendants of its monitor.
  for (const pid of withDescendants([...findProcesses(stateDir).keys()])) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // gone already
    }
  }
  for (const mount of findMounts(stateDir).toReversed()) await command('umount', ['-l', mount], { anyExit: true });
  for (const loop of await findLoops(stateDir)) await command('losetup', ['-d', loop], { anyExit: true });
}

function findProcesses(stateDir: string): Map<number, string> {
  const found = new Map<number, string>();
  for (const entry of readdirSync('/proc')) {
    const pid = Number(entry);
    if (!Number.isInteger(pid) || pid === process.pid) continue;
    const line = readProc(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim();
    if (namesFolder(line, stateDir)) found.set(pid, line);
  }
  return found;
}

function namesFolder(line: string, stateDir: string): boolean {
  const at = line.indexOf(stateDir);
  return at !== -1 && !/[\w.-]/.test(line.charAt(at + stateDir.length));
}

function withDescendants(roots: readonly number[]): Set<number> {
  const children = new Map<number, number[]>();
  for (const entry of readdirSync('/proc')) {
    const stat = Number.isInteger(Number(entry)) ? readProc(`/proc/${entry}/stat`) : '';
    const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
    if (!Number.isInteger(parent)) continue;
    children.set(parent, [...(children.get(parent) ?? []), Number(entry)]);
  }
  const all = new Set<number>();
  const add = (pid: number): void => {
    if (all.has(pid) || pid === process.pid) return;
    all.add(pid);
    for (const child of children.get(pid) ?? []) add(child);
  };
  for (const root of roots) add(root);
  return all;
}

function findMounts(stateDir: string): string[] {
  return readProc('/proc/self/mountinfo')
    .split('\n')
    .map((line) => (line.split(' ')[4] ?? '').replaceAll('\\040', ' '))
    .filter((target) => target === stateDir || target.startsWith(`${stateDir}/`));
}

async function findLoops(stateDir: string): Promise<string[]> {
  const { stdout } = await command('losetup', ['--list', '--noheadings', '--output', 'NAME,BACK-FILE'], {
    anyExit: true,
  });
  return stdout.split('\n').flatMap((line) => {
    const [name, file] = line.trim().split(/\s+/);
    return name !== undefined && file?.startsWith(`${stateDir}/`) === true ? [name] : [];
  });
}

function readProc(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
