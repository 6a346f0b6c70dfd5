import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { errors } from '../../../core/errors.ts';
import { Cgroup, type CgroupLayout } from '../../../host/cgroup.ts';
import { identify, sendSignal, waitForEnd } from '../../../host/proc.ts';
import { ipBatch } from '../../../host/tools/ip.ts';
import { linkDetails } from '../../../host/tools/ip-namespace.ts';
import type { LxcFiles } from './files.ts';

const SIGKILL = 9;

/** Ends every process in the guest's cgroups and removes them. Absent = no effect. */
export async function removeCgroups(layout: CgroupLayout, files: LxcFiles, key: string): Promise<void> {
  for (const name of [files.payload(key), files.monitor(key)]) {
    const cgroup = new Cgroup(layout, name);
    if (!cgroup.exists()) continue;
    await endProcesses(cgroup);
    await cgroup.remove();
  }
}

async function endProcesses(cgroup: Cgroup): Promise<void> {
  for (let round = 0; round < 5; round++) {
    const processes = (await cgroup.processes()).map((pid) => identify(pid)).filter((found) => found !== undefined);
    if (processes.length === 0) return;
    for (const found of processes) sendSignal(found, SIGKILL);
    await cgroup.thaw().catch(() => undefined); // a frozen process does not take the signal on version 1
    await Promise.all(processes.map((found) => waitForEnd(found, 5_000)));
  }
}

/** Removes host ends of veth pairs that are still there; an interface of another kind is not ours. */
export async function removeInterfaces(names: readonly string[]): Promise<void> {
  for (const name of names.filter(interfaceExists)) {
    if ((await pairOf(name))?.kind === 'veth') await removePair(name);
  }
}

async function removePair(name: string): Promise<void> {
  await ipBatch([['link', 'del', 'dev', name]]).catch((error: unknown) => {
    if (interfaceExists(name)) throw error;
  });
}

const TAKEN_MS = 2_000;

/**
 * Makes the name free for a new veth pair. A pair whose guest end never left the host is what a crash left behind;
 * one whose guest is just going vanishes by itself. @throws bad-request when something else has the name.
 */
export async function claimInterface(name: string): Promise<void> {
  const deadline = performance.now() + TAKEN_MS;
  while (interfaceExists(name)) {
    const pair = await pairOf(name);
    if (pair?.kind === 'veth' && pair.peerIsHere) await removePair(name);
    else if (pair !== undefined && (pair.kind !== 'veth' || performance.now() > deadline))
      throw errors.badRequest(`The host interface name "${name}" is in use`);
    else await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function pairOf(name: string): Promise<{ kind: string; peerIsHere: boolean } | undefined> {
  const found = await linkDetails(name);
  return found === undefined ? undefined : { kind: found.kind, peerIsHere: found.peer !== undefined };
}

export function interfaceExists(name: string): boolean {
  return /^[A-Za-z0-9_.-]+$/.test(name) && existsSync(`/sys/class/net/${name}`);
}

/** Host ends of the veth pairs named in the configuration of the guest's last start. */
export async function configuredInterfaces(files: LxcFiles, key: string): Promise<string[]> {
  const text = await readFile(files.config(key), 'utf8').catch(() => '');
  return [...text.matchAll(/^lxc\.net\.\d+\.veth\.pair = (\S+)$/gm)].map((match) => match[1] ?? '');
}
