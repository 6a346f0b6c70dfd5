import type { Instance, StateOptions } from '@keelson/client';
import { type Command, defineCommand, type Parsed, UsageError } from '../command.ts';
import { type Context, sameServer, type Target } from '../context.ts';

/** Does one thing to each named instance, all at once; the first failure is thrown after all ended. */
async function each(
  context: Context,
  words: readonly string[],
  act: (instance: Instance) => Promise<unknown>,
): Promise<void> {
  const results = await Promise.allSettled(
    words.map(async (word) => {
      const { client, name } = context.target(word);
      await act(await client.instances.get(name, { signal: context.signal }));
    }),
  );
  const failed = results.filter((result) => result.status === 'rejected');
  if (failed.length === 0) return;
  throw failed.length === 1 ? failed[0]?.reason : new AggregateError(failed.map(({ reason }) => reason as Error));
}

/** @throws UsageError */
function timeoutOf(parsed: Parsed): { timeout?: number } {
  const text = parsed.value('timeout');
  if (text === undefined) return {};
  if (!/^-?\d+$/.test(text)) throw new UsageError(`--timeout takes whole seconds, not "${text}"`);
  return { timeout: Number(text) };
}

const names = [{ name: 'instance', rest: true, summary: 'names of instances' }] as const;

function stateCommand(
  verb: string,
  summary: string,
  act: (instance: Instance, options: StateOptions) => Promise<void>,
): Command {
  const options = [
    { name: 'force', short: 'f', summary: 'do not ask the guest: act at once' },
    { name: 'timeout', value: 'seconds', summary: 'how long the guest gets; default: as long as it needs' },
  ];
  return defineCommand({
    path: [verb],
    summary,
    args: names,
    options: verb === 'stop' || verb === 'restart' ? options : [],
    run: (context, parsed) => {
      const how: StateOptions = { force: parsed.flag('force'), signal: context.signal, ...timeoutOf(parsed) };
      context.out.progress(`${verb} ${parsed.rest('instance').join(', ')} …`);
      return each(context, parsed.rest('instance'), (instance) => act(instance, how));
    },
  });
}

async function remove(context: Context, words: readonly string[], force: boolean): Promise<void> {
  await each(context, words, async (instance) => {
    if (instance.status !== 'Stopped') {
      if (!force) throw new UsageError(`Instance "${instance.name}" is running; stop it first, or use --force`);
      await instance.stop({ force: true });
      if (instance.ephemeral) return;
    }
    context.out.progress(`Deleting ${instance.name} …`);
    await instance.delete({ signal: context.signal });
  });
}

async function rename(context: Context, parsed: Parsed): Promise<void> {
  const from = context.target(parsed.arg('instance'));
  const to = nameOn(context, from, parsed.arg('name'));
  await (await from.client.instances.get(from.name, { signal: context.signal })).rename(to, { signal: context.signal });
}

/** The name in `word`, which must be on the same server. @throws UsageError */
function nameOn(context: Context, from: Target, word: string): string {
  const to = context.target(word);
  if (to.remote !== '' && !sameServer(from, to))
    throw new UsageError(`"${word}" is on another server: use "keelson move"`);
  return to.name;
}

export const instanceCommands: readonly Command[] = [
  stateCommand('start', 'Start instances', (instance, options) => instance.start(options)),
  stateCommand('stop', 'Stop instances', (instance, options) => instance.stop(options)),
  stateCommand('restart', 'Restart instances', (instance, options) => instance.restart(options)),
  stateCommand('pause', 'Freeze the processes of instances', (instance, options) => instance.freeze(options)),
  stateCommand('resume', 'Let frozen instances go on', (instance, options) => instance.unfreeze(options)),
  defineCommand({
    path: ['delete'],
    summary: 'Delete instances and their snapshots',
    args: names,
    options: [{ name: 'force', short: 'f', summary: 'stop running ones first' }],
    run: (context, parsed) => remove(context, parsed.rest('instance'), parsed.flag('force')),
  }),
  defineCommand({
    path: ['rename'],
    summary: 'Rename a stopped instance',
    args: [
      { name: 'instance', summary: 'name of the instance' },
      { name: 'name', summary: 'its new name' },
    ],
    run: rename,
  }),
];
