type Config = Readonly<Record<string, string>>;
type Devices = Readonly<Record<string, Config>>;

interface ConfigHolder {
  readonly config: Config;
  readonly devices: Devices;
}

/** Config in force: the profiles in their order, then the instance's own; a later one wins. */
export function expandConfig(own: Config, profiles: readonly ConfigHolder[]): Record<string, string> {
  return sorted(Object.assign({}, ...profiles.map(({ config }) => config), own) as Record<string, string>);
}

/** Devices in force; a device of the same name is replaced as a whole. */
export function expandDevices(own: Devices, profiles: readonly ConfigHolder[]): Record<string, Config> {
  return sorted(Object.assign({}, ...profiles.map(({ devices }) => devices), own) as Record<string, Config>);
}

/** A copy with its keys in order, as Go prints maps. */
export function sorted<T>(map: Readonly<Record<string, T>>): Record<string, T> {
  const result: Record<string, T> = {};
  for (const key of Object.keys(map).sort()) result[key] = map[key] as T;
  return result;
}

/** Name and config of the root disk. @throws Error with LXD's text when there is none or more than one. */
export function rootDisk(devices: Devices): { readonly name: string; readonly config: Config } {
  const found = Object.entries(devices).filter(([, device]) => isRootDisk(device));
  const [first] = found;
  if (first === undefined) throw new RootDiskError('No root device could be found');
  if (found.length > 1) throw new RootDiskError('More than one root device found');
  return { name: first[0], config: first[1] };
}

export class RootDiskError extends Error {
  override readonly name = 'RootDiskError';
}

export function isRootDisk(device: Config): boolean {
  return device['type'] === 'disk' && device['path'] === '/' && (device['source'] ?? '') === '';
}
