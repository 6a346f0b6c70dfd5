import type { Instance } from '@keelson/client';
import type { Command } from '../command.ts';
import type { Context } from '../context.ts';
import { deviceCommands } from './devices.ts';
import { settingsCommands } from './settings.ts';

const WRITABLE = ['architecture', 'config', 'description', 'devices', 'ephemeral', 'profiles'] as const;

async function find(context: Context, word: string): Promise<Instance> {
  const { client, name } = context.target(word);
  return client.instances.get(name, { signal: context.signal });
}

export const configCommands: readonly Command[] = [
  ...settingsCommands({ path: ['config'], noun: 'instance', writable: WRITABLE, find }),
  ...deviceCommands({ path: ['config'], noun: 'instance', find }),
];
