import { isFalse, isTrue } from '@keelson/api';
import { errors } from '../../../core/errors.ts';
import type { MountSpec, UnixDeviceSpec } from '../../../drivers/instance/contract.ts';
import { isRootDisk } from './expand.ts';

type Device = Readonly<Record<string, string>>;
type Devices = Readonly<Record<string, Device>>;

/** Device types a container can have here. */
const SUPPORTED = new Set(['none', 'nic', 'disk', 'unix-char', 'unix-block']);

/** @throws bad-request for a device this server cannot give to a guest. */
export function checkSupported(name: string, device: Device): void {
  const type = device['type'] ?? '';
  if (!SUPPORTED.has(type)) {
    throw errors.badRequest(
      `Failed to start device "${name}": Devices of type "${type}" are not supported by this server`,
    );
  }
}

/** Devices in the order they are set up: nics, then disks from the root down, then the rest. */
export function startOrder(devices: Devices): readonly (readonly [string, Device])[] {
  const rank = (device: Device): number => (device['type'] === 'nic' ? 0 : device['type'] === 'disk' ? 1 : 2);
  return Object.entries(devices).sort(
    ([nameA, a], [nameB, b]) => rank(a) - rank(b) || compare(a['path'] ?? '', b['path'] ?? '') || compare(nameA, nameB),
  );
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Where the content of a disk device lies on the host. */
export interface DiskSource {
  readonly path: string;
  /** Files carry plain guest ids and must be mapped. */
  readonly shifted: boolean;
}

/** Mount of a disk device other than the root. */
export function planMount(name: string, device: Device, source: DiskSource): MountSpec {
  return {
    device: name,
    source: source.path,
    target: absolute(device['path'] ?? ''),
    readOnly: isTrue(device['readonly']),
    optional: !isRequired(device),
    recursive: isTrue(device['recursive']),
    shift: source.shifted || isTrue(device['shift']),
    options: (device['raw.mount.options'] ?? '').split(',').filter((option) => option !== ''),
  };
}

function absolute(path: string): string {
  return path.startsWith('/') ? path : `/${path}`;
}

/** `required` decides; `optional` is its old opposite. */
export function isRequired(device: Device): boolean {
  return !isFalse(device['required']) && !isTrue(device['optional']);
}

/** What the host says about a device node. */
export interface HostNode {
  readonly kind: 'char' | 'block' | 'other';
  readonly major: number;
  readonly minor: number;
  readonly mode: number;
}

/**
 * Device node in the guest; undefined when an optional source does not exist.
 * @throws bad-request when a required source is missing or is no such device.
 */
export function planUnixDevice(name: string, device: Device, node: HostNode | undefined): UnixDeviceSpec | undefined {
  const kind = device['type'] === 'unix-block' ? 'block' : 'char';
  const source = device['source'] ?? device['path'] ?? '';
  const explicit = device['major'] !== undefined && device['minor'] !== undefined;
  if (!explicit && node?.kind !== kind) {
    if (node === undefined && !isRequired(device)) return undefined;
    throw errors.badRequest(
      node === undefined
        ? `Failed to start device "${name}": Required device path doesn't exist and the major and minor settings are not specified`
        : `Failed to start device "${name}": "${source}" is not a ${kind === 'block' ? 'block' : 'character'} device`,
    );
  }
  return {
    device: name,
    kind,
    target: absolute(device['path'] ?? source),
    major: explicit ? Number(device['major']) : (node?.major ?? 0),
    minor: explicit ? Number(device['minor']) : (node?.minor ?? 0),
    mode: device['mode'] === undefined ? 0o660 : Number.parseInt(device['mode'], 8),
    uid: Number(device['uid'] ?? 0),
    gid: Number(device['gid'] ?? 0),
  };
}

/** Source of a disk that is not the root: a host path, or a custom volume of a pool. */
export function diskSource(
  device: Device,
):
  | { readonly kind: 'path'; readonly path: string }
  | { readonly kind: 'volume'; readonly pool: string; readonly volume: string } {
  const pool = device['pool'] ?? '';
  if (pool !== '') return { kind: 'volume', pool, volume: device['source'] ?? '' };
  return { kind: 'path', path: device['source'] ?? '' };
}

/** Difference of two device maps. */
export interface DeviceChanges {
  readonly removed: readonly string[];
  readonly added: readonly string[];
  /** Same name and type, other config. */
  readonly updated: readonly string[];
}

export function diffDevices(before: Devices, after: Devices): DeviceChanges {
  const removed = Object.keys(before).filter(
    (name) => after[name] === undefined || after[name]['type'] !== before[name]?.['type'],
  );
  const added = Object.keys(after).filter(
    (name) => before[name] === undefined || after[name]?.['type'] !== before[name]['type'],
  );
  const updated = Object.keys(after).filter(
    (name) => !added.includes(name) && !sameDevice(before[name] ?? {}, after[name] ?? {}),
  );
  return { removed, added, updated };
}

/** Whether a device that changed must leave a running guest and come back; limits of disks change in place. */
export function needsReplug(before: Device, after: Device): boolean {
  if (after['type'] !== 'disk') return true;
  return !isRootDisk(after) && !sameDevice(withoutLimits(before), withoutLimits(after));
}

function withoutLimits(device: Device): Device {
  return Object.fromEntries(Object.entries(device).filter(([key]) => !key.startsWith('limits.')));
}

function sameDevice(a: Device, b: Device): boolean {
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  for (const key of keys) {
    if ((a[key] ?? '') !== (b[key] ?? '')) return false;
  }
  return true;
}
