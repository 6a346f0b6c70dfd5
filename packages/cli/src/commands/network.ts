import type { Network } from '@keelson/client';
import { type Command, defineCommand, keyValues, type Parsed, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import { splitRemote } from '../remotes.ts';
import { settingsCommands } from './settings.ts';

async function find(context: Context, word: string): Promise<Network> {
  const { client, name } = context.target(word);
  return client.networks.get(name);
}

async function attach(context: Context, parsed: Parsed): Promise<void> {
  const target = context.target(parsed.arg('instance'));
  const network = await find(context, parsed.arg('name'));
  const instance = await target.client.instances.get(target.name, { signal: context.signal });
  const device = parsed.maybe('device') ?? network.name;
  if (instance.devices[device] !== undefined) throw new UsageError(`There is a device "${device}" already`);
  const [guest, nic] = [parsed.maybe('interface'), { type: 'nic', network: network.name }];
  instance.devices = { ...instance.devices, [device]: { ...nic, ...(guest === undefined ? {} : { name: guest }) } };
  await instance.save({ wait: true });
}

async function detach(context: Context, parsed: Parsed): Promise<void> {
  const target = context.target(parsed.arg('instance'));
  const instance = await target.client.instances.get(target.name, { signal: context.signal });
  const network = context.target(parsed.arg('name')).name;
  const kept = Object.entries(instance.devices).filter(
    ([, one]) => !(one['type'] === 'nic' && one['network'] === network),
  );
  if (kept.length === Object.keys(instance.devices).length) {
    throw new UsageError(`Instance "${instance.name}" has no nic of its own on network "${network}"`);
  }
  instance.devices = Object.fromEntries(kept);
  await instance.save({ wait: true });
}

const instance = { name: 'instance', summary: 'name of the instance' } as const;
const name = { name: 'name', summary: 'name of the network' } as const;

export const networkCommands: readonly Command[] = [
  defineCommand({
    path: ['network', 'list'],
    summary: 'List networks',
    args: [{ name: 'remote', optional: true, summary: 'remote:' }],
    run: async (context, parsed) => {
      const client = context.clientOf(splitRemote(parsed.maybe('remote') ?? '').remote);
      context.out.list(
        [
          { title: 'NAME', text: (network) => network.name },
          { title: 'TYPE', text: (network) => network.type },
          { title: 'MANAGED', text: (network) => (network.managed ? 'YES' : 'NO') },
          { title: 'IPV4', text: (network) => network.config['ipv4.address'] ?? '' },
          { title: 'IPV6', text: (network) => network.config['ipv6.address'] ?? '' },
          { title: 'USED BY', text: (network) => String(network.used_by?.length ?? 0) },
          { title: 'STATE', text: (network) => network.status.toUpperCase() },
        ],
        await client.networks.all({ recursion: 1 }),
      );
    },
  }),
  defineCommand({
    path: ['network', 'create'],
    summary: 'Create a bridge with DHCP, DNS and NAT',
    args: [name, { name: 'settings', rest: true, optional: true, summary: 'key=value' }],
    options: [{ name: 'type', value: 'type', summary: 'default: bridge' }],
    examples: ['keelson network create br0 ipv4.address=10.9.0.1/24 ipv6.address=none'],
    run: async (context, parsed) => {
      const target = context.target(parsed.arg('name'));
      const type = parsed.value('type');
      const config = keyValues(parsed.rest('settings'));
      await target.client.networks.create(target.name, { config, ...(type === undefined ? {} : { type }) });
    },
  }),
  defineCommand({
    path: ['network', 'rename'],
    summary: 'Rename a network that nothing uses',
    args: [name, { name: 'new-name', summary: 'its new name' }],
    run: async (context, parsed) =>
      void (await (await find(context, parsed.arg('name'))).rename(parsed.arg('new-name'))),
  }),
  defineCommand({
    path: ['network', 'delete'],
    summary: 'Delete a network that nothing uses',
    args: [name],
    run: async (context, parsed) => (await find(context, parsed.arg('name'))).delete(),
  }),
  defineCommand({
    path: ['network', 'info'],
    summary: 'Show addresses, counters and link state',
    args: [name],
    run: async (context, parsed) => context.out.record(await (await find(context, parsed.arg('name'))).state()),
  }),
  defineCommand({
    path: ['network', 'leases'],
    summary: 'List DHCP leases',
    args: [name],
    run: async (context, parsed) => {
      context.out.list(
        [
          { title: 'HOSTNAME', text: (lease) => lease.hostname },
          { title: 'MAC ADDRESS', text: (lease) => lease.hwaddr },
          { title: 'IP ADDRESS', text: (lease) => lease.address },
          { title: 'TYPE', text: (lease) => lease.type.toUpperCase() },
        ],
        await (await find(context, parsed.arg('name'))).leases(),
      );
    },
  }),
  defineCommand({
    path: ['network', 'attach'],
    summary: 'Give an instance a nic on a network',
    args: [
      name,
      instance,
      { name: 'device', optional: true, summary: 'name of the device; default: that of the network' },
      { name: 'interface', optional: true, summary: 'name of the interface in the guest' },
    ],
    run: attach,
  }),
  defineCommand({
    path: ['network', 'detach'],
    summary: 'Take the nics on a network from an instance',
    args: [name, instance],
    run: detach,
  }),
  ...settingsCommands({ path: ['network'], noun: 'network', writable: ['config', 'description'], find }),
];
