import { deviceTableOf, deviceTypes, instanceConfig, parseSize, profileContext, validateConfig } from '@keelson/api';
import { errors, isKeelsonError } from '../../core/errors.ts';
import type { InstanceType } from '../../state/records/instance.ts';
import type { ProfileRecord } from '../../state/records/profile.ts';
import { isRootDisk, RootDiskError, rootDisk } from './plan/expand.ts';
import type { InstanceVolumes } from './ports.ts';

type Config = Readonly<Record<string, string>>;
type Devices = Readonly<Record<string, Config>>;

/** What the rules ask of other rooms. */
export interface RuleChecks {
  /** @throws bad-request */
  validateNic(project: string, device: Config): void;
  poolExists(pool: string): boolean;
  readonly volumes: Pick<InstanceVolumes, 'exists' | 'isBlock' | 'isServers'>;
}

/** What config and devices of instances and profiles may hold. Every method throws bad-request with LXD's text. */
export class InstanceRules {
  readonly #checks: RuleChecks;

  constructor(checks: RuleChecks) {
    this.#checks = checks;
  }

  checkConfig(config: Config, type: InstanceType = 'container'): void {
    const [problem] = validateConfig(instanceConfig, config, { instanceType: type });
    if (problem !== undefined) throw errors.badRequest(problem.message);
  }

  checkDeviceTypes(devices: Devices): void {
    const known: readonly string[] = deviceTypes;
    for (const device of Object.values(devices)) {
      const type = device['type'] ?? '';
      if (!known.includes(type)) throw errors.badRequest(`Invalid device type ${type}`);
    }
  }

  /** Devices in force for an instance. */
  checkDevices(project: string, devices: Devices): void {
    for (const [name, device] of sortedEntries(devices)) {
      this.#checkDevice(project, name, device);
      const { type, path = '', pool = '', source = '' } = device;
      if (type !== 'disk') continue;
      // Machines, which can have one, have no driver yet.
      if (pool !== '' && !isRootDisk(device) && this.#checks.volumes.isBlock(pool, project, source))
        throw errors.badRequest(
          `Failed add validation for device "${name}": Custom block volumes cannot be used on containers`,
        );
      if (path === '') throw errors.badRequest(`${failed(name)}${MISSING_PATH}`);
    }
    try {
      rootDisk(devices);
    } catch (error) {
      if (!(error instanceof RootDiskError)) throw error;
      throw errors.badRequest(`Invalid devices: Failed detecting root disk device: ${error.message}`);
    }
    for (const [name, device] of sortedEntries(devices)) {
      const pool = device['type'] === 'disk' ? (device['pool'] ?? '') : '';
      if (pool === '' || isRootDisk(device)) continue;
      if (!this.#checks.poolExists(pool)) {
        throw errors.badRequest(
          `Failed add validation for device "${name}": Failed to get storage pool "${pool}": Storage pool not found`,
        );
      }
      if (!this.#checks.volumes.exists(pool, project, device['source'] ?? '')) {
        throw errors.badRequest(
          `Failed add validation for device "${name}": Failed loading custom volume: Storage volume not found`,
        );
      }
      if (this.#checks.volumes.isServers(pool, project, device['source'] ?? '')) {
        throw errors.badRequest(
          `Failed add validation for device "${name}": Volumes used by the server itself cannot be attached`,
        );
      }
    }
  }

  /** A profile as a whole. */
  checkProfile(profile: ProfileRecord): void {
    const [problem] = validateConfig(instanceConfig, profile.config, profileContext);
    if (problem !== undefined) throw errors.badRequest(problem.message);
    this.checkDeviceTypes(profile.devices);
    for (const [name, device] of sortedEntries(profile.devices)) this.#checkDevice(profile.project, name, device, '');
    checkPaths(profile.devices, '');
    if (Object.values(profile.devices).filter(isRootDisk).length > 1) {
      throw errors.badRequest('Failed detecting root disk device: More than one root device found');
    }
  }

  #checkDevice(project: string, name: string, device: Config, start = INVALID): void {
    const prefix = failed(name, start);
    if (device['type'] === 'nic') {
      try {
        this.#checks.validateNic(project, device);
      } catch (error) {
        if (isKeelsonError(error)) throw errors.badRequest(`${prefix}${nicPrefix(name, error.message)}`, error);
        throw error;
      }
      return;
    }
    const table = deviceTableOf(device);
    const [problem] = table === undefined ? [] : validateConfig(table, device);
    if (problem !== undefined) throw errors.badRequest(`${prefix}${problem.message}`);
    const missing = missingPart(device);
    if (missing !== undefined) throw errors.badRequest(`${prefix}${missing}`);
  }
}

const MISSING_PATH = 'Disk entry is missing the required "source" or "path" property';

/** How LXD begins where an instance holds the device; a profile has none of it. */
const INVALID = 'Invalid devices: ';

function failed(device: string, start = INVALID): string {
  return `${start}Device validation failed for "${device}": `;
}

/**
 * Disks that one instance or one profile has itself are at different places; what profiles add may meet there.
 * @throws bad-request with LXD's text
 */
export function checkPaths(devices: Devices, start = INVALID): void {
  const disks = sortedEntries(devices).filter(([, { type, path = '' }]) => type === 'disk' && path !== '');
  for (const [name, { path }] of disks) {
    if (disks.filter(([, other]) => other['path'] === path).length > 1)
      throw errors.badRequest(`${failed(name, start)}More than one disk device uses the same path "${path}"`);
  }
}

/** LXD loads a nic before it checks its options; what stops the loading names the device again. */
function nicPrefix(name: string, message: string): string {
  const loading = message === 'Unsupported device type' || message.startsWith('Failed to load network');
  return loading ? `Failed loading device "${name}": ${message}` : message;
}

function missingPart(device: Config): string | undefined {
  const source = device['source'] ?? '';
  const path = device['path'] ?? '';
  switch (device['type']) {
    case 'disk':
      if (path.split('/').includes('..')) return 'The path of a disk cannot hold ".."';
      if (path !== '/' && (device['size'] ?? '') !== '') return 'Only the root disk may have a size quota';
      if ((device['shift'] ?? '') !== '' && (device['pool'] ?? '') !== '' && source !== '')
        return 'The "shift" property cannot be used with custom storage volumes (set "security.shifted=true" on the volume instead)';
      if (path === '/' && source !== '') return 'Root disk entry may not have a "source" property set';
      if (path === '/' && (device['pool'] ?? '') === '') return 'Root disk entry must have a "pool" property set';
      return source === '' && path !== '/' ? MISSING_PATH : undefined;
    case 'unix-char':
    case 'unix-block':
      if (path.split('/').includes('..')) return 'The path of a device cannot hold ".."';
      return source === '' && path === ''
        ? 'Unix device entry is missing the required "source" or "path" property'
        : undefined;
    default:
      return undefined;
  }
}

/** Bytes of the root disk's `size`; undefined without one. */
export function rootSize(device: Config): number | undefined {
  const text = device['size'] ?? '';
  if (text === '') return undefined;
  const size = parseSize(text);
  if (!size.ok) throw errors.badRequest(size.message);
  return size.value;
}

function sortedEntries(devices: Devices): [string, Config][] {
  return Object.entries(devices).sort(([a], [b]) => (a < b ? -1 : 1));
}
