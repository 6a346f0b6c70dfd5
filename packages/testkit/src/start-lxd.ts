import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { command } from './command.ts';
import { removeLeftovers } from './leftovers.ts';
import { until } from './poll.ts';
import { request, type Answer, type RequestOptions } from './request.ts';

/** Debian's LXD, to compare answers with. */
export interface TestLxd extends AsyncDisposable {
  readonly dir: string;
  readonly socket: string;
  request<T = unknown>(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<Answer<T>>;
}

/** Starts an LXD of its own in a temp folder, with nothing configured; dispose stops it and removes what it made. */
export async function startLxd(): Promise<TestLxd> {
  const dir = mkdtempSync(join(tmpdir(), 'keelson-lxd-'));
  const socket = join(dir, 'unix.socket');
  await command('chmod', ['711', dir]);
  const log = openSync(join(dir, 'lxd.out'), 'a');
  const child = spawn('lxd', ['--group', 'root'], {
    stdio: ['ignore', log, log],
    env: { ...process.env, LXD_DIR: dir },
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
      'LXD to answer',
      async () => {
        if (child.exitCode !== null) throw new Error(readFileSync(join(dir, 'lxd.out'), 'utf8'));
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
