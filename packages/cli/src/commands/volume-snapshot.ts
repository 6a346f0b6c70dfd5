import { type Command, defineCommand, type Parsed, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import { when } from '../output/format.ts';
import { NEVER, timeOf } from './times.ts';
import { findVolume, pool, volume } from './volume-target.ts';

const snapshot = { name: 'snapshot', summary: 'name of the snapshot' } as const;

async function create(context: Context, parsed: Parsed): Promise<void> {
  const name = parsed.maybe('snapshot');
  const found = await findVolume(context, parsed.arg('pool'), parsed.arg('volume'));
  const expires = parsed.flag('no-expiry') ? NEVER : parsed.value('expires');
  if (parsed.flag('reuse')) {
    if (name === undefined) throw new UsageError('Name the snapshot to put another in the place of');
    const known = (await found.snapshots.all()).some((one) => one.name.split('/').at(-1) === name);
    if (known) await found.snapshots.delete(name);
  }
  const label = `Taking a snapshot of ${found.name}`;
  context.out.progress(`${label} …`);
  await found.snapshots.create(
    { ...(name === undefined ? {} : { name }), ...(expires === undefined ? {} : { expires_at: timeOf(expires) }) },
    { signal: context.signal, onProgress: context.out.operation(label) },
  );
  context.out.clearProgress();
}

export const volumeSnapshotCommands: readonly Command[] = [
  defineCommand({
    path: ['storage', 'volume', 'snapshot', 'create'],
    summary: 'Take a snapshot of a custom volume',
    args: [pool, volume, { ...snapshot, optional: true }],
    options: [
      { name: 'no-expiry', summary: 'keep it whatever the volume says' },
      { name: 'expires', value: 'time', summary: 'when it goes by itself: 2027-01-31T12:00:00Z' },
      { name: 'reuse', summary: 'in the place of one of that name' },
    ],
    run: create,
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
  defineCommand({
    path: ['storage', 'volume', 'snapshot', 'show'],
    summary: 'Show a snapshot of a volume',
    args: [pool, volume, snapshot],
    run: async (context, parsed) => {
      const found = await findVolume(context, parsed.arg('pool'), parsed.arg('volume'));
      context.out.record(await found.snapshots.get(parsed.arg('snapshot')));
    },
  }),
  defineCommand({
    path: ['storage', 'volume', 'snapshot', 'rename'],
    summary: 'Rename a snapshot of a volume',
    args: [pool, volume, snapshot, { name: 'new-name', summary: 'its new name' }],
    run: async (context, parsed) =>
      (await findVolume(context, parsed.arg('pool'), parsed.arg('volume'))).snapshots.rename(
        parsed.arg('snapshot'),
        parsed.arg('new-name'),
      ),
  }),
  defineCommand({
    path: ['storage', 'volume', 'snapshot', 'set'],
    summary: 'Change the description of a snapshot, or when it goes by itself',
    args: [pool, volume, snapshot],
    options: [
      { name: 'description', value: 'text', summary: 'what it is for' },
      { name: 'expires', value: 'time', summary: '2027-01-31T12:00:00Z, or never' },
    ],
    examples: ['keelson storage volume snapshot set default data before-upgrade --expires never'],
    run: async (context, parsed) => {
      const [description, expires] = [parsed.value('description'), parsed.value('expires')];
      if (description === undefined && expires === undefined) throw new UsageError('Give --description or --expires');
      const found = await findVolume(context, parsed.arg('pool'), parsed.arg('volume'));
      await found.snapshots.update(parsed.arg('snapshot'), {
        ...(description === undefined ? {} : { description }),
        ...(expires === undefined ? {} : { expires_at: timeOf(expires) }),
      });
    },
  }),
];
