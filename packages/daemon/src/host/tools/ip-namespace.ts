import { run } from '../run.ts';
import type { IpCommand } from './ip.ts';

/** Runs the host's `ip` in the network namespace of `pid` (nothing else of that process is entered). @throws CommandError */
export async function ipInNamespace(pid: number, command: IpCommand): Promise<void> {
  await run('nsenter', ['-t', String(pid), '-n', '--', 'ip', ...command]);
}

/** Kind of a host interface (`veth`, `bridge`, …; empty for a plain one) and its peer's name when that is on the host too. */
export async function linkDetails(name: string): Promise<{ kind: string; peer: string | undefined } | undefined> {
  const { code, stdout } = await run('ip', ['-j', '-d', 'link', 'show', 'dev', name], { ok: [0, 1] });
  if (code !== 0 || stdout.trim() === '') return undefined;
  const [link] = JSON.parse(stdout) as { link?: string; linkinfo?: { info_kind?: string } }[];
  return link === undefined ? undefined : { kind: link.linkinfo?.info_kind ?? '', peer: link.link };
}
