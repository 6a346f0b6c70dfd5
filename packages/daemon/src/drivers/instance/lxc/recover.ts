import type { Log } from '../../../core/log.ts';
import { Cgroup, type CgroupLayout, cgroupsBelow } from '../../../host/cgroup.ts';
import {
  childrenOf,
  identify,
  isOfThisHost,
  listProcesses,
  namespacePids,
  type ProcessIdentity,
  sendSignal,
  waitForEnd,
} from '../../../host/proc.ts';
import { type LxcProcess, lxcProcess } from '../../../host/tools/lxc.ts';
import type { LxcFiles } from './files.ts';
import { type GuestTable, initOf } from './guests.ts';
import { configuredInterfaces, removeCgroups, removeInterfaces } from './leftovers.ts';
import { unstageMounts } from './staged-mounts.ts';

const SIGKILL = 9;
/** How long a start that was under way when the daemon died may take to get somewhere. */
const STARTING_MS = 15_000;

export interface RecoverContext {
  readonly files: LxcFiles;
  readonly layout: CgroupLayout;
  readonly table: GuestTable;
  readonly log: Log;
}

type Found = LxcProcess & { readonly process: ProcessIdentity };

/**
 * Takes over the guests that run from this state folder and removes what a dead daemon left behind: its exec
 * sessions, guests without a record, half-made starts, cgroups and host interfaces.
 */
export async function recoverGuests(context: RecoverContext, known: ReadonlySet<string>): Promise<void> {
  const { files, table, log } = context;
  const found = findProcesses(files.root);
  for (const one of found.filter((each) => each.kind === 'attached')) endAttached(one.process);
  await Promise.all(found.filter((each) => each.kind === 'starting').map((one) => settleStart(one, known)));
  for (const one of findProcesses(files.root).filter((each) => each.kind === 'monitor')) {
    const init = known.has(one.name) ? initOf(one.process.pid) : undefined;
    if (init !== undefined) table.add(one.name, one.process, init);
    else {
      log.warn('ending a guest without a record', { instance: one.name });
      await endMonitor(one.process);
    }
  }
  await removeLeftovers(context, known);
}

function findProcesses(lxcPath: string): Found[] {
  const found: Found[] = [];
  for (const pid of listProcesses()) {
    const what = lxcProcess(pid, lxcPath);
    const process = what === undefined || !isOfThisHost(pid) ? undefined : identify(pid);
    if (what !== undefined && process !== undefined) found.push({ ...what, process });
  }
  return found;
}

function endAttached(tool: ProcessIdentity): void {
  for (const pid of childrenOf(tool.pid)) {
    const command = namespacePids(pid).length > 1 ? identify(pid) : undefined;
    if (command !== undefined) sendSignal(command, SIGKILL);
  }
  sendSignal(tool, SIGKILL);
}

async function settleStart(start: Found, known: ReadonlySet<string>): Promise<void> {
  if (known.has(start.name) && (await waitForEnd(start.process, STARTING_MS))) return;
  sendSignal(start.process, SIGKILL);
  await waitForEnd(start.process, STARTING_MS);
}

async function endMonitor(monitor: ProcessIdentity): Promise<void> {
  const children = childrenOf(monitor.pid).map((pid) => identify(pid));
  for (const child of children) if (child !== undefined) sendSignal(child, SIGKILL);
  if (await waitForEnd(monitor, 1_000)) return; // it cleaned up by itself
  sendSignal(monitor, SIGKILL);
  await waitForEnd(monitor, 5_000);
}

async function removeLeftovers(context: RecoverContext, known: ReadonlySet<string>): Promise<void> {
  const { files, layout, table, log } = context;
  const keys = new Set([
    ...(await keysBelow(layout, '', files.monitor(''))),
    ...(await keysBelow(layout, files.guests, 'payload.')),
    ...(await files.keys()),
  ]);
  for (const key of keys) {
    if (table.get(key) !== undefined) continue;
    try {
      await removeCgroups(layout, files, key);
      await unstageMounts(files, key);
      await removeInterfaces(await configuredInterfaces(files, key));
      if (!known.has(key)) await files.remove(key);
    } catch (error) {
      log.warn('cannot clean up after guest', { instance: key, error });
    }
  }
  if (table.all().length === 0) await new Cgroup(layout, files.guests).removeIfEmpty();
}

/** What follows `prefix` in the names of the cgroups there. */
async function keysBelow(layout: CgroupLayout, parent: string, prefix: string): Promise<string[]> {
  return (await cgroupsBelow(layout, parent, prefix)).map((name) => name.slice(prefix.length));
}
