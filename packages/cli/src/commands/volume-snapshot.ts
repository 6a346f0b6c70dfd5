import { type Command, defineCommand } from '../command.ts';
import { when } from '../output/format.ts';
import { findVolume, pool, volume } from './volume-target.ts';

const snapshot = { name: 'snapshot', summary: 'name of the snapshot' } as const;

export const volumeSnapshotCommands: readonly Command[] = [
  defineCommand({
    path: ['storage', 'volume', 'snapshot', 'create'],
    summary: 'Take a snapshot of a custom volume',
    args: [pool, volume, { ...snapshot, optional: true }],
    run: async (context, parsed) => {
      const name = parsed.maybe('snapshot');
      await (await findVolume(context, parsed.arg('pool'), parsed.arg('volume'))).snapshots.create(
        name === undefined ? {} : { name },
      );
    },
  }),
  defineCommand({
    path: ['storage', 'volume', 'snapshot', 'list'],
    summary: 'List the snapshots of a volume',
    args: [pool, volume],
    run: async (context, parsed) => {
      const found = await (await findVolume(context, parsed.arg('pool'), parsed.arg('volume'))).snapshots.all();
      context.out.list(
        [
          { title: 'NAME', text: (one) => one.name.split('/').at(-1) ?? one.name },
          { title: 'TAKEN', text: (one) => when(one.created_at) },
          { title: 'EXPIRES', text: (one) => when(one.expires_at ?? '') },
        ],
        found,
      );
    },
  }),
  defineCommand({
    path: ['storage', 'volume', 'snapshot', 'restore'],
    summary: 'Bring a volume back to a snapshot',
    args: [pool, volume, snapshot],
    run: async (context, parsed) =>
      (await findVolume(context, parsed.arg('pool'), parsed.arg('volume'))).restore(parsed.arg('snapshot')),
  }),
  defineCommand({
    path: ['storage', 'volume', 'snapshot', 'delete'],
    summary: 'Delete a snapshot of a volume',
    args: [pool, volume, snapshot],
    run: async (context, parsed) =>
      (await findVolume(context, parsed.arg('pool'), parsed.arg('volume'))).snapshots.delete(parsed.arg('snapshot')),
  }),
];
