import { spawn } from 'node:child_process';
import { mkdir, open, stat, statfs } from 'node:fs/promises';
import { unmountAll } from '../mounts.ts';
import { COMMAND_ENVIRONMENT } from '../run.ts';

const FUSE_MAGIC = 0x65735546;

/** Whether an lxcfs is mounted there and answers: one whose process died leaves a mount that does not. */
export async function isLxcfsServing(mountPoint: string): Promise<boolean> {
  const answers = await stat(`${mountPoint}/proc/meminfo`).catch(() => undefined);
  if (answers === undefined) return false;
  return (await statfs(mountPoint).catch(() => undefined))?.type === FUSE_MAGIC;
}

export interface LxcfsPlace {
  readonly mountPoint: string;
  /** Also keeps a second lxcfs of the same place from starting. */
  readonly pidFile: string;
  readonly logFile: string;
}

/**
 * Starts an lxcfs as an init system would: it belongs to the machine and outlives this process, because guests show
 * its files as long as they run. Resolves when it serves. @throws when it does not, or is not installed (ENOENT).
 */
export async function startLxcfs(place: LxcfsPlace, timeoutMs = 10_000): Promise<void> {
  await unmountAll(place.mountPoint, { lazy: true });
  await mkdir(place.mountPoint, { recursive: true, mode: 0o755 });
  const log = await open(place.logFile, 'a', 0o600);
  try {
    const child = spawn('lxcfs', ['-f', '-p', place.pidFile, place.mountPoint], {
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
      env: { ...COMMAND_ENVIRONMENT },
      cwd: '/',
    });
    const failed = new Promise<never>((_resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code) => reject(new Error(`lxcfs ended with ${code}, see ${place.logFile}`)));
    });
    child.unref();
    await Promise.race([failed, untilServing(place.mountPoint, timeoutMs)]);
    failed.catch(() => undefined); // from now on its end is nobody's business here
  } finally {
    await log.close();
  }
}

async function untilServing(mountPoint: string, timeoutMs: number): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!(await isLxcfsServing(mountPoint))) {
    if (performance.now() > deadline) throw new Error(`lxcfs does not serve ${mountPoint}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
