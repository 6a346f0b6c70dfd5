import type { InstancesPost } from '@keelson/api';
import type { Instance } from '@keelson/client';
import { type Command, defineCommand, keyValues, type Option, type Parsed, UsageError } from '../command.ts';
import { devicesOf } from './overrides.ts';
import type { Context } from '../context.ts';
import { remoteOf, splitRemote } from '../remotes.ts';

const OPTIONS: readonly Option[] = [
  { name: 'config', short: 'c', value: 'key=value', many: true, summary: 'setting of the instance' },
  {
    name: 'profile',
    short: 'p',
    value: 'name',
    many: true,
    summary: 'profile to apply, in this order; default: default',
  },
  { name: 'no-profiles', summary: 'apply no profile' },
  { name: 'device', short: 'd', value: 'name,key=value,…', many: true, summary: 'device to add or override' },
  { name: 'storage', short: 's', value: 'pool', summary: 'pool of the root disk' },
  { name: 'network', short: 'n', value: 'name', summary: 'network of the first nic' },
  { name: 'ephemeral', short: 'e', summary: 'delete the instance when it stops' },
  { name: 'vm', summary: 'make a virtual machine' },
  { name: 'empty', summary: 'make it without an image' },
];

/** Definition of a new instance from the command line. */
export function definitionOf(parsed: Parsed): InstancesPost {
  const devices = devicesOf(parsed);
  const [pool, network] = [parsed.value('storage'), parsed.value('network')];
  if (pool !== undefined) devices['root'] = { type: 'disk', path: '/', pool };
  if (network !== undefined) devices['eth0'] = { type: 'nic', name: 'eth0', network };
  const profiles = parsed.values('profile');
  return {
    type: parsed.flag('vm') ? 'virtual-machine' : 'container',
    config: keyValues(parsed.values('config')),
    devices,
    ephemeral: parsed.flag('ephemeral'),
    ...(parsed.flag('no-profiles') ? { profiles: [] } : profiles.length > 0 ? { profiles: [...profiles] } : {}),
  };
}

/** Image by alias, or by fingerprint when it looks like one and no alias has the name. */
async function sourceOf(
  context: Context,
  word: string | undefined,
  remote: string,
): Promise<NonNullable<InstancesPost['source']>> {
  if (word === undefined) return { type: 'none' };
  const image = splitRemote(word);
  if (image.remote !== '' && image.remote !== remote) {
    const other = remoteOf(image.remote);
    const protocol = other.protocol ?? 'lxd';
    if (protocol === 'lxd') return elsewhere(context, image);
    return { type: 'image', mode: 'pull', server: other.address, protocol, alias: image.name };
  }
  const { client } = context.target(`${remote}${remote === '' ? '' : ':'}${image.name}`);
  const byFingerprint =
    /^[0-9a-f]{6,64}$/.test(image.name) && !(await client.images.exists(image.name, { alias: true }));
  return byFingerprint ? { type: 'image', fingerprint: image.name } : { type: 'image', alias: image.name };
}

/** An image of another server, which the server fetches itself. */
async function elsewhere(
  context: Context,
  { remote, name }: { remote: string; name: string },
): Promise<NonNullable<InstancesPost['source']>> {
  const other = context.clientOf(remote);
  const server = await other.server.get({ signal: context.signal });
  if (!other.endpoint.startsWith('https:')) {
    throw new UsageError(
      `The remote "${remote}" is a local socket, which no other server can reach; copy the image with "keelson image export"`,
    );
  }
  const certificate = 'environment' in server ? server.environment.certificate : undefined;
  return {
    type: 'image',
    mode: 'pull',
    server: other.endpoint,
    protocol: 'lxd',
    alias: name,
    ...(certificate === undefined ? {} : { certificate }),
  };
}

async function create(context: Context, parsed: Parsed, start: boolean): Promise<void> {
  const [image, given] = parsed.flag('empty')
    ? [undefined, parsed.maybe('image')]
    : [parsed.maybe('image'), parsed.maybe('name')];
  if (image === undefined && !parsed.flag('empty')) throw new UsageError('Name an image, or use --empty');
  const { client, name, remote } = context.target(given ?? '');
  const definition = { ...definitionOf(parsed), ...(name === '' ? {} : { name }) };
  const source = await sourceOf(context, image, remote);
  const onProgress = context.out.operation(`Creating ${name || 'an instance'}`);
  context.out.progress(`Creating ${name || 'an instance'} …`);
  const made: Instance = await client.instances.create(
    { ...definition, source },
    { signal: context.signal, onProgress },
  );
  if (start) {
    context.out.progress(`Starting ${made.name} …`);
    await made.start({ signal: context.signal });
  }
  context.out.clearProgress();
  context.out.line(made.name);
}

const args = [
  { name: 'image', optional: true, summary: 'alias or fingerprint of the image, also remote:image' },
  { name: 'name', optional: true, summary: 'name of the instance; without one the server picks it' },
] as const;

export const createCommands: readonly Command[] = [
  defineCommand({
    path: ['launch'],
    summary: 'Create an instance and start it',
    args,
    options: OPTIONS,
    examples: ['keelson launch debian web', 'keelson launch debian ci -e -c limits.memory=1GiB -c limits.cpu=2'],
    run: (context, parsed) => create(context, parsed, true),
  }),
  defineCommand({
    path: ['init'],
    summary: 'Create an instance without starting it',
    args,
    options: OPTIONS,
    examples: ['keelson init debian web', 'keelson init --empty blank'],
    run: (context, parsed) => create(context, parsed, false),
  }),
];
