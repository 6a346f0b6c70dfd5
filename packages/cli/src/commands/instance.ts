import type { Instance, InstanceCopyOptions, StateOptions } from '@keelson/client';
import { type Command, defineCommand, type Parsed, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import { splitRemote } from '../remotes.ts';
import { mode, modeOf } from './volume-copy.ts';

/** Does one thing to each named instance, all at once; the first failure is thrown after all ended. */
async function each(
  context: Context,
  words: readonly string[],
  act: (instance: Instance) => Promise<unknown>,
): Promise<void> {
  const results = await Promise.allSettled(
    words.map(async (word) => {
      const { client, name } = context.target(word);
      await act(await client.instances.get(name, { signal: context.signal }));
    }),
  );
  const failed = results.filter((result) => result.status === 'rejected');
  if (failed.length === 0) return;
  throw failed.length === 1 ? failed[0]?.reason : new AggregateError(failed.map(({ reason }) => reason as Error));
}

/** @throws UsageError */
function timeoutOf(parsed: Parsed): { timeout?: number } {
  const text = parsed.value('timeout');
  if (text === undefined) return {};
  if (!/^-?\d+$/.test(text)) throw new UsageError(`--timeout takes whole seconds, not "${text}"`);
  return { timeout: Number(text) };
}

const names = [{ name: 'instance', rest: true, summary: 'names of instances' }] as const;

function stateCommand(
  verb: string,
  summary: string,
  act: (instance: Instance, options: StateOptions) => Promise<void>,
): Command {
  const options = [
    { name: 'force', short: 'f', summary: 'do not ask the guest: act at once' },
    { name: 'timeout', value: 'seconds', summary: 'how long the guest gets; default: as long as it needs' },
  ];
  return defineCommand({
    path: [verb],
    summary,
    args: names,
    options: verb === 'stop' || verb === 'restart' ? options : [],
    run: (context, parsed) => {
      const how: StateOptions = { force: parsed.flag('force'), signal: context.signal, ...timeoutOf(parsed) };
      context.out.progress(`${verb} ${parsed.rest('instance').join(', ')} …`);
      return each(context, parsed.rest('instance'), (instance) => act(instance, how));
    },
  });
}

async function remove(context: Context, words: readonly string[], force: boolean): Promise<void> {
  await each(context, words, async (instance) => {
    if (instance.status !== 'Stopped') {
      if (!force) throw new UsageError(`Instance "${instance.name}" is running; stop it first, or use --force`);
      await instance.stop({ force: true });
      if (instance.ephemeral) return;
    }
    context.out.progress(`Deleting ${instance.name} …`);
    await instance.delete({ signal: context.signal });
  });
}

async function rename(context: Context, parsed: Parsed): Promise<void> {
  const from = context.target(parsed.arg('instance'));
  const to = sameServer(context, from.remote, parsed.arg('name'));
  await (await from.client.instances.get(from.name, { signal: context.signal })).rename(to, { signal: context.signal });
}

/** The name in `word`, which must be on the same server. @throws UsageError */
function sameServer(context: Context, remote: string, word: string): string {
  const to = splitRemote(word);
  if (to.remote !== '' && context.clientOf(to.remote) !== context.clientOf(remote)) {
    throw new UsageError(`"${word}" is on another server: copy the instance there, then delete it here`);
  }
  return to.name;
}

async function copy(context: Context, parsed: Parsed): Promise<void> {
  const source = context.target(parsed.arg('source'));
  const [instance, snapshot, ...more] = source.name.split('/');
  if (more.length > 0 || !instance)
    throw new UsageError(`"${source.name}" is neither an instance nor instance/snapshot`);
  const target = context.target(parsed.arg('name'));
  const found = await source.client.instances.get(instance, { signal: context.signal });
  const name = target.name || found.name;
  const instanceOnly = parsed.flag('instance-only');
  context.out.progress(`Copying ${source.name} …`);
  const [to, pool] = [target.client === source.client ? undefined : target.client, parsed.value('storage')];
  if (to !== undefined && snapshot !== undefined)
    throw new UsageError('A snapshot can only be copied within its server');
  const change = pool === undefined ? {} : { devices: { ...found.devices, root: { type: 'disk', path: '/', pool } } };
  if (snapshot !== undefined) {
    const from = { type: 'copy', source: `${instance}/${snapshot}` };
    await source.client.instances.create({ ...change, name, source: from }, { signal: context.signal });
  } else {
    const where = to === undefined ? { change } : { to, ...elsewhere(parsed) };
    await found.copy(name, { instanceOnly, signal: context.signal, ...where });
  }
  context.out.clearProgress();
  context.out.line(name);
}

type Target = ReturnType<Context['target']>;

/** How a copy reaches another server, and in which pool it lands there. */
function elsewhere(parsed: Parsed): Pick<InstanceCopyOptions, 'pool' | 'mode'> {
  const [pool, mode] = [parsed.value('storage'), modeOf(parsed)];
  return { ...(pool === undefined ? {} : { pool }), ...(mode === undefined ? {} : { mode }) };
}

/** Another name, pool or project on the same server, or another server. */
async function move(context: Context, parsed: Parsed): Promise<void> {
  const from = context.target(parsed.arg('instance'));
  const target = parsed.maybe('name');
  if (target !== undefined) {
    const to = context.target(target);
    if (to.client !== from.client) return moveAway(context, from, { ...to, ...elsewhere(parsed) });
  }
  const name = sameServer(context, from.remote, parsed.maybe('name') ?? from.name);
  const [pool, project] = [parsed.value('storage'), parsed.value('target-project')];
  const found = await from.client.instances.get(from.name, { signal: context.signal });
  if (pool === undefined && project === undefined) {
    if (name === from.name) throw new UsageError('Give a new name, --storage or --target-project');
    await found.rename(name, { signal: context.signal });
    return;
  }
  context.out.progress(`Moving ${from.name} …`);
  await found.migrate(
    { name, migration: true, ...(pool === undefined ? {} : { pool }), ...(project === undefined ? {} : { project }) },
    { wait: true, signal: context.signal },
  );
}

/** There first, then no longer here. */
async function moveAway(
  context: Context,
  from: Target,
  to: Target & Pick<InstanceCopyOptions, 'pool' | 'mode'>,
): Promise<void> {
  const { client, name, remote: _, ...how } = to;
  context.out.progress(`Moving ${from.name} …`);
  const found = await from.client.instances.get(from.name, { signal: context.signal });
  await found.moveTo(client, { ...how, name: name || found.name, signal: context.signal });
  context.out.clearProgress();
}

export const instanceCommands: readonly Command[] = [
  stateCommand('start', 'Start instances', (instance, options) => instance.start(options)),
  stateCommand('stop', 'Stop instances', (instance, options) => instance.stop(options)),
  stateCommand('restart', 'Restart instances', (instance, options) => instance.restart(options)),
  stateCommand('pause', 'Freeze the processes of instances', (instance, options) => instance.freeze(options)),
  stateCommand('resume', 'Let frozen instances go on', (instance, options) => instance.unfreeze(options)),
  defineCommand({
    path: ['delete'],
    summary: 'Delete instances and their snapshots',
    args: names,
    options: [{ name: 'force', short: 'f', summary: 'stop running ones first' }],
    run: (context, parsed) => remove(context, parsed.rest('instance'), parsed.flag('force')),
  }),
  defineCommand({
    path: ['rename'],
    summary: 'Rename a stopped instance',
    args: [
      { name: 'instance', summary: 'name of the instance' },
      { name: 'name', summary: 'its new name' },
    ],
    run: rename,
  }),
  defineCommand({
    path: ['copy'],
    summary: 'Copy an instance or a snapshot, also to another server',
    args: [
      { name: 'source', summary: 'instance or instance/snapshot' },
      { name: 'name', summary: 'name of the copy; remote: for the same name on another server' },
    ],
    options: [
      { name: 'instance-only', summary: 'without snapshots' },
      { name: 'storage', short: 's', value: 'pool', summary: 'pool of the copy' },
      mode,
    ],
    examples: ['keelson copy web web2', 'keelson copy web/before-upgrade old', 'keelson copy web office:'],
    run: copy,
  }),
  defineCommand({
    path: ['move'],
    summary: 'Move an instance to another name, pool, project or server',
    args: [
      { name: 'instance', summary: 'name of the instance' },
      { name: 'name', optional: true, summary: 'its new name; remote: for the same name on another server' },
    ],
    options: [
      { name: 'storage', short: 's', value: 'pool', summary: 'pool to move it to' },
      { name: 'target-project', value: 'name', summary: 'project to move it to' },
      mode,
    ],
    examples: ['keelson move web web2', 'keelson move web office:'],
    run: move,
  }),
];
