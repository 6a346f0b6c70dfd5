import { spawn } from 'node:child_process';
import { mkdir, open, stat } from 'node:fs/promises';
import { readMounts } from '../mounts.ts';
import { COMMAND_ENVIRONMENT } from '../run.ts';

/** First of these mount points where an lxcfs serves. */
export async function findLxcfs(mountPoints: readonly string[]): Promise<string | undefined> {
  for (const path of mountPoints) if (await isServing(path)) return path;
  return undefined;
}

/** Whether an lxcfs is mounted and answers: one whose process died leaves its mount behind. */
async function isServing(path: string): Promise<boolean> {
  const here = await stat(`${path}/proc/meminfo`).catch(() => undefined);
  if (here === undefined) return false;
  const mount = (await readMounts()).findLast((entry) => entry.target === path);
  return mount?.type === 'fuse.lxcfs';
}

/**
 * Starts an lxcfs that outlives this process: guests show its files as long as they run.
 * Resolves when it serves. @throws with the end of its output when it does not.
 */
export async function startLxcfs(options: {
  readonly mountPoint: string;
  readonly pidFile: string;
  readonly logFile: string;
  readonly timeoutMs: number;
}): Promise<void> {
  await mkdir(options.mountPoint, { recursive: true, mode: 0o755 });
  const log = await open(options.logFile, 'w', 0o600);
  try {
    const child = spawn('lxcfs', ['-f', '-p', options.pidFile, options.mountPoint], {
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
      env: { ...COMMAND_ENVIRONMENT },
      cwd: '/',
    });
    const failed = new Promise<never>((_resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code) => reject(new Error(`lxcfs ended with ${code}, see ${options.logFile}`)));
    });
    await Promise.race([failed, untilServing(options.mountPoint, options.timeoutMs)]);
    failed.catch(() => undefined);
    child.unref();
  } finally {
    await log.close();
  }
}

async function untilServing(mountPoint: string, timeoutMs: number): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!(await isServing(mountPoint))) {
    if (performance.now() > deadline) throw new Error(`lxcfs does not serve ${mountPoint}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
