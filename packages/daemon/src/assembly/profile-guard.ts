import type { ProfileGuard } from '../services/profiles/contract.ts';
import { InstanceRules } from '../services/instances/rules.ts';

/** Checks profiles by the instances' rules; the instances vertical replaces it with one that also applies changes. */
export function profileGuard(): ProfileGuard {
  const rules = new InstanceRules({ validateNic: () => undefined, poolExists: () => true });
  return { check: (profile) => rules.checkProfile(profile), apply: async () => undefined };
}
