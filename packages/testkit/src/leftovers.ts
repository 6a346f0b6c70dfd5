import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { command } from './command.ts';
import { until } from './poll.ts';

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

/** Ends and removes all of it; resolves when it is gone, or when nothing helps. */
export async function removeLeftovers(stateDir: string): Promise<void> {
  await until('what is left to go', () => tryRemove(stateDir), { timeoutMs: 20_000 }).catch(() => undefined);
}

/** True when nothing was left to begin with: what is killed takes its time, and may start something before it goes. */
async function tryRemove(stateDir: string): Promise<boolean> {
  // A container's own processes do not name the folder: they are found as descendants of its monitor.
  const pids = withDescendants([...findProcesses(stateDir).keys()]);
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // gone already
    }
    thaw(pid);
  }
  const mounts = findMounts(stateDir).toReversed();
  for (const mount of mounts) await command('umount', ['-l', mount], { anyExit: true });
  const loops = await findLoops(stateDir);
  for (const loop of loops) await command('losetup', ['-d', loop], { anyExit: true });
  return pids.size + mounts.length + loops.length === 0;
}

/** What is frozen takes no signal, and whose monitor is gone would not be found again. */
function thaw(pid: number): void {
  for (const line of readProc(`/proc/${pid}/cgroup`).split('\n')) {
    const [, hierarchy, path] = line.split(':');
    const switches: Readonly<Record<string, readonly [file: string, thawed: string]>> = {
      freezer: [`/sys/fs/cgroup/freezer${path}/freezer.state`, 'THAWED'],
      '': [`/sys/fs/cgroup${path}/cgroup.freeze`, '0'],
    };
    const [file = '', thawed = ''] = switches[hierarchy ?? ''] ?? [];
    try {
      if (path !== '/') writeFileSync(file, thawed, { flag: 'r+' });
    } catch {
      // no such switch here, or the process is gone
    }
  }
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
