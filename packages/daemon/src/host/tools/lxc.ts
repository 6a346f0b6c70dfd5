import { commandLine } from '../proc.ts';
import { COMMAND_ENVIRONMENT, run } from '../run.ts';

/** Version of the installed liblxc tools, for example `5.0.2`. @throws CommandError or ENOENT without them. */
export async function lxcVersion(): Promise<string> {
  return (await run('lxc-start', ['--version'], { timeout: 10_000 })).stdout.trim();
}

export interface LxcStart {
  readonly lxcPath: string;
  readonly name: string;
  readonly config: string;
  /** Gets the monitor's pid; removed when it ends. */
  readonly pidFile: string;
  readonly timeout: number;
  readonly signal?: AbortSignal;
}

/** Starts a container in the background; resolves when its init runs. @throws CommandError */
export async function lxcStart(start: LxcStart): Promise<void> {
  const args = ['-P', start.lxcPath, '-n', start.name, '-f', start.config, '-p', start.pidFile, '-d'];
  await run('lxc-start', args, {
    env: COMMAND_ENVIRONMENT,
    timeout: start.timeout,
    ...(start.signal === undefined ? {} : { signal: start.signal }),
  });
}

/**
 * Changes what devices a running guest may open where version 2 drives cgroups: the guest's monitor has its program.
 * `rule` as the kernel's version 1 takes it, for example `c 1:5 rwm`. @throws CommandError
 */
export async function lxcDeviceRule(change: {
  readonly lxcPath: string;
  readonly name: string;
  readonly rule: string;
  readonly allowed: boolean;
}): Promise<void> {
  const file = change.allowed ? 'devices.allow' : 'devices.deny';
  await run('lxc-cgroup', ['-q', '-P', change.lxcPath, '-n', change.name, file, change.rule], { timeout: 10_000 });
}

export interface LxcAttach {
  readonly lxcPath: string;
  readonly name: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly user: number;
  readonly group: number;
  readonly command: readonly string[];
}

/** Arguments of `lxc-attach`: the command gets exactly this environment (and `container=lxc`). */
export function attachArguments(attach: LxcAttach): string[] {
  const variables = Object.entries(attach.environment).flatMap(([name, value]) => ['-v', `${name}=${value}`]);
  const ids = ['-u', String(attach.user), '-g', String(attach.group)];
  return ['-q', '-P', attach.lxcPath, '-n', attach.name, '--clear-env', ...variables, ...ids, '--', ...attach.command];
}

/** Arguments of `lxc-console` without an escape key, on the guest's /dev/console. */
export function consoleArguments(lxcPath: string, name: string): string[] {
  return ['-q', '-P', lxcPath, '-n', name, '-t', '0', '-e', '-1'];
}

export type LxcProcess = { readonly kind: 'monitor' | 'starting' | 'attached'; readonly name: string };

/**
 * What a process of the liblxc tools does for this `lxcPath`, by its command line; undefined for any other process.
 * A guest can give its processes any command line: check that the process is one of the host.
 */
export function lxcProcess(pid: number, lxcPath: string): LxcProcess | undefined {
  return parseLxcCommandLine(commandLine(pid), lxcPath);
}

export function parseLxcCommandLine(words: readonly string[], lxcPath: string): LxcProcess | undefined {
  const title = `[lxc monitor] ${lxcPath} `;
  const [first = ''] = words;
  if (first.startsWith(title)) return { kind: 'monitor', name: first.slice(title.length).trim() };
  const tool = first.slice(first.lastIndexOf('/') + 1);
  const kind =
    tool === 'lxc-start' ? 'starting' : tool === 'lxc-attach' || tool === 'lxc-console' ? 'attached' : undefined;
  const at = words.indexOf('-P');
  if (kind === undefined || at === -1 || words[at + 1] !== lxcPath || words[at + 2] !== '-n') return undefined;
  const name = words[at + 3];
  return name === undefined ? undefined : { kind, name };
}
