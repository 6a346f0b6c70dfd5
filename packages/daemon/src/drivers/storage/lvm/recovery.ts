import type { VolumeRef } from '../contract.ts';
import { logicalVolume, SCRATCH, snapshotsAmong } from './names.ts';
import type { LogicalVolume } from './report.ts';

export interface Recovery {
  readonly renames: readonly { readonly from: string; readonly to: string }[];
  readonly remove: readonly string[];
}

const OLD = `${SCRATCH}old.`;
const FRESH = `${SCRATCH}new.`;

/** Completes restores that were cut off between their two renames, and removes what was half made. Pure. */
export function recoveryPlan(names: readonly string[]): Recovery {
  const there = new Set(names);
  const renames: { from: string; to: string }[] = [];
  for (const old of names.filter((name) => name.startsWith(OLD))) {
    const volume = old.slice(OLD.length);
    if (there.has(volume)) continue;
    renames.push({ from: there.has(FRESH + volume) ? FRESH + volume : old, to: volume });
  }
  const kept = new Set(renames.map(({ from }) => from));
  return { renames, remove: names.filter((name) => name.startsWith(SCRATCH) && !kept.has(name)) };
}

/** Tag of a plain volume while a restore overwrites it; the name of the snapshot follows. */
const RESTORING = 'keelson_restore.';

export function restoreTag(snapshot: string): string {
  return `${RESTORING}${snapshot}`;
}

/** Known volumes that a restore was overwriting when it was cut off, with the snapshot it took. Pure. */
export function interruptedRestores(
  found: readonly LogicalVolume[],
  known: readonly VolumeRef[],
): { volume: VolumeRef; snapshot: string }[] {
  const tagged = new Map(found.map(({ name, tags }) => [name, tags.find((tag) => tag.startsWith(RESTORING))]));
  if (![...tagged.values()].some((tag) => tag !== undefined)) return [];
  const names = found.map(({ name }) => name);
  return known.flatMap((volume) => {
    const snapshot = tagged.get(logicalVolume(volume))?.slice(RESTORING.length);
    return snapshot !== undefined && snapshotsAmong(names, volume).includes(snapshot) ? [{ volume, snapshot }] : [];
  });
}
