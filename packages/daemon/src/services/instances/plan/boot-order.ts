import { isFalse, isTrue } from '@keelson/api';

type Config = Readonly<Record<string, string>>;

export interface BootInstance {
  readonly name: string;
  /** Expanded. */
  readonly config: Config;
  /** `volatile.last_state.power`. */
  readonly lastPower: string | undefined;
  readonly running: boolean;
}

export interface BootStep<T extends BootInstance> {
  readonly instance: T;
  /** Milliseconds to wait after it started. */
  readonly delay: number;
}

/**
 * Instances to start with the daemon, in order. `boot.autostart` decides; without it, one that ran when the host went
 * down (`rebooted`) runs again.
 */
export function planBoot<T extends BootInstance>(instances: readonly T[], rebooted: boolean): BootStep<T>[] {
  return instances
    .filter(({ config, lastPower, running }) => !running && wants(config['boot.autostart'], lastPower, rebooted))
    .sort(
      (a, b) =>
        numberOf(b.config['boot.autostart.priority']) - numberOf(a.config['boot.autostart.priority']) ||
        (a.name < b.name ? -1 : 1),
    )
    .map((instance) => ({ instance, delay: Math.max(0, numberOf(instance.config['boot.autostart.delay'])) * 1000 }));
}

function wants(autostart: string | undefined, lastPower: string | undefined, rebooted: boolean): boolean {
  if (isTrue(autostart)) return true;
  if (isFalse(autostart)) return false;
  return rebooted && lastPower === 'RUNNING';
}

/** Groups of guests to shut down one after the other, the highest `boot.stop.priority` first. */
export function planShutdown<T extends { readonly config: Config }>(
  instances: readonly T[],
): { readonly instance: T; readonly timeout: number }[][] {
  const groups = new Map<number, { readonly instance: T; readonly timeout: number }[]>();
  for (const instance of instances) {
    const priority = numberOf(instance.config['boot.stop.priority']);
    const seconds = numberOf(instance.config['boot.host_shutdown_timeout'] ?? '30');
    const group = groups.get(priority) ?? [];
    group.push({ instance, timeout: seconds * 1000 });
    groups.set(priority, group);
  }
  return [...groups.entries()].sort(([a], [b]) => b - a).map(([, group]) => group);
}

function numberOf(text: string | undefined): number {
  const number = Number(text ?? 0);
  return Number.isFinite(number) ? number : 0;
}
