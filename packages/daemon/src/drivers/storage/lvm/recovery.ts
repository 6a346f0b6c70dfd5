import { SCRATCH } from './names.ts';

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
