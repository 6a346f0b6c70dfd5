import { findKey, storageDrivers, storageVolumeConfig } from '@keelson/api';
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

const DRIVER_PREFIXES: Readonly<Record<string, readonly string[]>> = {
  zfs: ['zfs.'],
  lvm: ['block.', 'lvm.'],
  ceph: ['block.'],
};
