import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { command } from './command.ts';
import { removeLeftovers } from './leftovers.ts';
import { until } from './poll.ts';
import { request, type Answer, type RequestOptions } from './request.ts';

/** A server of another project, to compare with. */
export interface TestPeer extends AsyncDisposable {
  readonly dir: string;
  readonly socket: string;
  request<T = unknown>(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<Answer<T>>;
}

/** Starts Debian's LXD in a temp folder of its own, with nothing configured; dispose stops it and removes what it made. */
export function startLxd(): Promise<TestPeer> {
  return startPeer('lxd', 'LXD_DIR');
}

/** The same for Incus. */
export function startIncus(): Promise<TestPeer> {
  return startPeer('incusd', 'INCUS_DIR');
}

/** `variable` tells the program its state folder. */
async function startPeer(program: string, variable: string): Promise<TestPeer> {
  const dir = mkdtempSync(join(tmpdir(), `keelson-${program}-`));
  const socket = join(dir, 'unix.socket');
  await command('chmod', ['711', dir]);
  const log = openSync(join(dir, 'out'), 'a');
  const child = spawn(program, ['--group', 'root'], {
    stdio: ['ignore', log, log],
    env: { ...process.env, [variable]: dir },
  });
  const dispose = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), 30_000);
      await ended;
      clearTimeout(timer);
    }
    await removeLeftovers(dir);
    rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    await until(
      `${program} to answer`,
      async () => {
        if (child.exitCode !== null) throw new Error(readFileSync(join(dir, 'out'), 'utf8'));
        return (await request(socket, 'GET', '/1.0')).status === 200;
      },
      { timeoutMs: 60_000, intervalMs: 100 },
    );
  } catch (error) {
    await dispose();
    throw error;
  }
  return {
    dir,
    socket,
    request: (method, path, body, options) => request(socket, method, path, body, options),
    [Symbol.asyncDispose]: dispose,
  };
}
