import { errors } from '../../../core/errors.ts';
import { diffDevices, type DeviceChanges } from './devices.ts';
import { diskRates } from './disk-limits.ts';
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
    limits: changedKeys.some((key) => key.startsWith('limits.')) || !sameDiskLimits(before.devices, after.devices),
    rootSize: planRoot(before.devices, after.devices),
    idMap: changedKeys.some((key) => key.startsWith('security.idmap.') || key === 'security.privileged'),
  };
}

function sameDiskLimits(before: Devices, after: Devices): boolean {
  const limitsOf = (devices: Devices): string =>
    JSON.stringify(
      Object.entries(devices)
        .filter(([, device]) => device['type'] === 'disk' && diskRates(device) !== undefined)
        .map(([name, device]) => JSON.stringify([name, device['pool'], device['source'], diskRates(device)]))
        .sort(),
    );
  return limitsOf(before) === limitsOf(after);
}

/** Keys whose value differs, in order. */
export function changedOf(before: Config, after: Config): readonly string[] {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].filter((key) => (before[key] ?? '') !== (after[key] ?? '')).sort();
}

/**
 * The wanted config with the keys that the server alone writes as they are: a caller may send back older ones.
 * @throws bad-request when one is left out.
 */
export function keepProtected(before: Config, after: Config): Record<string, string> {
  const result: Record<string, string> = { ...after };
  for (const key of PROTECTED) {
    const value = before[key];
    if (value !== undefined && (after[key] ?? '') === '')
      throw errors.badRequest("Volatile idmap keys can't be deleted by the user");
    if (value === undefined) delete result[key];
    else result[key] = value;
  }
  return result;
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
