import { run } from '../run.ts';
import type { IpCommand } from './ip.ts';

/** Runs the host's `ip` in the network namespace of `pid` (nothing else of that process is entered). @throws CommandError */
export async function ipInNamespace(pid: number, command: IpCommand): Promise<void> {
  await run('nsenter', ['-t', String(pid), '-n', '--', 'ip', ...command]);
}
