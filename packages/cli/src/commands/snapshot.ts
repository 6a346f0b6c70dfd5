import { type Command, defineCommand, type Parsed, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import type { Instance } from '@keelson/client';
import { when } from '../output/format.ts';
import { NEVER, timeOf } from './times.ts';

const instance = { name: 'instance', summary: 'name of the instance' } as const;
const snapshot = { name: 'snapshot', summary: 'name of the snapshot' } as const;

async function find(context: Context, word: string): Promise<Instance> {
  const { client, name } = context.target(word);
  return client.instances.get(name);
}

async function create(context: Context, parsed: Parsed): Promise<void> {
  const { signal } = context;
  const found = await find(context, parsed.arg('instance'));
  const name = parsed.maybe('snapshot');
  const expires = parsed.flag('no-expiry') ? NEVER : parsed.value('expires');
  if (parsed.flag('reuse')) {
    if (name === undefined) throw new UsageError('Name the snapshot to put another in the place of');
    if (await found.snapshots.exists(name, { signal })) await (await found.snapshots.get(name, { signal })).delete();
  }
  const label = `Taking a snapshot of ${found.name}`;
  context.out.progress(`${label} …`);
  const definition = {
    ...(name === undefined ? {} : { name }),
    ...(expires === undefined ? {} : { expires_at: timeOf(expires) }),
    ...(parsed.flag('stateful') ? { stateful: true } : {}),
  };
  const made = await found.snapshots.create(definition, { signal, onProgress: context.out.operation(label) });
  if (name === undefined) context.out.line(made.name);
}

export const snapshotCommands: readonly Command[] = [
  defineCommand({
    path: ['snapshot', 'create'],
    summary: 'Take a snapshot of an instance',
    args: [instance, { ...snapshot, optional: true, summary: 'name of the snapshot; the server picks one without' }],
    options: [
      { name: 'no-expiry', summary: 'keep it whatever the instance says' },
      { name: 'expires', value: 'time', summary: 'when it goes by itself: 2027-01-31T12:00:00Z' },
      { name: 'reuse', summary: 'in the place of one of that name' },
      { name: 'stateful', summary: 'with the memory of the running instance, where the server can' },
    ],
    run: create,
  }),
  defineCommand({
    path: ['snapshot', 'list'],
    summary: 'List the snapshots of an instance',
    args: [instance],
    run: async (context, parsed) => {
      const found = await (await find(context, parsed.arg('instance'))).snapshots.all({ recursion: 1 });
      context.out.list(
        [
          { title: 'NAME', text: (one) => one.name },
          { title: 'TAKEN', text: (one) => when(one.created_at) },
          { title: 'EXPIRES', text: (one) => when(one.expires_at) },
        ],
        found,
      );
    },
  }),
  defineCommand({
    path: ['snapshot', 'restore'],
    summary: 'Bring an instance back to a snapshot',
    args: [instance, snapshot],
    run: async (context, parsed) => {
      const found = await find(context, parsed.arg('instance'));
      await (await found.snapshots.get(parsed.arg('snapshot'))).restore({ wait: true, signal: context.signal });
    },
  }),
  defineCommand({
    path: ['snapshot', 'rename'],
    summary: 'Rename a snapshot',
    args: [instance, snapshot, { name: 'name', summary: 'its new name' }],
    run: async (context, parsed) => {
      const found = await find(context, parsed.arg('instance'));
      await (await found.snapshots.get(parsed.arg('snapshot'))).rename(parsed.arg('name'));
    },
  }),
  defineCommand({
    path: ['snapshot', 'delete'],
    summary: 'Delete a snapshot',
    args: [instance, snapshot],
    run: async (context, parsed) => {
      const found = await find(context, parsed.arg('instance'));
      await (await found.snapshots.get(parsed.arg('snapshot'))).delete();
    },
  }),
];
