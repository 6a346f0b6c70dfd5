import { setImmediate as turn } from 'node:timers/promises';
import type { Activity } from './socket-pump.ts';

/** When children of a command that ended hold its output open, it is over after this long without any, in milliseconds. */
const DRAIN = 250;

export interface Output {
  /** All of it has its place. */
  readonly done: Promise<unknown>;
  readonly activities: readonly Readonly<Activity>[];
  readonly files?: Readonly<Record<string, string>>;
}

/**
 * Waits for the output of a process that has ended, for as long as there is any and nobody gives it up. When its children
 * hold the output open, it is over after a while without any.
 */
export async function drained({ done, activities }: Output, signal: AbortSignal): Promise<void> {
  let over = false;
  const finish = (): void => {
    over = true;
  };
  const aborted = new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
  const end = Promise.race([done, aborted]).then(finish, finish);
  const pieces = (): number => activities.reduce((sum, activity) => sum + activity.pieces, 0);
  for (let before = -1; before !== pieces() || activities.some(({ busy }) => busy); ) {
    before = pieces();
    await Promise.race([end, quiet()]);
    if (over) return;
  }
}

async function quiet(): Promise<void> {
  await new Promise((resolve) => {
    setTimeout(resolve, DRAIN).unref();
  });
  // A thread that was held up finds its timers first: what came meanwhile is read in the turn after them.
  await turn();
  await turn();
}
