import type { Project } from '@keelson/client';
import { type Command, defineCommand, keyValues } from '../command.ts';
import type { Context } from '../context.ts';
import { splitRemote } from '../remotes.ts';
import { settingsCommands } from './settings.ts';

async function find(context: Context, word: string): Promise<Project> {
  const { client, name } = context.target(word);
  return client.projects.get(name);
}

const name = { name: 'name', summary: 'name of the project' } as const;

export const projectCommands: readonly Command[] = [
  defineCommand({
    path: ['project', 'list'],
    summary: 'List projects',
    args: [{ name: 'remote', optional: true, summary: 'remote:' }],
    run: async (context, parsed) => {
      const client = context.clientOf(splitRemote(parsed.maybe('remote') ?? '').remote);
      context.out.list(
        [
          { title: 'NAME', text: (project) => project.name },
          { title: 'DESCRIPTION', text: (project) => project.description },
          { title: 'USED BY', text: (project) => String((project.used_by ?? []).length) },
        ],
        await client.projects.all({ recursion: 1 }),
      );
    },
  }),
  defineCommand({
    path: ['project', 'create'],
    summary: 'Create a project',
    args: [name, { name: 'settings', rest: true, optional: true, summary: 'key=value' }],
    run: async (context, parsed) => {
      const target = context.target(parsed.arg('name'));
      await target.client.projects.create(target.name, { config: keyValues(parsed.rest('settings')) });
    },
  }),
  defineCommand({
    path: ['project', 'rename'],
    summary: 'Rename an empty project',
    args: [name, { name: 'new-name', summary: 'its new name' }],
    run: async (context, parsed) => (await find(context, parsed.arg('name'))).rename(parsed.arg('new-name')),
  }),
  defineCommand({
    path: ['project', 'delete'],
    summary: 'Delete an empty project',
    args: [name],
    run: async (context, parsed) => (await find(context, parsed.arg('name'))).delete(),
  }),
  ...settingsCommands({ path: ['project'], noun: 'project', writable: ['config', 'description'], find }),
];
