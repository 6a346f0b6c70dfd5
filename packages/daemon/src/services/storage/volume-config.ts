import { findKey, storageDrivers, storageVolumeConfig } from '@keelson/api';
import type { StoragePool, VolumeRef } from '../../drivers/storage/contract.ts';
import type { ContentType } from '../../drivers/storage/types.ts';

type Config = Readonly<Record<string, string>>;

/** What a pool says about its new volumes: its `volume.*` keys without the prefix. */
export function volumeDefaults(
  pool: { readonly driver: string; readonly config: Config },
  contentType: ContentType,
): Record<string, string> {
  const table = storageVolumeConfig(storageDrivers.find((name) => name === pool.driver) ?? 'dir');
  const defaults: Record<string, string> = {};
  for (const [key, value] of Object.entries(pool.config)) {
    const name = key.startsWith('volume.') ? key.slice('volume.'.length) : '';
    if (name === '' || name === 'clone' || findKey(table, name) === undefined) continue;
    if (contentType === 'filesystem' || !name.startsWith('security.')) defaults[name] = value;
  }
  return defaults;
}

/** What of a volume's config a pool of `driver` knows too: another's keys stay behind when the volume moves. */
export function keysOf(driver: string, config: Config): Record<string, string> {
  const table = storageVolumeConfig(storageDrivers.find((name) => name === driver) ?? 'dir');
  return Object.fromEntries(Object.entries(config).filter(([key]) => findKey(table, key) !== undefined));
}

/** The keys that only this kind of pool has: what a root's record keeps, so that later defaults do not change it. */
export function driverKeys(driver: string, config: Config): Record<string, string> {
  const prefixes = DRIVER_PREFIXES[driver] ?? [];
  return Object.fromEntries(
    Object.entries(config).filter(([key]) => prefixes.some((prefix) => key.startsWith(prefix))),
  );
}

/** Snapshots a restore took along: with `zfs.remove_snapshots` those later than the one that was restored. */
export async function goneSnapshots<T extends { readonly name: string }>(
  pool: { readonly snapshots: Pick<StoragePool['snapshots'], 'list'> },
  volume: VolumeRef,
  config: Config,
  known: readonly T[],
): Promise<readonly T[]> {
  if (!['true', '1', 'yes', 'on'].includes((config['zfs.remove_snapshots'] ?? '').toLowerCase())) return [];
  const left = new Set(await pool.snapshots.list(volume));
  return known.filter(({ name }) => !left.has(name));
}

const DRIVER_PREFIXES: Readonly<Record<string, readonly string[]>> = {
  zfs: ['zfs.'],
  lvm: ['block.', 'lvm.'],
  ceph: ['block.'],
};
