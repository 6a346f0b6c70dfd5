import { accessSync, constants, existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Whether a test can run here; `reason` is why not, for the test's name. */
export type Probe = { readonly ok: true } | { readonly ok: false; readonly reason: string };

const yes: Probe = { ok: true };
const no = (reason: string): Probe => ({ ok: false, reason });

export function probeRoot(): Probe {
  return process.getuid?.() === 0 ? yes : no('needs root');
}

/** Every one of the programs is installed. */
export function probePrograms(...names: readonly string[]): Probe {
  const missing = names.filter((name) => !findProgram(name));
  return missing.length === 0 ? yes : no(`needs the program ${missing.join(', ')}`);
}

/** The kernel can run virtual machines with hardware help. */
export function probeKvm(): Probe {
  return existsSync('/dev/kvm') ? yes : no('needs /dev/kvm');
}

/** The first reason that is in the way. */
export function allOf(...probes: readonly Probe[]): Probe {
  return probes.find((probe) => !probe.ok) ?? yes;
}

/** Name of a test or suite, with the reason when it is skipped: `describe.skipIf(!probe.ok)(named('btrfs', probe), …)`. */
export function named(name: string, probe: Probe): string {
  return probe.ok ? name : `${name} (skipped: ${probe.reason})`;
}

function findProgram(name: string): boolean {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/sbin'];
  return folders.some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
