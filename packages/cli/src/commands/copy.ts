import type { InstancesPost } from '@keelson/api';
import type { CopyProgress, Instance, InstanceCopyOptions } from '@keelson/client';
import { type Command, defineCommand, type Option, type Parsed, UsageError } from '../command.ts';
import { type Context, sameServer, type Target } from '../context.ts';
import { changeOf, hasOverrides, OVERRIDES, type Overridden } from './overrides.ts';
import { mode, modeOf } from './volume-copy.ts';

/** `instance` or `instance/snapshot`. @throws UsageError */
function partsOf(name: string): { readonly instance: string; readonly snapshot: string | undefined } {
  const [instance = '', snapshot, ...more] = name.split('/');
  if (more.length > 0 || instance === '' || snapshot === '')
    throw new UsageError(`"${name}" is neither an instance nor instance/snapshot`);
  return { instance, snapshot };
}

/** What copies and moves have in common. */
function wayOf(
  context: Context,
  parsed: Parsed,
  label: string,
): Pick<InstanceCopyOptions, 'pool' | 'mode' | 'project' | 'allowInconsistent' | 'signal'> & {
  readonly onProgress: CopyProgress;
} {
  const [pool, chosen, project] = [parsed.value('storage'), modeOf(parsed), parsed.value('target-project')];
  return {
    ...(pool === undefined ? {} : { pool }),
    ...(chosen === undefined ? {} : { mode: chosen }),
    ...(project === undefined ? {} : { project }),
    ...(parsed.flag('allow-inconsistent') ? { allowInconsistent: true } : {}),
    signal: context.signal,
    onProgress: context.out.copying(label),
  };
}

async function copy(context: Context, parsed: Parsed): Promise<void> {
  const { signal } = context;
  const from = context.target(parsed.arg('source'));
  const { instance, snapshot } = partsOf(from.name);
  const to = context.target(parsed.maybe('name') ?? `${from.remote}${from.remote === '' ? '' : ':'}`);
  const project = parsed.value('target-project');
  const [instanceOnly, refresh] = [parsed.flag('instance-only'), parsed.flag('refresh')];
  if (snapshot !== undefined && (instanceOnly || refresh))
    throw new UsageError('--instance-only and --refresh are for instances, not for a snapshot');
  const within = sameServer(from, to);
  const name = to.name || (within && project === undefined ? '' : instance);
  if (refresh && name === '') throw new UsageError('Name the copy to bring up to date');
  const found = await from.client.instances.get(instance, { signal });
  const label = `Copying ${from.name}`;
  context.out.progress(`${label} …`);
  const { mode: chosen, ...way } = wayOf(context, parsed, label);
  // Within a server nothing goes over the network.
  const how = { ...way, to: to.client, ...(within || chosen === undefined ? {} : { mode: chosen }) };
  const ephemeral = parsed.flag('ephemeral');
  let made: Instance;
  if (snapshot === undefined) {
    const change = { ephemeral, ...changeOf(parsed, forCopy(found)) };
    made = await found.copy(name, { ...how, change, instanceOnly, ...(refresh ? { refresh } : {}) });
  } else {
    const one = await found.snapshots.get(snapshot, { signal });
    made = await one.copy(name, { ...how, change: { ephemeral, ...changeOf(parsed, forCopy(one)) } });
  }
  context.out.clearProgress();
  context.out.line(made.name);
}

/** Its own configuration, without what the server noted about it: a copy is another instance. */
function forCopy({ config, devices, expanded_devices, profiles }: Overridden): Overridden {
  const kept = Object.entries(config as Record<string, string>).filter(
    ([key]) => !key.startsWith('volatile.') || key === 'volatile.base_image',
  );
  return { config: Object.fromEntries(kept), devices, expanded_devices, profiles };
}

/** Another name, pool or project on the same server, or another server. */
async function move(context: Context, parsed: Parsed): Promise<void> {
  const from = context.target(parsed.arg('instance'));
  const word = parsed.maybe('name');
  const to = word === undefined ? { ...from, name: '' } : context.target(word);
  const { instance, snapshot } = partsOf(from.name);
  if (snapshot !== undefined) return renameSnapshot(context, from, to);
  const found = await from.client.instances.get(instance, { signal: context.signal });
  const label = `Moving ${from.name}`;
  context.out.progress(`${label} …`);
  if (sameServer(from, to)) await moveWithin(context, parsed, { found, from, to });
  else {
    const change = changeOf(parsed, found);
    const instanceOnly = parsed.flag('instance-only');
    const where = { ...wayOf(context, parsed, label), instanceOnly, change, name: to.name || found.name };
    await found.moveTo(to.client, where);
  }
  context.out.clearProgress();
}

