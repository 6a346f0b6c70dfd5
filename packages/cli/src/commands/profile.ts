import type { Profile } from '@keelson/client';
import { type Command, defineCommand, keyValues } from '../command.ts';
import type { Context } from '../context.ts';
import { splitRemote } from '../remotes.ts';
import { deviceCommands } from './devices.ts';
import { settingsCommands } from './settings.ts';

async function find(context: Context, word: string): Promise<Profile> {
  const { client, name } = context.target(word);
  return client.profiles.get(name);
}

const name = { name: 'name', summary: 'name of the profile' } as const;

export const profileCommands: readonly Command[] = [
  defineCommand({
    path: ['profile', 'list'],
    summary: 'List profiles',
    args: [{ name: 'remote', optional: true, summary: 'remote:' }],
    run: async (context, parsed) => {
      const client = context.clientOf(splitRemote(parsed.maybe('remote') ?? '').remote);
      const profiles = await client.profiles.all({ recursion: 1 });
      context.out.list(
        [
          { title: 'NAME', text: (profile) => profile.name },
          { title: 'DESCRIPTION', text: (profile) => profile.description },
          { title: 'USED BY', text: (profile) => String(profile.used_by.length) },
        ],
        profiles,
      );
    },
  }),
  defineCommand({
    path: ['profile', 'create'],
    summary: 'Create a profile',
    args: [name, { name: 'settings', rest: true, optional: true, summary: 'key=value' }],
    run: async (context, parsed) => {
      const target = context.target(parsed.arg('name'));
      await target.client.profiles.create(target.name, { config: keyValues(parsed.rest('settings')) });
    },
  }),
  defineCommand({
    path: ['profile', 'rename'],
    summary: 'Rename a profile; instances follow',
    args: [name, { name: 'new-name', summary: 'its new name' }],
    run: async (context, parsed) => (await find(context, parsed.arg('name'))).rename(parsed.arg('new-name')),
  }),
  defineCommand({
    path: ['profile', 'delete'],
    summary: 'Delete a profile that nothing uses',
    args: [name],
    run: async (context, parsed) => (await find(context, parsed.arg('name'))).delete(),
  }),
  ...settingsCommands({ path: ['profile'], noun: 'profile', writable: ['config', 'description', 'devices'], find }),
  ...deviceCommands({ path: ['profile'], noun: 'profile', find }),
];
