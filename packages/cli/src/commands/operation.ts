import type { Operation } from '@keelson/api';
import { type Command, defineCommand } from '../command.ts';
import { when } from '../output/format.ts';
import { splitRemote } from '../remotes.ts';
import { answerOf } from './answer.ts';

const id = { name: 'operation', summary: 'id of the operation' } as const;

export const operationCommands: readonly Command[] = [
  defineCommand({
    path: ['operation', 'list'],
    summary: 'List what the server is doing in the background',
    args: [{ name: 'remote', optional: true, summary: 'remote:' }],
    run: async (context, parsed) => {
      const client = context.clientOf(splitRemote(parsed.maybe('remote') ?? '').remote);
      const scope =
        context.options.project === undefined ? '' : `&project=${encodeURIComponent(context.options.project)}`;
      const found = await answerOf<Record<string, Operation[]> | null>(
        client.request('GET', `/1.0/operations?recursion=1${scope}`),
      );
      context.out.list(
        [
          { title: 'ID', text: (one) => one.id },
          { title: 'TYPE', text: (one) => one.class.toUpperCase() },
          { title: 'DESCRIPTION', text: (one) => one.description },
          { title: 'STATE', text: (one) => one.status.toUpperCase() },
          { title: 'CANCELABLE', text: (one) => (one.may_cancel ? 'YES' : 'NO') },
          { title: 'CREATED', text: (one) => when(one.created_at) },
        ],
        Object.values(found ?? {}).flat(),
      );
    },
  }),
  defineCommand({
    path: ['operation', 'show'],
    summary: 'Show a background operation',
    args: [id],
    run: async (context, parsed) => {
      const { client, name } = context.target(parsed.arg('operation'));
      context.out.record((await client.operations.get(name)).record);
    },
  }),
  defineCommand({
    path: ['operation', 'cancel'],
    summary: 'Cancel a background operation',
    args: [id],
    run: async (context, parsed) => {
      const { client, name } = context.target(parsed.arg('operation'));
      await (await client.operations.get(name)).cancel();
    },
  }),
];
