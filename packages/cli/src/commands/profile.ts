import type { Instance, Profile } from '@keelson/client';
import { type Command, defineCommand, keyValues, type Parsed } from '../command.ts';
import type { Context } from '../context.ts';
import { splitRemote } from '../remotes.ts';
import { deviceCommands } from './devices.ts';
import { settingsCommands } from './settings.ts';

async function find(context: Context, word: string): Promise<Profile> {
  const { client, name } = context.target(word);
  return client.profiles.get(name);
}

async function copy(context: Context, parsed: Parsed): Promise<void> {
  const { config, description, devices } = await find(context, parsed.arg('name'));
  const target = context.target(parsed.arg('new-name'));
  await target.client.profiles.create(target.name, { config, description, devices });
}

/** Gives an instance the profiles that `change` makes of its own. */
async function assign(
  context: Context,
  word: string,
  change: (profiles: readonly string[]) => readonly string[],
): Promise<void> {
  const { client, name: instance } = context.target(word);
  const found: Instance = await client.instances.get(instance, { signal: context.signal });
  found.profiles = [...change(found.profiles)];
  await found.save({ wait: true });
}

const instance = { name: 'instance', summary: 'name of the instance' } as const;
const profile = { name: 'profile', summary: 'name of the profile' } as const;

const assignments: readonly Command[] = [
  defineCommand({
    path: ['profile', 'assign'],
    summary: 'Give an instance other profiles',
    args: [instance, { name: 'profiles', summary: 'names in the order they apply, separated by commas; "" for none' }],
    run: (context, parsed) =>
      assign(context, parsed.arg('instance'), () =>
        parsed
          .arg('profiles')
          .split(',')
          .filter((one) => one !== ''),
      ),
  }),
  defineCommand({
    path: ['profile', 'add'],
    summary: 'Give an instance one profile more',
    args: [instance, profile],
    run: (context, parsed) =>
      assign(context, parsed.arg('instance'), (have) => [
        ...have.filter((one) => one !== parsed.arg('profile')),
        parsed.arg('profile'),
      ]),
  }),
  defineCommand({
    path: ['profile', 'remove'],
    summary: 'Take a profile from an instance',
    args: [instance, profile],
    run: (context, parsed) =>
      assign(context, parsed.arg('instance'), (have) => have.filter((one) => one !== parsed.arg('profile'))),
  }),
];

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
          { title: 'USED BY', text: (profile) => String((profile.used_by ?? []).length) },
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
    path: ['profile', 'copy'],
    summary: 'Copy a profile, also to another server',
    args: [name, { name: 'new-name', summary: 'name of the copy' }],
    run: copy,
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
  ...assignments,
  ...settingsCommands({ path: ['profile'], noun: 'profile', writable: ['config', 'description', 'devices'], find }),
  ...deviceCommands({ path: ['profile'], noun: 'profile', find }),
];
