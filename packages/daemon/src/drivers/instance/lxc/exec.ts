import { realpathSync } from 'node:fs';
import { PassThrough } from 'node:stream';
import { spawnPiped } from '../../../host/piped.ts';
import { childrenOf, identify, isAlive, namespacePids, type ProcessIdentity, sendSignal } from '../../../host/proc.ts';
import { spawnOnTerminal } from '../../../host/pty.ts';
import { attachArguments, consoleArguments } from '../../../host/tools/lxc.ts';
import type { ExecProcess, ExecSpec } from '../contract.ts';

const SIGKILL = 9;
const SIGWINCH = 28;

const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Environment of a command: what the caller gave, with the defaults every command finds. */
export function execEnvironment(spec: ExecSpec): Record<string, string> {
  const root = spec.user === 0 ? { HOME: '/root', USER: 'root' } : {};
  return { PATH: DEFAULT_PATH, LANG: 'C.UTF-8', ...root, ...spec.environment };
}

/**
 * Folder and command line for `lxc-attach`, which starts the command in the folder of its own name in the guest.
 * A folder that only the guest has is entered by the guest's shell; where that fails the command starts in `/`.
 */
export function inFolder(
  spec: ExecSpec,
  isHostFolder: (path: string) => boolean,
): { readonly cwd: string; readonly command: readonly string[] } {
  const wanted = spec.cwd === '' ? (execEnvironment(spec)['HOME'] ?? '/') : spec.cwd;
  if (!wanted.startsWith('/')) return { cwd: '/', command: spec.command };
  if (wanted === '/' || isHostFolder(wanted)) return { cwd: wanted, command: spec.command };
  const script = 'cd -- "$0" 2>/dev/null; exec "$@"';
  return { cwd: '/', command: ['/bin/sh', '-c', script, wanted, ...spec.command] };
}

/** Whether this exact path is a folder of the host, so that the kernel names it the same way. */
function isHostFolder(path: string): boolean {
  try {
    return realpathSync.native(path) === path;
  } catch {
    return false;
  }
}

/** Runs a command in the guest `key`. */
export function execInGuest(lxcPath: string, key: string, spec: ExecSpec): ExecProcess {
  const { cwd, command } = inFolder(spec, isHostFolder);
  const environment = execEnvironment(spec);
  const args = attachArguments({ lxcPath, name: key, environment, user: spec.user, group: spec.group, command });
  return spec.terminal === undefined
    ? plainExec(args, cwd)
    : terminalExec('lxc-attach', args, { ...spec.terminal, cwd });
}

/** Attaches to the guest's /dev/console. */
export function consoleOfGuest(lxcPath: string, key: string, size: { width: number; height: number }): ExecProcess {
  return terminalExec('lxc-console', consoleArguments(lxcPath, key), { ...size, proxied: true });
}

function plainExec(args: readonly string[], cwd: string): ExecProcess {
  const child = spawnPiped('lxc-attach', args, cwd);
  const { exited } = child;
  const attached = new Attached(child.pid, exited);
  // Node drops what nobody has read when a child ends; a stream of our own keeps it for a late reader.
  const stdout = child.stdout.pipe(new PassThrough());
  const stderr = child.stderr.pipe(new PassThrough());
  return {
    terminal: undefined,
    stdio: { stdin: child.stdin, stdout, stderr },
    resize: () => undefined,
    signal: (number) => attached.signal(number),
    exited,
    dispose: async () => {
      await attached.end();
      child.stdin.destroy();
      for (const stream of [child.stdout, child.stderr, stdout, stderr]) stream.destroy();
    },
  };
}

function terminalExec(
  tool: string,
  args: readonly string[],
  options: { width: number; height: number; cwd?: string; proxied?: boolean },
): ExecProcess {
  const child = spawnOnTerminal(tool, args, options);
  const attached = new Attached(child.pid, child.exited);
  return {
    terminal: child.terminal,
    stdio: undefined,
    resize: (width, height) => child.resize(width, height),
    signal: (number) => {
      if (number !== SIGWINCH) attached.signal(number); // the terminal itself tells of its size
    },
    exited: child.exited,
    dispose: async () => {
      await attached.end();
      child.terminal.destroy();
    },
  };
}

/** An attach tool and the command behind it, which is its child in the guest's pid namespace. */
class Attached {
  readonly #tool: ProcessIdentity | undefined;
  readonly #exited: Promise<number>;

  constructor(pid: number | undefined, exited: Promise<number>) {
    this.#tool = pid === undefined ? undefined : identify(pid);
    this.#exited = exited;
  }

  /** To the command; one that is still being set up gets it as soon as it is there. */
  signal(number: number): void {
    void this.#deliver(number);
  }

  async end(): Promise<void> {
    const command = this.#command();
    if (command !== undefined) sendSignal(command, SIGKILL);
    if (this.#tool !== undefined) sendSignal(this.#tool, SIGKILL);
    await this.#exited;
  }

  async #deliver(number: number): Promise<void> {
    let over = false;
    void this.#exited.then(() => {
      over = true;
    });
    while (!over) {
      const command = this.#command();
      if (command !== undefined) {
        sendSignal(command, number);
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }

  #command(): ProcessIdentity | undefined {
    // Once it has ended its pid may be another's.
    if (this.#tool === undefined || !isAlive(this.#tool)) return undefined;
    for (const pid of childrenOf(this.#tool.pid)) if (namespacePids(pid).length > 1) return identify(pid);
    return undefined;
  }
}
