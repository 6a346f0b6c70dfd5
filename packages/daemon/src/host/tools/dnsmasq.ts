import { readFile } from 'node:fs/promises';
import { kill } from 'node:process';
import { COMMAND_ENVIRONMENT, run } from '../run.ts';

/** A dnsmasq that runs as its own daemon, known by its pid file. It outlives keelsond: guests keep renewing their leases. */
export class Dnsmasq {
  readonly #pidFile: string;

  constructor(pidFile: string) {
    this.#pidFile = pidFile;
  }

  /**
   * Starts it; resolves once it listens.
   * @throws CommandError with dnsmasq's own words.
   */
  async start(args: readonly string[]): Promise<void> {
    await run('dnsmasq', [`--pid-file=${this.#pidFile}`, ...args], {
      env: COMMAND_ENVIRONMENT,
      timeout: 20_000,
    });
  }

  /** Pid of the running process; the command line is compared, so a reused pid is never taken for it. */
  async pid(): Promise<number | undefined> {
    try {
      const pid = Number((await readFile(this.#pidFile, 'utf8')).trim());
      if (!Number.isInteger(pid) || pid <= 1) return undefined;
      const command = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0');
      return command.includes(`--pid-file=${this.#pidFile}`) ? pid : undefined;
    } catch {
      return undefined;
    }
  }

  /** Reads the hosts file again. False when it does not run. */
  async reload(): Promise<boolean> {
    const pid = await this.pid();
    if (pid === undefined) return false;
    kill(pid, 'SIGHUP');
    return true;
  }

  /** Ends it and waits until it is gone, its sockets with it. Idempotent. */
  async stop(): Promise<void> {
    const pid = await this.pid();
    if (pid === undefined) return;
    for (let attempt = 0; attempt < 300; attempt++) {
      try {
        if (attempt === 0) kill(pid, 'SIGTERM');
        else if (attempt === 100 && (await this.pid()) === pid) kill(pid, 'SIGKILL');
      } catch {
        return; // gone in between
      }
      if (await hasEnded(pid)) return;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    throw new Error(`dnsmasq of ${this.#pidFile} cannot be stopped`);
  }
}

/** A process that is ending has no command line and no pid file any more, but its sockets until it is a zombie or gone. */
async function hasEnded(pid: number): Promise<boolean> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
    return /^ [ZX]/.test(stat.slice(stat.lastIndexOf(')') + 1));
  } catch {
    return true;
  }
}

/** Version such as `2.90`; undefined when it is not installed. */
export async function dnsmasqVersion(): Promise<string | undefined> {
  try {
    const { stdout } = await run('dnsmasq', ['--version'], { timeout: 5000 });
    return /version (\S+)/.exec(stdout)?.[1];
  } catch {
    return undefined;
  }
}