async function renameSnapshot(context: Context, from: Target, to: Target): Promise<void> {
  const [before, after] = [partsOf(from.name), partsOf(to.name)];
  if (!sameServer(from, to) || before.instance !== after.instance || after.snapshot === undefined)
    throw new UsageError('A snapshot only moves to another name in its instance; copy it to make an instance of it');
  const { client } = from;
  const found = await client.instances.get(before.instance, { signal: context.signal });
  await (await found.snapshots.get(before.snapshot ?? '')).rename(after.snapshot, { signal: context.signal });
}

interface Within {
  readonly found: Instance;
  readonly from: Target;
  readonly to: Target;
}

async function moveWithin(context: Context, parsed: Parsed, { found, from, to }: Within): Promise<void> {
  const { signal } = context;
  const [pool, project] = [parsed.value('storage'), parsed.value('target-project')];
  const name = to.name || found.name;
  const elsewhere = pool !== undefined || project !== undefined;
  if (!elsewhere && name === found.name) throw new UsageError('Give a new name, --storage or --target-project');
  const change = changeOf(parsed, found);
  if (!elsewhere) await found.rename(name, { signal });
  else {
    const body = {
      name,
      ...(pool === undefined ? {} : { pool }),
      ...(project === undefined ? {} : { project }),
      ...(parsed.flag('instance-only') ? { instance_only: true } : {}),
      ...(parsed.flag('allow-inconsistent') ? { allow_inconsistent: true } : {}),
    };
    const onProgress = context.out.operation(`Moving ${from.name}`);
    await found.migrate(body, { wait: true, signal, onProgress });
  }
  if (hasOverrides(parsed)) await override(await context.inProject(from, project).client.instances.get(name), change);
}

/** The move may have changed the root disk's pool and what the server noted. */
async function override(
  moved: Instance,
  change: Pick<InstancesPost, 'config' | 'devices' | 'profiles'>,
): Promise<void> {
  const noted = Object.entries(moved.config as Record<string, string>).filter(([key]) => key.startsWith('volatile.'));
  if (change.config !== undefined) moved.config = { ...change.config, ...Object.fromEntries(noted) };
  if (change.profiles !== undefined) moved.profiles = change.profiles;
  if (change.devices !== undefined) {
    const roots = Object.entries(moved.devices).filter(([, { type, path }]) => type === 'disk' && path === '/');
    const pools = roots.map(([name, { pool }]) => [name, { ...change.devices?.[name], ...(pool && { pool }) }]);
    moved.devices = { ...change.devices, ...Object.fromEntries(pools) };
  }
  await moved.save({ wait: true });
}

const WAY: readonly Option[] = [
  { name: 'instance-only', summary: 'without snapshots' },
  { name: 'target-project', value: 'name', summary: 'project to put it in' },
  mode,
  { name: 'stateless', summary: 'a running instance without its memory, which never travels now' },
  { name: 'allow-inconsistent', summary: 'go on when files change or vanish while they are read' },
];

export const copyCommands: readonly Command[] = [
  defineCommand({
    path: ['copy'],
    summary: 'Copy an instance or a snapshot, also to another project or server',
    args: [
      { name: 'source', summary: 'instance or instance/snapshot' },
      {
        name: 'name',
        optional: true,
        summary: 'name of the copy, which the server picks without one; remote: for the same name on another server',
      },
    ],
    options: [
      ...OVERRIDES,
      { name: 'ephemeral', short: 'e', summary: 'delete the copy when it stops' },
      { name: 'storage', short: 's', value: 'pool', summary: 'pool of the copy' },
      { name: 'refresh', summary: 'bring a stopped copy that is there up to date: files, snapshots, settings' },
      ...WAY,
    ],
    examples: [
      'keelson copy web web2',
      'keelson copy web/before-upgrade old -c limits.memory=1GiB',
      'keelson copy web office:',
      'keelson copy web office: --refresh',
    ],
    run: copy,
  }),
  defineCommand({
    path: ['move'],
    summary: 'Move an instance to another name, pool, project or server',
    args: [
      { name: 'instance', summary: 'name of the instance, or instance/snapshot to rename that' },
      { name: 'name', optional: true, summary: 'its new name; remote: for the same name on another server' },
    ],
    options: [...OVERRIDES, { name: 'storage', short: 's', value: 'pool', summary: 'pool to move it to' }, ...WAY],
    examples: ['keelson move web web2', 'keelson move web office:', 'keelson move web/old web/older'],
    run: move,
  }),
];
