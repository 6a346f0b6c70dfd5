import type { InstanceFull } from '@keelson/api';
import type { Instance, StateOptions } from '@keelson/client';
import { type Command, defineCommand, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import { bytes, type Column, when } from '../output/format.ts';
import { splitRemote } from '../remotes.ts';

const COLUMNS: readonly Column<InstanceFull>[] = [
  { title: 'NAME', text: ({ name }) => name },
  { title: 'STATE', text: ({ status }) => status.toUpperCase() },
  { title: 'IPV4', text: (instance) => addresses(instance, 'inet') },
  { title: 'IPV6', text: (instance) => addresses(instance, 'inet6') },
  { title: 'TYPE', text: ({ type, ephemeral }) => `${type.toUpperCase()}${ephemeral ? ' (EPHEMERAL)' : ''}` },
  { title: 'SNAPSHOTS', text: ({ snapshots }) => String(snapshots?.length ?? 0) },
];

/** Global addresses with the interface they are on, one a line. */
function addresses({ state }: InstanceFull, family: string): string {
  return Object.entries(state?.network ?? {})
    .filter(([name]) => name !== 'lo')
    .flatMap(([name, { addresses: found }]) =>
      found
        .filter((one) => one.family === family && one.scope === 'global')
        .map(({ address }) => `${address} (${name})`),
    )
    .join('\n');
}

async function list(context: Context, remote: string, pattern: string): Promise<void> {
  const client = context.clientOf(remote);
  const node = client.api.instances;
  if (node === undefined) throw new UsageError('This server has no instances');
  const answer = await node.get({ query: { recursion: 2 }, signal: context.signal });
  const { metadata, error } = await answer.json<{ metadata: InstanceFull[] | null; error?: string }>();
  if (answer.status !== 200) throw new Error(error);
  const shown = (metadata ?? []).filter(({ name }) => name.includes(pattern));
  context.out.list(
    COLUMNS,
    shown.sort((a, b) => (a.name < b.name ? -1 : 1)),
  );
}

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
  throw failed.length === 1
    ? failed[0]?.reason
    : new AggregateError(
        failed.map(({ reason }) => reason as Error),
        failed.map(({ reason }) => String(reason)).join('\n'),
      );
}

const names = [{ name: 'instance', rest: true, summary: 'names of instances' }] as const;

function stateCommand(
  verb: string,
  summary: string,
  act: (instance: Instance, options: StateOptions) => Promise<void>,
): Command {
  const options = [
    { name: 'force', summary: 'do not ask the guest: act at once' },
    { name: 'timeout', value: 'seconds', summary: 'how long the guest gets; default: as long as it needs' },
  ];
  return defineCommand({
    path: [verb],
    summary,
    args: names,
    options: verb === 'stop' || verb === 'restart' ? options : [],
    run: (context, parsed) => {
      const timeout = parsed.value('timeout');
      const how: StateOptions = {
        force: parsed.flag('force'),
        signal: context.signal,
        ...(timeout === undefined ? {} : { timeout: Number(timeout) }),
      };
      return each(context, parsed.rest('instance'), (instance) => act(instance, how));
    },
  });
}

async function info(context: Context, word: string): Promise<void> {
  const { client, name } = context.target(word);
  const instance = await client.instances.get(name);
  const [state, snapshots] = await Promise.all([instance.state(), instance.snapshots.all({ recursion: 1 })]);
  const networks = Object.entries(state.network ?? {}).map(([nic, one]) => [
    nic,
    one.addresses.map(({ address, netmask }) => `${address}/${netmask}`),
  ]);
  context.out.record({
    name: instance.name,
    status: instance.status,
    type: instance.type,
    architecture: instance.architecture,
    created: when(instance.created_at),
    'last used': when(instance.last_used_at),
    ...(state.pid > 0 ? { pid: state.pid } : {}),
    resources: {
      processes: state.processes,
      'cpu seconds': Math.round(state.cpu.usage / 1e9),
      memory: bytes(state.memory.usage),
      addresses: Object.fromEntries(networks),
    },
    snapshots: snapshots.map((snapshot) => ({ name: snapshot.name, taken: when(snapshot.created_at) })),
  });
}

async function remove(context: Context, words: readonly string[], force: boolean): Promise<void> {
  await each(context, words, async (instance) => {
    if (instance.status !== 'Stopped') {
      if (!force) throw new UsageError(`Instance "${instance.name}" is running; stop it first, or use --force`);
      await instance.stop({ force: true });
      if (instance.ephemeral) return;
    }
    await instance.delete({ signal: context.signal });
  });
}

export const instanceCommands: readonly Command[] = [
  defineCommand({
    path: ['list'],
    summary: 'List instances with their state and addresses',
    args: [{ name: 'filter', optional: true, summary: 'part of a name, or remote:' }],
    run: (context, parsed) => {
      const { remote, name } = splitRemote(parsed.maybe('filter') ?? '');
      return list(context, remote, name);
    },
  }),
  defineCommand({
    path: ['info'],
    summary: 'Show what is known of an instance',
    args: [{ name: 'instance', summary: 'name of the instance' }],
    run: (context, parsed) => info(context, parsed.arg('instance')),
  }),
  stateCommand('start', 'Start instances', (instance, options) => instance.start(options)),
  stateCommand('stop', 'Stop instances', (instance, options) => instance.stop(options)),
  stateCommand('restart', 'Restart instances', (instance, options) => instance.restart(options)),
  stateCommand('pause', 'Freeze the processes of instances', (instance, options) => instance.freeze(options)),
  stateCommand('resume', 'Let frozen instances go on', (instance, options) => instance.unfreeze(options)),
  defineCommand({
    path: ['delete'],
    summary: 'Delete instances and their snapshots',
    args: names,
    options: [{ name: 'force', summary: 'stop running ones first' }],
    run: (context, parsed) => remove(context, parsed.rest('instance'), parsed.flag('force')),
  }),
  defineCommand({
    path: ['rename'],
    summary: 'Rename a stopped instance',
    args: [
      { name: 'instance', summary: 'name of the instance' },
      { name: 'name', summary: 'its new name' },
    ],
    run: async (context, parsed) => {
      const { client, name } = context.target(parsed.arg('instance'));
      await (await client.instances.get(name)).rename(splitRemote(parsed.arg('name')).name);
    },
  }),
  defineCommand({
    path: ['copy'],
    summary: 'Copy an instance within its server',
    args: [
      { name: 'source', summary: 'name of the instance' },
      { name: 'name', summary: 'name of the copy' },
    ],
    options: [{ name: 'instance-only', summary: 'without snapshots' }],
    run: async (context, parsed) => {
      const { client, name } = context.target(parsed.arg('source'));
      const instance = await client.instances.get(name);
      await instance.copy(parsed.arg('name'), { instanceOnly: parsed.flag('instance-only'), signal: context.signal });
    },
  }),
];
