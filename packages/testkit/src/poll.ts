import { setTimeout as sleep } from 'node:timers/promises';
import { patient } from './patience.ts';

/**
 * Asks again and again until `probe` returns something else than undefined or false.
 * @throws Error naming `what` after `timeoutMs`, with the last error `probe` threw.
 */
export async function until<T>(
  what: string,
  probe: () => T | undefined | false | Promise<T | undefined | false>,
  options: { readonly timeoutMs?: number; readonly intervalMs?: number } = {},
): Promise<T> {
  const deadline = Date.now() + patient(options.timeoutMs ?? 30_000);
  let last: unknown;
  for (;;) {
    try {
      const value = await probe();
      if (value !== undefined && value !== false) return value;
    } catch (error) {
      last = error;
    }
    if (Date.now() > deadline) throw new Error(`Waited in vain for ${what}`, { cause: last });
    await sleep(options.intervalMs ?? 20);
  }
}
