import type { Instance as InstanceRecord, InstancesPost } from '@keelson/api';
import { keyValues, type Option, type Parsed, UsageError } from '../command.ts';

type Devices = Record<string, Record<string, string>>;

/** Options of a copy or a move that make it differ from its source. */
export const OVERRIDES: readonly Option[] = [
  { name: 'config', short: 'c', value: 'key=value', many: true, summary: 'setting that differs' },
  { name: 'device', short: 'd', value: 'name,key=value,…', many: true, summary: 'device that differs, or one more' },
  { name: 'profile', short: 'p', value: 'name', many: true, summary: 'profiles to apply in place of its own' },
  { name: 'no-profiles', summary: 'apply no profile' },
];

/** Devices of `--device name,key=value,…`, which may name one several times. @throws UsageError */
export function devicesOf(parsed: Parsed): Devices {
  const devices: Devices = {};
  for (const word of parsed.values('device')) {
    const [name = '', ...rest] = word.split(',');
    if (name === '' || rest.length === 0) throw new UsageError(`"${word}" is not of the form name,key=value`);
    devices[name] = { ...devices[name], ...keyValues(rest) };
  }
  return devices;
}

/** Whether any of `OVERRIDES` is given. */
export function hasOverrides(parsed: Parsed): boolean {
  const given = ['config', 'device', 'profile'].some((name) => parsed.values(name).length > 0);
  return given || parsed.flag('no-profiles');
}

/** What `OVERRIDES` are about. */
export type Overridden = Pick<InstanceRecord, 'config' | 'devices' | 'profiles'> & {
  readonly expanded_devices?: Devices | undefined;
};

/** What differs from `record`. A device that profiles give is overridden by one that has the rest of its options. */
export function changeOf(parsed: Parsed, record: Overridden): Pick<InstancesPost, 'config' | 'devices' | 'profiles'> {
  if (parsed.flag('no-profiles') && parsed.values('profile').length > 0)
    throw new UsageError('Give --profile or --no-profiles, not both');
  const change: Pick<InstancesPost, 'config' | 'devices' | 'profiles'> = {};
  const config = keyValues(parsed.values('config'));
  if (Object.keys(config).length > 0) change.config = { ...record.config, ...config };
  const devices = Object.entries(devicesOf(parsed));
  for (const [name, options] of devices) {
    const before = record.devices[name] ?? record.expanded_devices?.[name];
    change.devices = { ...(change.devices ?? record.devices), [name]: { ...before, ...options } };
  }
  if (parsed.flag('no-profiles')) change.profiles = [];
  else if (parsed.values('profile').length > 0) change.profiles = [...parsed.values('profile')];
  return change;
}
