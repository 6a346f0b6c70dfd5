import { stat, statfs } from 'node:fs/promises';
import { errors } from '../../../core/errors.ts';
import type { PoolSpec } from '../contract.ts';
import { bytesIn, DEFAULT_THIN_POOL, usesThinPool } from './plan.ts';
import type { LogicalVolume, VolumeGroup } from './report.ts';

type Config = Readonly<Record<string, string>>;

/** What the pool's volume group is on. */
export type LvmSource =
  | { readonly kind: 'loop'; readonly file: string }
  | { readonly kind: 'device'; readonly device: string }
  | { readonly kind: 'group'; readonly group: string };

/** Marks of a volume group that a server uses; the second is LXD's. */
export const POOL_TAG = 'keelson_pool';
export const FOREIGN_TAGS = ['lxd_pool', 'incus_pool'];

const GIB = 1024 ** 3;
/** Room for a thin pool with its metadata. */
const SMALLEST = 64 * 1024 ** 2;

/** From the config a user gave or the one that is stored: there a device is in `volatile.initial_source`. */
export function sourceOf(spec: PoolSpec): LvmSource {
  const source = spec.config['source'] ?? '';
  if (source === '' || source === spec.loopFile) return { kind: 'loop', file: spec.loopFile };
  const initial = spec.config['volatile.initial_source'] ?? source;
  if (initial.startsWith('/')) return { kind: 'device', device: initial };
  return { kind: 'group', group: source };
}

/** Whether the volume group was there before the pool, and stays when the pool goes. */
export function isBorrowed(spec: PoolSpec): boolean {
  return sourceOf(spec).kind === 'group';
}

/** Size of a new loop file: what the user wants, else a fifth of the free space between 5 and 30 GiB. @throws bad-request. */
export async function loopSize(config: Config, folder: string): Promise<number> {
  const asked = bytesIn(config, 'size');
  if (asked === undefined) {
    const { bsize, bavail } = await statfs(folder);
    const fifth = Math.floor((bsize * bavail) / 5 / GIB) * GIB;
    return Math.min(Math.max(fifth, 5 * GIB), 30 * GIB);
  }
  if (asked < SMALLEST)
    throw errors.badRequest(
      `Invalid value for option "size": "${config['size'] ?? ''}" is less than the ${SMALLEST} bytes a volume group needs`,
    );
  return asked;
}

/** The config to store, whatever the kind of source. @throws bad-request with LXD's text. */
export function settledConfig(spec: PoolSpec, source: LvmSource): Record<string, string> {
  const { config, name } = spec;
  const thin = usesThinPool(config);
  const common = thin ? { 'lvm.thinpool_name': config['lvm.thinpool_name'] ?? DEFAULT_THIN_POOL } : {};
  if (source.kind === 'loop')
    return { ...config, ...common, source: source.file, 'lvm.vg_name': config['lvm.vg_name'] ?? name };
  if ((config['size'] ?? '') !== '' && !thin)
    throw errors.badRequest(
      source.kind === 'device'
        ? 'Cannot specify size when using an existing physical device for non-thin pool'
        : 'Cannot specify size when using an existing volume group for non-thin pool',
    );
  if (source.kind === 'device') {
    const group = config['lvm.vg_name'] ?? name;
    return { ...config, ...common, source: group, 'lvm.vg_name': group, 'volatile.initial_source': source.device };
  }
  if ((config['lvm.vg_name'] ?? source.group) !== source.group)
    throw errors.badRequest('Invalid combination of source and lvm.vg_name properties');
  return { ...config, ...common, 'lvm.vg_name': source.group, 'volatile.initial_source': source.group };
}

/** @throws bad-request for a path that is no block device. */
export async function checkDevice(device: string): Promise<void> {
  const found = await stat(device).catch(() => undefined);
  if (found === undefined) throw errors.badRequest(`Block device "${device}" doesn't exist`);
  if (!found.isBlockDevice()) throw errors.badRequest('Custom loop file locations are not supported');
}

/** @throws bad-request with LXD's text when a pool may not be made with the group there is (or not). */
export function checkGroup(
  spec: PoolSpec,
  source: LvmSource,
  found: { readonly group: VolumeGroup; readonly volumes: readonly LogicalVolume[] } | undefined,
): void {
  const name = spec.config['lvm.vg_name'] ?? spec.name;
  if (source.kind === 'group' && found === undefined)
    throw errors.badRequest(`The requested volume group "${name}" does not exist`);
  if (found === undefined) return;
  if (source.kind === 'loop') throw errors.badRequest(`A volume group already exists called "${name}"`);
  if (source.kind === 'device')
    throw errors.badRequest(`Volume group already exists, cannot use new physical device at "${source.device}"`);
  const pool = thinPoolAmong(spec.config, found.volumes);
  if ((spec.config['size'] ?? '') !== '' && pool !== undefined)
    throw errors.badRequest('Cannot specify size when using an existing thin pool');
  if (['true', '1', 'yes', 'on'].includes((spec.config['lvm.vg.force_reuse'] ?? '').toLowerCase())) return;
  if (found.volumes.length > (pool === undefined ? 0 : 1))
    throw errors.badRequest(`Volume group "${name}" is not empty`);
  if (found.group.tags.some((tag) => tag === POOL_TAG || FOREIGN_TAGS.includes(tag)))
    throw errors.badRequest(`Volume group "${name}" is already used by another storage pool`);
}

/** @throws bad-request when the name belongs to something else. */
export function thinPoolAmong(config: Config, volumes: readonly LogicalVolume[]): LogicalVolume | undefined {
  if (!usesThinPool(config)) return undefined;
  const name = config['lvm.thinpool_name'] ?? DEFAULT_THIN_POOL;
  const found = volumes.find((volume) => volume.name === name);
  if (found !== undefined && found.kind !== 'thin-pool')
    throw errors.badRequest(`LVM volume named "${name}" exists but is not a thin pool`);
  return found;
}
