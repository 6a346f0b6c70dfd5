import { type Command, defineCommand, keyValues, type Parsed, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import { edited } from './editing.ts';

type StringMap = Record<string, string>;

/** An object with settings that can be read and written. */
export interface Configurable {
  readonly record: Readonly<Record<string, unknown>>;
  config: StringMap;
  save(): Promise<void>;
  put(body: object): Promise<void>;
}

/** What `set`, `get`, `unset`, `show` and `edit` of a noun work on. */
export interface SettingsOptions {
  /** Words before the verb, for example `['storage']`. */
  readonly path: readonly [string, ...string[]];
  /** How messages call it: `storage pool`. */
  readonly noun: string;
  readonly writable: readonly string[];
  find(context: Context, word: string): Promise<Configurable>;
}

/** The five commands on the settings of a noun. */
export function settingsCommands(options: SettingsOptions): Command[] {
  const { path, noun, writable, find } = options;
  const name = { name: 'name', summary: `name of the ${noun}` };
  const key = { name: 'key', summary: 'name of the setting' };
  return [
    defineCommand({
      path: [...path, 'get'],
      summary: `Show one setting of a ${noun}`,
      args: [name, key],
      run: async (context, parsed) =>
        context.out.line((await find(context, parsed.arg('name'))).config[parsed.arg('key')] ?? ''),
    }),
    defineCommand({
      path: [...path, 'set'],
      summary: `Change settings of a ${noun}`,
      args: [name, { name: 'settings', rest: true, summary: 'key=value, or one key and one value' }],
      examples: [`keelson ${path.join(' ')} set NAME key=value`],
      run: async (context, parsed) => {
        const object = await find(context, parsed.arg('name'));
        object.config = { ...object.config, ...settingsOf(parsed) };
        await object.save();
      },
    }),
    defineCommand({
      path: [...path, 'unset'],
      summary: `Remove a setting of a ${noun}`,
      args: [name, key],
      run: async (context, parsed) => {
        const object = await find(context, parsed.arg('name'));
        const { [parsed.arg('key')]: _gone, ...rest } = object.config;
        object.config = rest;
        await object.save();
      },
    }),
    defineCommand({
      path: [...path, 'show'],
      summary: `Show a ${noun}`,
      args: [name],
      run: async (context, parsed) => context.out.record((await find(context, parsed.arg('name'))).record),
    }),
    defineCommand({
      path: [...path, 'edit'],
      summary: `Edit a ${noun} as YAML, in $EDITOR or from standard input`,
      args: [name],
      run: async (context, parsed) => {
        const object = await find(context, parsed.arg('name'));
        const body = await edited(Object.fromEntries(writable.map((field) => [field, object.record[field]])));
        if (body !== undefined) await object.put(body);
      },
    }),
  ];
}

function settingsOf(parsed: Parsed): StringMap {
  const words = parsed.rest('settings');
  const [first, second] = words;
  if (words.length === 2 && first !== undefined && second !== undefined && !first.includes('='))
    return { [first]: second };
  if (words.length === 0) throw new UsageError('Name at least one key=value');
  return keyValues(words);
}
