import { realpath, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errors } from '../../core/errors.ts';
import { instanceKey } from '../../core/paths.ts';
import type { UndoStack } from '../../core/undo-stack.ts';
import type { LimitsSpec, MountSpec, NicSpec, UnixDeviceSpec } from '../../drivers/instance/contract.ts';
import type { InstanceRecord } from '../../state/records/instance.ts';
import type { InstanceContext } from './context.ts';
import { checkSupported, diskSource, type HostNode, isRequired, planMount, planUnixDevice } from './plan/devices.ts';
import { diskRates } from './plan/disk-limits.ts';
import { isRootDisk } from './plan/expand.ts';
import { deviceVolatile, generateHostName } from './plan/volatile.ts';

type Device = Readonly<Record<string, string>>;

/** A device made ready on the host, as the instance driver takes it. */
export type PreparedDevice =
  | { readonly type: 'nic'; readonly spec: NicSpec; readonly volatile: Readonly<Record<string, string>> }
  | { readonly type: 'mount'; readonly spec: MountSpec }
  | { readonly type: 'unix'; readonly spec: UnixDeviceSpec }
  | { readonly type: 'nothing' };

/** Brings devices of instances between their config and the host. */
export class GuestDevices {
  readonly #context: InstanceContext;

  constructor(context: InstanceContext) {
    this.#context = context;
  }

  /** Makes the host ready for a device; `undo` takes it back. */
  async prepare(record: InstanceRecord, name: string, device: Device, undo: UndoStack): Promise<PreparedDevice> {
    checkSupported(name, device);
    switch (device['type']) {
      case 'nic':
        return this.#prepareNic(record, name, device, undo);
      case 'disk':
        return isRootDisk(device) ? { type: 'nothing' } : this.#prepareDisk(record, name, device, undo);
      case 'unix-char':
      case 'unix-block': {
        const spec = planUnixDevice(name, device, await nodeAt(device['source'] ?? device['path'] ?? ''));
        return spec === undefined ? { type: 'nothing' } : { type: 'unix', spec };
      }
      default:
        return { type: 'nothing' };
    }
  }

  /** Frees what `prepare` made; safe for a device that was never prepared. */
  async release(record: InstanceRecord, name: string, device: Device): Promise<void> {
    const { deps } = this.#context;
    if (device['type'] === 'nic') {
      await deps.networks.releaseNic(record, name, device, deviceVolatile(record.config, name));
    } else if (device['type'] === 'disk' && !isRootDisk(device)) {
      const source = diskSource(device);
      if (source.kind === 'volume') await deps.volumes.unmount(source.pool, record.project, source.volume);
    }
  }

  async #prepareNic(record: InstanceRecord, name: string, device: Device, undo: UndoStack): Promise<PreparedDevice> {
    const { deps } = this.#context;
    const hostName = device['host_name'] ?? generateHostName(deps.entropy);
    const volatile = { ...deviceVolatile(record.config, name), host_name: hostName };
    undo.add(() => deps.networks.releaseNic(record, name, device, volatile));
    const spec = await deps.networks.prepareNic(record, name, device, volatile);
    return { type: 'nic', spec, volatile: { host_name: spec.hostName } };
  }

  async #prepareDisk(record: InstanceRecord, name: string, device: Device, undo: UndoStack): Promise<PreparedDevice> {
    const { deps } = this.#context;
    const source = diskSource(device);
    if (source.kind === 'path') {
      const found = await stat(source.path).catch(() => undefined);
      if (found === undefined) {
        if (!isRequired(device)) return { type: 'nothing' };
        throw errors.badRequest(
          `Failed to start device "${name}": Missing source path "${source.path}" for disk "${name}"`,
        );
      }
      const path = await realpath(source.path);
      deps.guard.checkDiskSource(record.project, path);
      return { type: 'mount', spec: planMount(name, device, { path, shifted: false }) };
    }
    const mounted = await deps.volumes.mount(source.pool, record.project, source.volume);
    undo.add(() => deps.volumes.unmount(source.pool, record.project, source.volume));
    if (mounted.block)
      throw errors.badRequest(`Failed to start device "${name}": Custom block volumes cannot be used on containers`);
    return { type: 'mount', spec: planMount(name, device, mounted) };
  }

  /** I/O limits of disks, by a host path on each. */
  async diskLimits(record: InstanceRecord, devices: Readonly<Record<string, Device>>): Promise<LimitsSpec['disks']> {
    const result: LimitsSpec['disks'][number][] = [];
    for (const device of Object.values(devices)) {
      const rates = device['type'] === 'disk' ? diskRates(device) : undefined;
      if (rates !== undefined) result.push({ device: await this.#diskPath(record, device), ...rates });
    }
    return result;
  }

  async #diskPath(record: InstanceRecord, device: Device): Promise<string> {
    const { deps } = this.#context;
    // Not the root itself, which may be an overlay: the folder of the volume lies on the disk.
    if (isRootDisk(device))
      return join(deps.paths.pool(record.pool), 'containers', instanceKey(record.project, record.name));
    const source = diskSource(device);
    if (source.kind === 'path') return source.path;
    return (await deps.volumes.mount(source.pool, record.project, source.volume)).path;
  }
}

async function nodeAt(path: string): Promise<HostNode | undefined> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) return undefined;
  const kind = found.isCharacterDevice() ? 'char' : found.isBlockDevice() ? 'block' : 'other';
  return { kind, major: major(found.rdev), minor: minor(found.rdev), mode: found.mode & 0o777 };
}

/** Device numbers as Linux packs them (glibc's makedev). */
function major(device: number): number {
  const wide = BigInt(device);
  return Number(((wide >> 8n) & 0xfffn) | ((wide >> 32n) & 0xfffff000n));
}

function minor(device: number): number {
  const wide = BigInt(device);
  return Number((wide & 0xffn) | ((wide >> 12n) & 0xffffff00n));
}

/** What to say of the first required disk whose source is not on this host; undefined when all are. */
export async function missingSource(devices: Readonly<Record<string, Device>>): Promise<string | undefined> {
  for (const [name, device] of Object.entries(devices)) {
    if (device['type'] !== 'disk' || isRootDisk(device) || !isRequired(device)) continue;
    const source = diskSource(device);
    if (
      source.kind !== 'path' ||
      !source.path.startsWith('/') ||
      (await stat(source.path).catch(() => undefined)) !== undefined
    )
      continue;
    return `Failed add validation for device "${name}": Missing source path "${source.path}" for disk "${name}"`;
  }
  return undefined;
}
