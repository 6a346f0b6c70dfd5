import { run } from '../run.ts';

/** One `ip` command without the leading `ip`, for example `['link', 'set', 'dev', 'br0', 'up']`. */
export type IpCommand = readonly string[];

/**
 * Runs commands in one process, in order; stops at the first that fails.
 * @throws CommandError with ip's text.
 */
export async function ipBatch(commands: readonly IpCommand[]): Promise<void> {
  if (commands.length === 0) return;
  for (const word of commands.flat()) {
    if (/[\s\\#]/.test(word) || word === '') throw new Error(`Not an argument of ip: ${JSON.stringify(word)}`);
  }
  await run('ip', ['-batch', '-'], { input: `${commands.map((command) => command.join(' ')).join('\n')}\n` });
}

export interface IpAddress {
  readonly family: 'inet' | 'inet6';
  readonly address: string;
  readonly prefix: number;
  readonly scope: 'global' | 'link' | 'local';
}

/** Addresses of a host interface, as `ip -j addr` reports them; empty when it does not exist. */
export async function addressesOf(device: string): Promise<readonly IpAddress[]> {
  const { code, stdout } = await run('ip', ['-j', 'addr', 'show', 'dev', device], { ok: [0, 1] });
  if (code !== 0 || stdout.trim() === '') return [];
  const [entry] = JSON.parse(stdout) as {
    addr_info: { family: string; local: string; prefixlen: number; scope: string }[];
  }[];
  return (entry?.addr_info ?? []).map((info) => ({
    family: info.family === 'inet' ? 'inet' : 'inet6',
    address: info.local,
    prefix: info.prefixlen,
    scope: info.scope === 'host' ? 'local' : info.scope === 'link' ? 'link' : 'global',
  }));
}
