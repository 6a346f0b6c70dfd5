import { type Command, defineCommand, type Parsed, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import type { WithDevices } from './devices.ts';
import { findVolume, pool, typed, volume } from './volume-target.ts';

/** What a volume is attached to. */
interface Holder {
  readonly noun: 'instance' | 'profile';
  find(context: Context, word: string): Promise<WithDevices & { readonly name: string }>;
}

const instances: Holder = {
  noun: 'instance',
  find: (context, word) => {
    const { client, name } = context.target(word);
    return client.instances.get(name, { signal: context.signal });
  },
};
const profiles: Holder = {
  noun: 'profile',
  find: (context, word) => {
    const { client, name } = context.target(word);
    return client.profiles.get(name, { signal: context.signal });
  },
};

/** Adds the volume as a disk. */
async function attach(holder: Holder, context: Context, parsed: Parsed): Promise<void> {
  const found = await findVolume(context, parsed.arg('pool'), parsed.arg('volume'));
  const object = await holder.find(context, parsed.arg(holder.noun));
  // As in lxc: with two words the first names the device.
  const [first, last] = [parsed.maybe('path'), parsed.maybe('mount')];
  if (last !== undefined && parsed.value('device') !== undefined)
    throw new UsageError('Name the device once: before the path, or with --device');
  const device = parsed.value('device') ?? (last === undefined ? found.name : (first ?? found.name));
  if (object.devices[device] !== undefined) throw new UsageError(`There is a device "${device}" already`);
  const path = last ?? first;
  if (path === undefined && found.content_type === 'filesystem')
    throw new UsageError('Name the path to mount the volume at');
  const disk = {
    type: 'disk',
    pool: context.target(parsed.arg('pool')).name,
    source: found.name,
    ...(path === undefined ? {} : { path }),
    ...(parsed.flag('read-only') ? { readonly: 'true' } : {}),
  };
  object.devices = { ...object.devices, [device]: disk };
  await object.save({ wait: true });
}

/** Takes every disk of the volume, or one by its name, away. */
async function detach(holder: Holder, context: Context, parsed: Parsed): Promise<void> {
  const object = await holder.find(context, parsed.arg(holder.noun));
  const [pool, { name }] = [context.target(parsed.arg('pool')).name, typed(parsed.arg('volume'))];
  const device = parsed.maybe('device');
  const kept = Object.entries(object.devices).filter(
    ([key, { type, pool: its, source }]) =>
      !(type === 'disk' && its === pool && source === name && (device === undefined || device === key)),
  );
  if (kept.length === Object.keys(object.devices).length) {
    throw new UsageError(
      `${holder.noun === 'instance' ? 'Instance' : 'Profile'} "${object.name}" has no disk of volume "${name}" of pool "${pool}"`,
    );
  }
  object.devices = Object.fromEntries(kept);
  await object.save({ wait: true });
}

const where = [
  { name: 'path', optional: true, summary: 'where to mount it in the guest' },
  { name: 'mount', optional: true, summary: 'the path, where the word before names the device' },
] as const;
const options = [
  { name: 'device', value: 'name', summary: 'name of the device; default: that of the volume' },
  { name: 'read-only', summary: 'the guest cannot write to it' },
] as const;
const one = { name: 'device', optional: true, summary: 'name of the device; default: all of the volume' } as const;

export const volumeAttachCommands: readonly Command[] = [
  defineCommand({
    path: ['storage', 'volume', 'attach'],
    summary: 'Give an instance a custom volume as a disk',
    args: [pool, volume, { name: 'instance', summary: 'name of the instance' }, ...where],
    options,
    examples: ['keelson storage volume attach default data web /srv/data'],
    run: (context, parsed) => attach(instances, context, parsed),
  }),
  defineCommand({
    path: ['storage', 'volume', 'detach'],
    summary: 'Take a custom volume from an instance',
    args: [pool, volume, { name: 'instance', summary: 'name of the instance' }, one],
    run: (context, parsed) => detach(instances, context, parsed),
  }),
  defineCommand({
    path: ['storage', 'volume', 'attach-profile'],
    summary: 'Give all instances of a profile a custom volume as a disk',
    args: [pool, volume, { name: 'profile', summary: 'name of the profile' }, ...where],
    options,
    run: (context, parsed) => attach(profiles, context, parsed),
  }),
  defineCommand({
    path: ['storage', 'volume', 'detach-profile'],
    summary: 'Take a custom volume from a profile',
    args: [pool, volume, { name: 'profile', summary: 'name of the profile' }, one],
    run: (context, parsed) => detach(profiles, context, parsed),
  }),
];
