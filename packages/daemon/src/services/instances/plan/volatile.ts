type Config = Readonly<Record<string, string>>;
type Devices = Readonly<Record<string, Config>>;

/** Random values, so that plans stay testable. */
export interface Entropy {
  uuid(): string;
  /** `length` lower-case hex digits. */
  hex(length: number): string;
}

/** MAC address in the range every peer uses for guests. */
export function generateHwaddr(entropy: Entropy): string {
  const digits = entropy.hex(6);
  return `00:16:3e:${digits.slice(0, 2)}:${digits.slice(2, 4)}:${digits.slice(4, 6)}`;
}

/** Name of the host side of a veth; a kernel name has at most 15 characters. */
export function generateHostName(entropy: Entropy): string {
  return `veth${entropy.hex(8)}`;
}

/** Own volatile keys of one device: `volatile.<device>.<key>`, without the prefix. */
export function deviceVolatile(config: Config, device: string): Record<string, string> {
  const prefix = `volatile.${device}.`;
  const result: Record<string, string> = {};
  for (const [key, value] of Object.entries(config)) {
    if (key.startsWith(prefix)) result[key.slice(prefix.length)] = value;
  }
  return result;
}

/**
 * Volatile keys every nic keeps while it exists: its MAC address and interface name, unless the device sets them.
 * Keys of devices that are gone are dropped.
 */
export function settleNics(
  config: Config,
  before: Devices,
  devices: Devices,
  entropy: Entropy,
): Record<string, string> {
  const result: Record<string, string> = { ...config };
  for (const name of Object.keys(before)) {
    if (devices[name] === undefined || devices[name]['type'] !== before[name]?.['type']) dropDevice(result, name);
  }
  const taken = new Set(
    Object.entries(devices).flatMap(([name, device]) => nicNames(device, result[`volatile.${name}.name`])),
  );
  for (const [name, device] of Object.entries(devices)) {
    if (device['type'] !== 'nic') continue;
    setUnless(result, `volatile.${name}.hwaddr`, device['hwaddr'], () => generateHwaddr(entropy));
    setUnless(result, `volatile.${name}.name`, device['name'], () => freeName(taken));
  }
  return result;
}

function nicNames(device: Config, volatileName: string | undefined): string[] {
  const name = device['type'] === 'nic' ? (device['name'] ?? volatileName) : undefined;
  return name === undefined ? [] : [name];
}

function setUnless(result: Record<string, string>, key: string, own: string | undefined, make: () => string): void {
  if (own !== undefined && own !== '') delete result[key];
  else result[key] ??= make();
}

function freeName(taken: Set<string>): string {
  let index = 0;
  while (taken.has(`eth${index}`)) index++;
  taken.add(`eth${index}`);
  return `eth${index}`;
}

function dropDevice(result: Record<string, string>, device: string): void {
  for (const key of Object.keys(result)) {
    if (key.startsWith(`volatile.${device}.`)) delete result[key];
  }
}

/** Volatile keys that follow a copy; all others belong to the source alone. */
const COPIED = new Set(['volatile.base_image', 'volatile.last_state.idmap']);

export function withoutVolatile(config: Config): Record<string, string> {
  return Object.fromEntries(Object.entries(config).filter(([key]) => !key.startsWith('volatile.') || COPIED.has(key)));
}
