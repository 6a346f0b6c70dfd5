import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/** Resolves true once the daemon answers on its socket, false after `timeoutMs` (0: waits for ever). */
export async function waitReady(socketPath: string, timeoutMs: number): Promise<boolean> {
  const end = timeoutMs === 0 ? Number.POSITIVE_INFINITY : Date.now() + timeoutMs;
  while (!(await answers(socketPath))) {
    if (Date.now() >= end) return false;
    await sleep(50);
  }
  return true;
}

function answers(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = request({ socketPath, path: '/1.0', agent: false, timeout: 5000 }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    probe.on('timeout', () => probe.destroy());
    probe.on('error', () => resolve(false));
    probe.end();
  });
}
