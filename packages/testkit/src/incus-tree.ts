import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cachedFiles } from './cached-files.ts';
import { command } from './command.ts';
import { allOf, type Probe, probePrograms, probeRoot } from './probes.ts';

const VERSION = '1';
const SUITE = 'trixie';
const PACKAGES = 'incus-base,dnsmasq-base,nftables,iproute2,squashfs-tools,uidmap,procps,xz-utils,acl,attr,rsync';

/**
 * A Debian that has Incus, built once from the machine's Debian mirror (about half a minute) where this Debian's own
 * packages have none. Read-only: run it from an overlay.
 */
export async function incusTree(): Promise<string> {
  return join(await cachedFiles('incus', VERSION, buildTree), 'root');
}

/** Whether `incusTree` can be had here; makes it. */
export async function probeIncus(): Promise<Probe> {
  const basics = allOf(probeRoot(), probePrograms('mmdebstrap', 'unshare', 'setpriv', 'lxc-start'));
  if (!basics.ok) return basics;
  try {
    await incusTree();
    return { ok: true };
  } catch (error) {
    const [line = ''] = (error instanceof Error ? error.message : String(error)).split('\n');
    return { ok: false, reason: `Incus cannot be had: ${line}` };
  }
}

async function buildTree(folder: string): Promise<void> {
  const root = join(folder, 'root');
  const args = ['--quiet', '--variant=minbase', `--include=${PACKAGES}`, SUITE, root, mirror()];
  await command('mmdebstrap', args, { timeoutMs: 300_000 });
  for (const file of ['subuid', 'subgid']) writeFileSync(join(root, 'etc', file), 'root:100000:1000000000\n');
  rmSync(join(root, 'var/cache/apt'), { recursive: true, force: true });
}

/** The machine's own Debian mirror. */
export function mirror(): string {
  const sources = readFileSync('/etc/apt/sources.list.d/debian.sources', 'utf8');
  const found = /^URIs:\s*(\S+)/m.exec(sources)?.[1];
  if (found === undefined) throw new Error('No package mirror in /etc/apt/sources.list.d/debian.sources');
  return found;
}
