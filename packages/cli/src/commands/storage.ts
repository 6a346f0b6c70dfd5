import type { StoragePool } from '@keelson/client';
import { type Command, defineCommand, keyValues } from '../command.ts';
import type { Context } from '../context.ts';
import { bytes } from '../output/format.ts';
import { splitRemote } from '../remotes.ts';
import { settingsCommands } from './settings.ts';

async function find(context: Context, word: string): Promise<StoragePool> {
  const { client, name } = context.target(word);
  return client.storagePools.get(name);
}

const pool = { name: 'pool', summary: 'name of the pool' } as const;

export const storageCommands: readonly Command[] = [
  defineCommand({
    path: ['storage', 'list'],
    summary: 'List storage pools',
    args: [{ name: 'remote', optional: true, summary: 'remote:' }],
    run: async (context, parsed) => {
      const client = context.clientOf(splitRemote(parsed.maybe('remote') ?? '').remote);
      context.out.list(
        [
          { title: 'NAME', text: (one) => one.name },
          { title: 'DRIVER', text: (one) => one.driver },
          { title: 'SOURCE', text: (one) => one.config['source'] ?? '' },
          { title: 'DESCRIPTION', text: (one) => one.description },
          { title: 'USED BY', text: (one) => String(one.used_by?.length ?? 0) },
          { title: 'STATE', text: (one) => one.status.toUpperCase() },
        ],
        await client.storagePools.all({ recursion: 1 }),
      );
    },
  }),
  defineCommand({
    path: ['storage', 'create'],
    summary: 'Create a storage pool',
    args: [
      pool,
      { name: 'driver', summary: 'dir, btrfs, …' },
      { name: 'settings', rest: true, optional: true, summary: 'key=value' },
    ],
    examples: ['keelson storage create fast btrfs size=20GiB', 'keelson storage create plain dir source=/srv/pool'],
    run: async (context, parsed) => {
      const { client, name } = context.target(parsed.arg('pool'));
      await client.storagePools.create({
        name,
        driver: parsed.arg('driver'),
        config: keyValues(parsed.rest('settings')),
      });
    },
  }),
  defineCommand({
    path: ['storage', 'delete'],
    summary: 'Delete a pool that nothing uses',
    args: [pool],
    run: async (context, parsed) => (await find(context, parsed.arg('pool'))).delete(),
  }),
  defineCommand({
    path: ['storage', 'info'],
    summary: 'Show space and inodes of a pool, and what uses it',
    args: [pool],
    options: [{ name: 'bytes', summary: 'space in bytes' }],
    run: async (context, parsed) => {
      const found = await find(context, parsed.arg('pool'));
      const { space, inodes } = await found.resources.get();
      const size = (value = 0): string | number => (parsed.flag('bytes') ? value : bytes(value));
      context.out.record({
        name: found.name,
        driver: found.driver,
        status: found.status,
        description: found.description,
        space: { used: size(space?.used), total: size(space?.total) },
        inodes: { used: inodes?.used ?? 0, total: inodes?.total ?? 0 },
        'used by': found.used_by,
      });
    },
  }),
  defineCommand({
    path: ['storage', 'show'],
    summary: 'Show a storage pool',
    args: [pool],
    options: [{ name: 'resources', summary: 'its space and inodes in place of its settings' }],
    run: async (context, parsed) => {
      const found = await find(context, parsed.arg('pool'));
      context.out.record(parsed.flag('resources') ? await found.resources.get() : found.record);
    },
  }),
  ...settingsCommands({
    path: ['storage'],
    noun: 'storage pool',
    writable: ['config', 'description'],
    find,
  }).filter(({ path }) => path.at(-1) !== 'show'),
];
