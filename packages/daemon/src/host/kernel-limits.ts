import { readFile } from 'node:fs/promises';
import { setSysctl } from './sysctl.ts';

/**
 * Kernel limits that all guests of the host share, with what a host of guests needs. A kernel's own values suit one
 * system: 128 inotify instances are used up by a dozen systemd guests, whose init then ends at once.
 */
export const GUEST_LIMITS: Readonly<Record<string, number>> = {
  'fs/inotify/max_user_instances': 1_048_576,
  'fs/inotify/max_user_watches': 1_048_576,
  'fs/inotify/max_queued_events': 1_048_576,
  'kernel/keys/maxkeys': 20_000,
  'kernel/keys/maxbytes': 2_000_000,
  'vm/max_map_count': 262_144,
};

export interface RaisedLimit {
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

/** Raises every limit that is lower; never lowers one. Those that cannot be changed here are left and not reported. */
export async function raiseKernelLimits(
  wanted: Readonly<Record<string, number>> = GUEST_LIMITS,
): Promise<readonly RaisedLimit[]> {
  const raised: RaisedLimit[] = [];
  for (const [name, to] of Object.entries(wanted)) {
    const from = Number(await readFile(`/proc/sys/${name}`, 'utf8').catch(() => 'NaN'));
    if (!(from < to)) continue;
    try {
      await setSysctl(name, String(to));
      raised.push({ name: name.replaceAll('/', '.'), from, to });
    } catch {
      // a host that forbids it (a container, say) keeps its own value
    }
  }
  return raised;
}
