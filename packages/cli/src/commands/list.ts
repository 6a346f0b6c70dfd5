import type { InstanceFull } from '@keelson/api';
import { type Command, defineCommand, type Parsed } from '../command.ts';
import type { Context } from '../context.ts';
import { bytes, when } from '../output/format.ts';
import { COLUMN_HELP, columnsOf, DEFAULT_COLUMNS } from '../output/instance-columns.ts';
import { matcherOf } from '../output/instance-filter.ts';
import { splitRemote } from '../remotes.ts';
import { answerOf } from './answer.ts';

async function list(context: Context, parsed: Parsed): Promise<void> {
  const words = parsed.rest('filter');
  const [first = ''] = words;
  const { remote, name } = /^[^=]*:/.test(first) ? splitRemote(first) : { remote: '', name: first };
  const matches = matcherOf(first === '' ? [] : [name, ...words.slice(1)].filter((word) => word !== ''));
  const columns = columnsOf(parsed.value('columns') ?? DEFAULT_COLUMNS);
  const all = parsed.flag('all-projects');
  const client = context.clientOf(remote);
  const query = { recursion: 2, ...(all ? { 'all-projects': 'true' } : {}) };
  const instances = client.api.part('instances');
  const found = await answerOf<InstanceFull[] | null>(instances.get({ query, signal: context.signal }));
  const shown = (found ?? []).filter(matches).sort(byName);
  const project = { title: 'PROJECT', text: (one: InstanceFull) => one.project ?? '' };
  context.out.list(all ? [project, ...columns] : columns, shown);
}

function byName(a: InstanceFull, b: InstanceFull): number {
  const [left, right] = [`${a.project ?? ''} ${a.name}`, `${b.project ?? ''} ${b.name}`];
  return left < right ? -1 : 1;
}

async function info(context: Context, word: string): Promise<void> {
  const { client, name } = context.target(word);
  const instance = await client.instances.get(name, { signal: context.signal });
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
    ...(instance.description ? { description: instance.description } : {}),
    profiles: instance.profiles,
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

export const listCommands: readonly Command[] = [
  defineCommand({
    path: ['list'],
    summary: 'List instances with their state and addresses',
    args: [
      {
        name: 'filter',
        rest: true,
        optional: true,
        summary: 'remote:, part of a name, or key=value: status, type, profile, a setting such as user.owner',
      },
    ],
    options: [
      { name: 'columns', short: 'c', value: 'columns', summary: `letters and settings: ${COLUMN_HELP}` },
      { name: 'all-projects', summary: 'of every project' },
    ],
    examples: ['keelson list web status=running', 'keelson list -c ns4,user.owner', 'keelson list office: -f json'],
    run: list,
  }),
  defineCommand({
    path: ['info'],
    summary: 'Show what is known of an instance',
    args: [{ name: 'instance', summary: 'name of the instance' }],
    run: (context, parsed) => info(context, parsed.arg('instance')),
  }),
];
