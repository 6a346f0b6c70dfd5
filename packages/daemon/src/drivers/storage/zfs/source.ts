import { stat, statfs } from 'node:fs/promises';
import { errors } from '../../../core/errors.ts';
import type { PoolSpec } from '../contract.ts';
import { checkedRoot } from './names.ts';
import { bytesIn } from './plan.ts';

/** What the pool's dataset is on. */
export type ZfsSource =
  | { readonly kind: 'loop'; readonly file: string }
  | { readonly kind: 'device'; readonly device: string }
  /** A zpool, or a dataset in one, that is there (a dataset may also be made). */
  | { readonly kind: 'dataset'; readonly dataset: string };

const GIB = 1024 ** 3;
/** zpool refuses less. */
const SMALLEST = 64 * 1024 ** 2;

/** From the config a user gave or the one that is stored: there a device is in `volatile.initial_source`. */
export function sourceOf(spec: PoolSpec): ZfsSource {
  const source = spec.config['source'] ?? '';
  if (source === '' || source === spec.loopFile) return { kind: 'loop', file: spec.loopFile };
  const initial = spec.config['volatile.initial_source'] ?? source;
  if (initial.startsWith('/')) return { kind: 'device', device: initial };
  return { kind: 'dataset', dataset: source };
}

/** Dataset that holds the pool. @throws bad-request for what is no name of one. */
export function rootDataset(spec: PoolSpec): string {
  return checkedRoot('zfs.pool_name', spec.config['zfs.pool_name'] || spec.name);
}

/** Name of the zpool of a dataset. */
export function zpoolOf(dataset: string): string {
  return dataset.split('/')[0] ?? dataset;
}

/** The config to store, without the size of a new loop file. @throws bad-request with LXD's text. */
export function settledConfig(spec: PoolSpec, source: ZfsSource): Record<string, string> {
  const { config, name } = spec;
  const pool = config['zfs.pool_name'] ?? '';
  if (source.kind === 'dataset') {
    if (pool !== '' && pool !== source.dataset)
      throw errors.badRequest('The source must match zfs.pool_name if specified');
    const { size: _, ...rest } = config;
    return { ...rest, source: source.dataset, 'zfs.pool_name': source.dataset };
  }
  if (pool.includes('/')) throw errors.badRequest("zfs.pool_name can't point to a dataset when source isn't set");
  const named = pool === '' ? name : pool;
  if (source.kind === 'loop') return { ...config, source: source.file, 'zfs.pool_name': named };
  const { size: _, ...rest } = config;
  return { ...rest, source: named, 'zfs.pool_name': named, 'volatile.initial_source': source.device };
}

/** Size of a new loop file: what the user wants, else a fifth of the free space between 5 and 30 GiB. @throws bad-request. */
export async function loopSize(spec: PoolSpec, folder: string): Promise<number> {
  const asked = bytesIn(spec.config, 'size');
  if (asked === undefined) {
    const { bsize, bavail } = await statfs(folder);
    const fifth = Math.floor((bsize * bavail) / 5 / GIB) * GIB;
    return Math.min(Math.max(fifth, 5 * GIB), 30 * GIB);
  }
  if (asked < SMALLEST)
    throw errors.badRequest(
      `Invalid value for option "size": "${spec.config['size'] ?? ''}" is less than the ${SMALLEST} bytes a zpool needs`,
    );
  return asked;
}

/** @throws bad-request for a path that is no block device. */
export async function checkDevice(device: string): Promise<void> {
  const found = await stat(device).catch(() => undefined);
  if (found === undefined) throw errors.badRequest(`Block device "${device}" doesn't exist`);
  if (!found.isBlockDevice()) throw errors.badRequest('Custom loop file locations are not supported');
}
