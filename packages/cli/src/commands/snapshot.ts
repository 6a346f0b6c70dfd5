import { type Command, defineCommand } from '../command.ts';
import { saveBackup } from './backup-file.ts';
import type { Context } from '../context.ts';
import { openInput } from '../input.ts';
import type { Instance } from '@keelson/client';
import { when } from '../output/format.ts';

const instance = { name: 'instance', summary: 'name of the instance' } as const;
const snapshot = { name: 'snapshot', summary: 'name of the snapshot' } as const;

async function find(context: Context, word: string): Promise<Instance> {
  const { client, name } = context.target(word);
  return client.instances.get(name);
}

export const snapshotCommands: readonly Command[] = [
  defineCommand({
    path: ['snapshot', 'create'],
    summary: 'Take a snapshot of an instance',
    args: [instance, snapshot],
    run: async (context, parsed) => {
      await (await find(context, parsed.arg('instance'))).snapshots.create(parsed.arg('snapshot'), {
        signal: context.signal,
      });
    },
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
  defineCommand({
    path: ['publish'],
    summary: 'Make an image of a stopped instance or a snapshot',
    args: [{ name: 'source', summary: 'instance or instance/snapshot' }],
    options: [
      { name: 'alias', value: 'name', many: true, summary: 'alias to give the image' },
      { name: 'public', summary: 'let everybody use it' },
    ],
    run: async (context, parsed) => {
      const [name = '', part] = parsed.arg('source').split('/');
      const found = await find(context, name);
      const options = { wait: true, public: parsed.flag('public'), signal: context.signal };
      context.out.progress(`Publishing ${parsed.arg('source')} …`);
      const made =
        part === undefined ? await found.publish(options) : await (await found.snapshots.get(part)).publish(options);
      for (const alias of parsed.values('alias')) await made?.addAlias(alias);
      context.out.line(made?.fingerprint ?? '');
    },
  }),
  defineCommand({
    path: ['export'],
    summary: 'Back an instance up into a file',
    args: [instance, { name: 'file', summary: 'where to' }],
    options: [
      { name: 'instance-only', summary: 'without snapshots' },
      { name: 'optimized-storage', summary: "in the driver's own format, for a pool of the same kind" },
      { name: 'compression', value: 'algorithm', summary: 'gzip, zstd, xz, … or none' },
    ],
    run: async (context, parsed) => {
      const found = await find(context, parsed.arg('instance'));
      const compression = parsed.value('compression');
      const make = {
        instance_only: parsed.flag('instance-only'),
        optimized_storage: parsed.flag('optimized-storage'),
        ...(compression === undefined ? {} : { compression_algorithm: compression }),
      };
      await saveBackup(context, found, parsed.arg('file'), (name) =>
        found.backups.create({ name, ...make }, { signal: context.signal }),
      );
    },
  }),
  defineCommand({
    path: ['import'],
    summary: 'Make an instance from a backup file',
    args: [
      { name: 'file', summary: 'backup to read' },
      { name: 'name', optional: true, summary: 'name of the instance; default: as in the backup' },
    ],
    options: [{ name: 'storage', short: 's', value: 'pool', summary: 'pool to put it in' }],
    run: async (context, parsed) => {
      const [name, pool] = [parsed.maybe('name'), parsed.value('storage')];
      const made = await context.client.instances.import(await openInput(parsed.arg('file')), {
        ...(name === undefined ? {} : { name }),
        ...(pool === undefined ? {} : { pool }),
        signal: context.signal,
      });
      context.out.line(made.name);
    },
  }),
];
