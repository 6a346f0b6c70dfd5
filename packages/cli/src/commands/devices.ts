import { type Command, defineCommand, keyValues, UsageError } from '../command.ts';
import type { Context } from '../context.ts';

type Devices = Record<string, Record<string, string>>;

/** An object with devices: an instance or a profile. */
export interface WithDevices {
  devices: Devices;
  save(options: { readonly wait: boolean }): Promise<void>;
}

export interface DeviceOptions {
  readonly path: readonly [string, ...string[]];
  readonly noun: string;
  find(context: Context, word: string): Promise<WithDevices>;
}

/** `device list|add|set|remove|show` of a noun. */
export function deviceCommands({ path, noun, find }: DeviceOptions): Command[] {
  const name = { name: 'name', summary: `name of the ${noun}` };
  const device = { name: 'device', summary: 'name of the device' };
  const base = [...path, 'device'] as [string, ...string[]];
  return [
    defineCommand({
      path: [...base, 'list'],
      summary: `List the devices of a ${noun}`,
      args: [name],
      run: async (context, parsed) => {
        const rows = Object.entries((await find(context, parsed.arg('name'))).devices);
        context.out.list(
          [
            { title: 'NAME', text: ([key]) => key },
            { title: 'TYPE', text: ([, value]) => value['type'] ?? '' },
          ],
          rows,
        );
      },
    }),
    defineCommand({
      path: [...base, 'add'],
      summary: `Add a device to a ${noun}`,
      args: [
        name,
        device,
        { name: 'type', summary: 'disk, nic, …' },
        { name: 'settings', rest: true, optional: true, summary: 'key=value' },
      ],
      examples: [`keelson ${base.join(' ')} add NAME data disk source=/srv/data path=/data`],
      run: async (context, parsed) => {
        const object = await find(context, parsed.arg('name'));
        const key = parsed.arg('device');
        if (object.devices[key] !== undefined) throw new UsageError(`There is a device "${key}" already`);
        object.devices = {
          ...object.devices,
          [key]: { type: parsed.arg('type'), ...keyValues(parsed.rest('settings')) },
        };
        await object.save({ wait: true });
      },
    }),
    defineCommand({
      path: [...base, 'set'],
      summary: `Change a device of a ${noun}`,
      args: [name, device, { name: 'settings', rest: true, summary: 'key=value' }],
      run: async (context, parsed) => {
        const object = await find(context, parsed.arg('name'));
        const key = parsed.arg('device');
        const current = object.devices[key];
        if (current === undefined) throw new UsageError(`There is no device "${key}"`);
        object.devices = { ...object.devices, [key]: { ...current, ...keyValues(parsed.rest('settings')) } };
        await object.save({ wait: true });
      },
    }),
    defineCommand({
      path: [...base, 'remove'],
      summary: `Remove a device of a ${noun}`,
      args: [name, device],
      run: async (context, parsed) => {
        const object = await find(context, parsed.arg('name'));
        const { [parsed.arg('device')]: gone, ...rest } = object.devices;
        if (gone === undefined) throw new UsageError(`There is no device "${parsed.arg('device')}"`);
        object.devices = rest;
        await object.save({ wait: true });
      },
    }),
    defineCommand({
      path: [...base, 'show'],
      summary: `Show the devices of a ${noun}`,
      args: [name],
      run: async (context, parsed) => context.out.record((await find(context, parsed.arg('name'))).devices),
    }),
  ];
}
