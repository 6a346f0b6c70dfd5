import { isFalse, isTrue, parseSize } from '@keelson/api';
import { errors } from '../../../core/errors.ts';
import { type BlockFileSystem, isBlockFileSystem } from '../../../host/tools/block-fs.ts';
import type { RbdPlace } from '../../../host/tools/rbd.ts';
import { clusterName, userName } from '../common/ceph-names.ts';
import type { PoolSpec } from '../contract.ts';

export type Config = Readonly<Record<string, string>>;

export const DEFAULT_VOLUME_SIZE = 10 * 1024 ** 3;
export const DEFAULT_PLACEMENT_GROUPS = '32';

/** Where the pool is. @throws bad-request. */
export function placeOf({ name, config }: PoolSpec, cephFolder: string): RbdPlace {
  return {
    conf: `${cephFolder}/${clusterName(config['ceph.cluster_name'])}.conf`,
    user: userName(config['ceph.user.name']),
    pool: osdPool('ceph.osd.pool_name', config['ceph.osd.pool_name'] ?? config['source'] ?? name),
  };
}

/** @throws bad-request for what is not the name of an OSD pool. */
export function osdPool(key: string, name: string): string {
  if (!/^[\w][\w.+-]*$/.test(name)) throw errors.badRequest(`Invalid value for option "${key}": "${name}"`);
  return name;
}

/** What `rbd create --image-feature` knows. */
const FEATURES = [
  ...['data-pool', 'deep-flatten', 'dirty-cache', 'exclusive-lock', 'fast-diff', 'journaling', 'layering'],
  ...['migrating', 'non-primary', 'object-map', 'operations', 'striping'],
];

/** Names of RBD's features only: Ceph's programs look for options of their own everywhere on their command line. */
function featuresOf(config: Config): string[] {
  const asked = (config['ceph.rbd.features'] ?? 'layering').split(',').map((feature) => feature.trim());
  const features = asked.filter((feature) => feature !== '');
  const unknown = features.find((feature) => !FEATURES.includes(feature));
  if (unknown !== undefined)
    throw errors.badRequest(`Invalid value for option "ceph.rbd.features": RBD has no feature "${unknown}"`);
  return features;
}

/** Arguments every new image gets. @throws bad-request. */
export function imageArguments(config: Config): string[] {
  const dataPool = config['ceph.osd.data_pool_name'] ?? '';
  return [
    ...featuresOf(config).flatMap((feature) => ['--image-feature', feature]),
    ...(dataPool === '' ? [] : ['--data-pool', osdPool('ceph.osd.data_pool_name', dataPool)]),
  ];
}

/** Copies share blocks with their source. */
export function clonesCopies(config: Config): boolean {
  return !isFalse(config['ceph.rbd.clone_copy'] ?? '');
}

export function measuresUse(config: Config): boolean {
  return !isFalse(config['ceph.rbd.du'] ?? '');
}

export function reusesPool(config: Config): boolean {
  return isTrue(config['ceph.osd.force_reuse'] ?? '');
}

/** Bytes a volume gets from its config; LXD's default without one. @throws bad-request. */
export function sizeOf(config: Config): number {
  return sizeIn(config) ?? DEFAULT_VOLUME_SIZE;
}

/** Bytes the config asks for. @throws bad-request. */
export function sizeIn(config: Config): number | undefined {
  const text = config['size'] ?? '';
  if (text === '') return undefined;
  const parsed = parseSize(text);
  if (!parsed.ok) throw errors.badRequest(`Invalid value for option "size": ${parsed.message}`);
  return parsed.value === 0 ? undefined : parsed.value;
}

/** @throws bad-request. */
export function fileSystemOf(config: Config, key = 'block.filesystem'): BlockFileSystem {
  const type = config[key] ?? 'ext4';
  if (!isBlockFileSystem(type)) throw errors.badRequest(`Invalid value for option "${key}": "${type}"`);
  return type;
}

export function mountOptionsOf(config: Config): string {
  return config['block.mount_options'] ?? 'discard';
}
