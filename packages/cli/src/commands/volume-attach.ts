import { type Command, defineCommand, type Parsed, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import { findVolume, pool, typed, volume } from './volume-target.ts';

/** Adds the volume to an instance as a disk. */
async function attach(context: Context, parsed: Parsed): Promise<void> {
  const target = context.target(parsed.arg('instance'));
  const found = await findVolume(context, parsed.arg('pool'), parsed.arg('volume'));
  const instance = await target.client.instances.get(target.name, { signal: context.signal });
  const device = parsed.value('device') ?? found.name;
  if (instance.devices[device] !== undefined) throw new UsageError(`There is a device "${device}" already`);
  const path = parsed.maybe('path');
  if (path === undefined && found.content_type !== 'block')
    throw new UsageError('Name the path to mount the volume at');
  const pool = context.target(parsed.arg('pool')).name;
  const disk = { type: 'disk', pool, source: found.name, ...(path === undefined ? {} : { path }) };
  instance.devices = { ...instance.devices, [device]: disk };
  await instance.save({ wait: true });
}

/** Takes every disk of the volume from an instance. */
async function detach(context: Context, parsed: Parsed): Promise<void> {
  const target = context.target(parsed.arg('instance'));
  const instance = await target.client.instances.get(target.name, { signal: context.signal });
  const [pool, { name }] = [context.target(parsed.arg('pool')).name, typed(parsed.arg('volume'))];
  const kept = Object.entries(instance.devices).filter(
    ([, { type, pool: its, source }]) => !(type === 'disk' && its === pool && source === name),
  );
  if (kept.length === Object.keys(instance.devices).length) {
    throw new UsageError(`Instance "${instance.name}" has no disk of volume "${name}" of pool "${pool}"`);
  }
  instance.devices = Object.fromEntries(kept);
  await instance.save({ wait: true });
}

const instance = { name: 'instance', summary: 'name of the instance' } as const;

export const volumeAttachCommands: readonly Command[] = [
  defineCommand({
    path: ['storage', 'volume', 'attach'],
    summary: 'Give an instance a custom volume as a disk',
    args: [pool, volume, instance, { name: 'path', optional: true, summary: 'where to mount it in the guest' }],
    options: [{ name: 'device', value: 'name', summary: 'name of the device; default: that of the volume' }],
    examples: ['keelson storage volume attach default data web /srv/data'],
    run: attach,
  }),
  defineCommand({
    path: ['storage', 'volume', 'detach'],
    summary: 'Take a custom volume from an instance',
    args: [pool, volume, instance],
    run: detach,
  }),
];
