import { errors } from '../../../core/errors.ts';
import { diffDevices, type DeviceChanges } from './devices.ts';
import { isRootDisk } from './expand.ts';

type Config = Readonly<Record<string, string>>;
type Devices = Readonly<Record<string, Config>>;

export interface Effective {
  readonly config: Config;
  readonly devices: Devices;
}

/** What a change of config, devices or profiles asks of a guest. */
export interface ChangePlan {
  readonly changedKeys: readonly string[];
  readonly devices: DeviceChanges;
  /** Limits to apply to a running guest. */
  readonly limits: boolean;
  /** New `size` of the root disk; null when it did not change, '' when it was removed. */
  readonly rootSize: string | null;
  /** Host ids may be others at the next start. */
  readonly idMap: boolean;
}

const PROTECTED = ['volatile.idmap.base', 'volatile.idmap.current', 'volatile.idmap.next', 'volatile.last_state.idmap'];

/**
 * Compares what was in force with what shall be. Keys that a running guest cannot take are stored and come into
 * force at its next start, as clients expect. @throws bad-request with LXD's text for a change that is never possible.
 */
export function planChange(before: Effective, after: Effective): ChangePlan {
  const changedKeys = changedOf(before.config, after.config);
  return {
    changedKeys,
    devices: diffDevices(before.devices, after.devices),
    limits: changedKeys.some((key) => key.startsWith('limits.')),
    rootSize: planRoot(before.devices, after.devices),
    idMap: changedKeys.some((key) => key.startsWith('security.idmap.') || key === 'security.privileged'),
  };
}

/** Keys whose value differs, in order. */
export function changedOf(before: Config, after: Config): readonly string[] {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].filter((key) => (before[key] ?? '') !== (after[key] ?? '')).sort();
}

/** @throws bad-request when a caller's own config drops or changes what the server alone may write. */
export function checkProtected(before: Config, after: Config): void {
  for (const key of PROTECTED) {
    if (before[key] === after[key]) continue;
    throw errors.badRequest(
      after[key] === undefined || after[key] === ''
        ? "Volatile idmap keys can't be deleted by the user"
        : "Volatile idmap keys can't be changed by the user",
    );
  }
}

function planRoot(before: Devices, after: Devices): string | null {
  const old = Object.values(before).find(isRootDisk);
  const wanted = Object.values(after).find(isRootDisk);
  if (wanted === undefined)
    throw errors.badRequest('Invalid devices: Failed detecting root disk device: No root device could be found');
  if (old === undefined) return null;
  if (old['pool'] !== wanted['pool']) {
    throw errors.badRequest(`Cannot update root disk device pool name to "${wanted['pool'] ?? ''}"`);
  }
  return (old['size'] ?? '') === (wanted['size'] ?? '') ? null : (wanted['size'] ?? '');
}
