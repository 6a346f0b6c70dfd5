import { errors } from '../../../core/errors.ts';
import { Cgroup, type CgroupLayout } from '../../../host/cgroup.ts';
import { blocksSignal, isAlive, sendSignal } from '../../../host/proc.ts';
import type { LxcFiles } from './files.ts';
import { type Guest, type GuestTable, initOf } from './guests.ts';

const SIGKILL = 9;
const SIGPWR = 30;
/** SIGRTMIN+3: systemd powers off on it. */
const SIGRTMIN_3 = 37;
/** From here on a guest that was killed but is not gone loses its monitor too. */
const STUBBORN_MS = 10_000;

/** The signal that asks this init to shut down: systemd blocks SIGRTMIN+3 to wait for it, others take SIGPWR. */
export function haltSignal(initPid: number): number {
  return blocksSignal(initPid, SIGRTMIN_3) ? SIGRTMIN_3 : SIGPWR;
}

/**
 * Asks the guest to shut down and waits until it is gone.
 * @throws unavailable after `timeoutMs`, or the abort reason; the guest keeps running.
 */
export async function shutdownGuest(
  guest: Guest,
  name: string,
  options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
): Promise<void> {
  options.signal?.throwIfAborted();
  sendSignal(guest.init, haltSignal(guest.init.pid));
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(errors.unavailable(`Instance "${name}" did not shut down within ${options.timeoutMs / 1000} seconds`)),
    options.timeoutMs,
  );
  const abort = () => reject(options.signal?.reason);
  options.signal?.addEventListener('abort', abort, { once: true });
  try {
    await Promise.race([guest.ended, promise]);
  } finally {
    clearTimeout(timer);
    options.signal?.removeEventListener('abort', abort);
  }
}

/** Ends the guest at once; resolves when nothing of it is left. */
export async function killGuest(
  guest: Guest,
  host: { readonly table: GuestTable; readonly layout: CgroupLayout; readonly files: LxcFiles },
): Promise<void> {
  const cgroup = new Cgroup(host.layout, host.files.payload(guest.key));
  const begun = performance.now();
  let over = false;
  void guest.ended.then(() => {
    over = true;
  });
  sendSignal(guest.init, SIGKILL);
  if (guest.frozen || (await cgroup.isFrozen())) await cgroup.thaw().catch(() => undefined);
  for (let pause = 1; !over; pause = Math.min(pause * 1.5, 10)) {
    if (!isAlive(guest.monitor)) await host.table.leave(guest);
    else if (performance.now() - begun > STUBBORN_MS) sendSignal(guest.monitor, SIGKILL);
    else {
      const next = initOf(guest.monitor.pid); // it was just rebooting: kill what came up
      if (next !== undefined && next.pid !== guest.init.pid) sendSignal(next, SIGKILL);
    }
    await Promise.race([guest.ended, new Promise((resolve) => setTimeout(resolve, pause))]);
  }
}
