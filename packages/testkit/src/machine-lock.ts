import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** A folder that one process of this machine owns at a time; one left by a dead process is taken over. */
export function tryLock(path: string): Disposable | undefined {
  try {
    mkdirSync(path);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
    if (!ownerIsGone(path)) return undefined;
    rmSync(path, { recursive: true, force: true });
    return tryLock(path);
  }
  writeFileSync(join(path, 'pid'), String(process.pid));
  return { [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

/** Waits its turn. */
export async function lock(path: string): Promise<Disposable> {
  for (;;) {
    const held = tryLock(path);
    if (held !== undefined) return held;
    await sleep(100);
  }
}

function ownerIsGone(path: string): boolean {
  try {
    const pid = Number(readFileSync(join(path, 'pid'), 'utf8'));
    if (!Number.isInteger(pid) || pid <= 0) return false; // being written right now
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ESRCH';
  }
}
