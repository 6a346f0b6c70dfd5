import { setTimeout as sleep } from 'node:timers/promises';
import { patient } from './patience.ts';

/**
 * The same promise. A test that fails before it comes to wait for it has one failure, not an unhandled rejection beside
 * it; who waits gets the error as ever.
 */
export function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}

/**
 * Asks again and again until `probe` returns something else than undefined or false.
 * @throws Error naming `what` (when it is a function: what it says then) after `timeoutMs`, with the last error of `probe`.
 */
export async function until<T>(
  what: string | (() => string),
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
    if (Date.now() > deadline) {
      const told = typeof what === 'string' ? what : what();
      const why = last === undefined ? '' : `: ${last instanceof Error ? last.message : String(last)}`;
      throw new Error(`Waited in vain for ${told}${why}`, { cause: last });
    }
    await sleep(options.intervalMs ?? 20);
  }
}
