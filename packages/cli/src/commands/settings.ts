import { type Command, defineCommand, keyValues, type Parsed, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import { edited } from './editing.ts';

type StringMap = Record<string, string>;

/** An object with settings that can be read and written. */
export interface Configurable {
  readonly record: Readonly<Record<string, unknown>>;
  config: StringMap;
  save(options: { readonly wait: boolean }): Promise<void>;
  put(body: object, options: { readonly wait: boolean }): Promise<void>;
}

/** What `set`, `get`, `unset`, `show` and `edit` of a noun work on. */
export interface SettingsOptions {
  /** Words before the verb, for example `['storage']`. */
  readonly path: readonly [string, ...string[]];
  /** How messages call it: `storage pool`. */
  readonly noun: string;
  readonly writable: readonly string[];
  /** There is one of it on a server: commands take no name, only `--remote`. */
  readonly single?: boolean;
  find(context: Context, word: string): Promise<Configurable>;
}

/** The five commands on the settings of a noun. */
export function settingsCommands(options: SettingsOptions): Command[] {
  const { path, noun, writable, find } = options;
  const names = options.single ? [] : [{ name: 'name', summary: `name of the ${noun}` }];
  const remote = options.single ? [{ name: 'remote', value: 'name', summary: 'server to talk to' }] : [];
  const found = (context: Context, parsed: Parsed): Promise<Configurable> =>
    find(context, options.single ? `${parsed.value('remote') ?? ''}:` : parsed.arg('name'));
  const key = { name: 'key', summary: 'name of the setting' };
  return [
    defineCommand({
      path: [...path, 'get'],
      options: remote,
      summary: `Show one setting of a ${noun}`,
      args: [...names, key],
      run: async (context, parsed) => context.out.line((await found(context, parsed)).config[parsed.arg('key')] ?? ''),
    }),
    defineCommand({
      path: [...path, 'set'],
      options: remote,
      summary: `Change settings of a ${noun}`,
      args: [...names, { name: 'settings', rest: true, summary: 'key=value, or one key and one value' }],
      examples: [`keelson ${path.join(' ')} set ${options.single ? '' : 'NAME '}key=value`],
      run: async (context, parsed) => {
        const object = await found(context, parsed);
        object.config = { ...object.config, ...settingsOf(parsed) };
        await object.save({ wait: true });
      },
    }),
    defineCommand({
      path: [...path, 'unset'],
      options: remote,
      summary: `Remove a setting of a ${noun}`,
      args: [...names, key],
      run: async (context, parsed) => {
        const object = await found(context, parsed);
        const { [parsed.arg('key')]: _gone, ...rest } = object.config;
        object.config = rest;
        await object.save({ wait: true });
      },
    }),
    defineCommand({
      path: [...path, 'show'],
      options: remote,
      summary: `Show a ${noun}`,
      args: names,
      run: async (context, parsed) => context.out.record((await found(context, parsed)).record),
    }),
    defineCommand({
      path: [...path, 'edit'],
      options: remote,
      summary: `Edit a ${noun} as YAML, in $EDITOR or from standard input`,
      args: names,
      run: async (context, parsed) => {
        const object = await found(context, parsed);
        const body = await edited(Object.fromEntries(writable.map((field) => [field, object.record[field]])));
        if (body !== undefined) await object.put(body, { wait: true });
      },
    }),
  ];
}

/** `key=value` words, or one key and its value. @throws UsageError */
export function settingsOf(parsed: Parsed): StringMap {
  const words = parsed.rest('settings');
  const [first, second] = words;
  if (words.length === 2 && first !== undefined && second !== undefined && !first.includes('='))
    return { [first]: second };
  if (words.length === 0) throw new UsageError('Name at least one key=value');
  return keyValues(words);
}
