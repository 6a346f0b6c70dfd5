import { readFile } from 'node:fs/promises';
import type { CgroupLayout } from '../../../host/cgroup.ts';
import { lxcVersion } from '../../../host/tools/lxc.ts';
import type { InstanceDriver } from '../contract.ts';

/** Ids every unprivileged guest gets at least. */
const MINIMUM_IDS = 65_536;

/** What is missing for unprivileged containers, each with its cure; `supported` when nothing is. */
export async function probeHost(layout: CgroupLayout): ReturnType<InstanceDriver['probe']> {
  const version = await lxcVersion().catch(() => undefined);
  const missing: string[] = [];
  if (version === undefined) missing.push('the liblxc tools are not installed: apt-get install lxc');
  else if (Number.parseInt(version, 10) < 5) missing.push(`liblxc ${version} is too old: version 5 or newer is needed`);
  missing.push(...(await missingIds()), ...(await missingNamespaces()), ...missingControllers(layout));
  const name = 'lxc';
  if (missing.length === 0) return { supported: true, name, version: version ?? '' };
  return { supported: false, reason: missing.join('; '), name, version: version ?? '' };
}

async function missingIds(): Promise<string[]> {
  const found = await Promise.all(
    ['/etc/subuid', '/etc/subgid'].map(async (file) => {
      const ranges = rootRanges(await readFile(file, 'utf8').catch(() => ''));
      if (ranges.some((range) => range.size >= MINIMUM_IDS)) return [];
      return [`${file} has no range for root: add the line "root:1000000:1000000000"`];
    }),
  );
  return found.flat();
}

/** Id ranges that root may map, out of the text of /etc/subuid or /etc/subgid. */
export function rootRanges(text: string): { base: number; size: number }[] {
  return text
    .split('\n')
    .map((line) => /^(?:root|0):(\d+):(\d+)$/.exec(line.trim()))
    .filter((match) => match !== null)
    .map((match) => ({ base: Number(match[1]), size: Number(match[2]) }));
}

async function missingNamespaces(): Promise<string[]> {
  const limit = await readFile('/proc/sys/user/max_user_namespaces', 'utf8').catch(() => undefined);
  if (limit === undefined) return ['the kernel has no user namespaces (CONFIG_USER_NS)'];
  return Number(limit) > 0 ? [] : ['user namespaces are switched off: sysctl user.max_user_namespaces=10000'];
}

function missingControllers(layout: CgroupLayout): string[] {
  const has = (name: string) => layout.v1.has(name) || layout.v2Controllers.has(name);
  const absent = ['memory', 'pids', 'cpu'].filter((name) => !has(name));
  return absent.length === 0 ? [] : [`the kernel offers no cgroup controller ${absent.join(', ')}`];
}
