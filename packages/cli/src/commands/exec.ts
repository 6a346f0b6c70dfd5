import { APIException, type ExecProcess } from '@keelson/client';
import { once } from 'node:events';
import { type Command, defineCommand, ExitError, keyValues, type Option, type Parsed, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import { attach, terminalSize } from '../output/terminal.ts';

const OPTIONS: readonly Option[] = [
  { name: 'env', value: 'key=value', many: true, summary: 'variable of the command' },
  { name: 'cwd', value: 'path', summary: 'folder to run it in' },
  { name: 'user', value: 'uid', summary: 'numeric user' },
  { name: 'group', value: 'gid', summary: 'numeric group' },
  { name: 'terminal', short: 't', summary: 'on a terminal, also when input or output is not one' },
  { name: 'no-terminal', short: 'T', summary: 'without a terminal' },
];

const SIGINT = 2;
const SIGTERM = 15;

function idOf(parsed: Parsed, name: 'user' | 'group'): number | undefined {
  const text = parsed.value(name);
  if (text === undefined) return undefined;
  if (!/^\d+$/.test(text)) throw new UsageError(`--${name} takes a number, not "${text}"`);
  return Number(text);
}

async function run(context: Context, parsed: Parsed, command: readonly string[]): Promise<number> {
  const { client, name } = context.target(parsed.arg('instance'));
  const instance = await client.instances.get(name, { signal: context.signal });
  const [cwd, user, group] = [parsed.value('cwd'), idOf(parsed, 'user'), idOf(parsed, 'group')];
  const onTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true;
  const interactive = parsed.flag('terminal') || (onTerminal && !parsed.flag('no-terminal'));
  const term = interactive ? process.env['TERM'] : undefined;
  const options = {
    environment: { ...(term === undefined ? {} : { TERM: term }), ...keyValues(parsed.values('env')) },
    ...(cwd === undefined ? {} : { cwd }),
    ...(user === undefined ? {} : { user }),
    ...(group === undefined ? {} : { group }),
  };
  try {
    if (interactive) return await attach(await instance.shell(command, { ...options, ...terminalSize() }));
    return await piped(await instance.exec(command, { ...options, stdin: process.stdin }), context.signal);
  } catch (error) {
    throw cannotRun(error, command[0] ?? '', name) ?? error;
  }
}

/** A command that the guest cannot run, with the exit code that a shell gives it; undefined for other failures. */
function cannotRun(error: unknown, command: string, instance: string): ExitError | undefined {
  if (!(error instanceof APIException)) return undefined;
  const where = `instance "${instance}"`;
  if (error.message.startsWith('Command not found'))
    return new ExitError(`There is no command "${command}" in ${where}`, 127);
  if (!error.message.startsWith('Command not executable')) return undefined;
  return new ExitError(`"${command}" cannot be executed in ${where}`, 126);
}

/** Copies the streams until the command ends. Ctrl-C and a request to end are the command's to answer. */
async function piped(running: ExecProcess, interrupted: AbortSignal): Promise<number> {
  const interrupt = (): void => running.kill(SIGINT);
  const terminate = (): void => running.kill(SIGTERM);
  interrupted.addEventListener('abort', interrupt, { once: true });
  if (interrupted.aborted) interrupt();
  process.once('SIGTERM', terminate);
  try {
    await Promise.all([copy(running.stdout, process.stdout), copy(running.stderr, process.stderr)]);
    return await running.exited;
  } finally {
    interrupted.removeEventListener('abort', interrupt);
    process.off('SIGTERM', terminate);
    process.stdin.destroy();
  }
}

/** What comes once nobody reads the target any more is read and dropped, so that the command never hangs. */
async function copy(source: AsyncIterable<Uint8Array>, target: NodeJS.WriteStream): Promise<void> {
  let gone = false;
  const leave = (): void => {
    gone = true;
  };
  target.once('error', leave);
  for await (const chunk of source) {
    if (gone || target.write(chunk)) continue;
    const next = new AbortController();
    const { signal } = next;
    await Promise.race([once(target, 'drain', { signal }), once(target, 'close', { signal })]).catch(leave);
    next.abort();
  }
  target.off('error', leave);
}

export const execCommands: readonly Command[] = [
  defineCommand({
    path: ['exec'],
    summary: 'Run a command in an instance',
    args: [
      { name: 'instance', summary: 'name of the instance' },
      { name: 'command', rest: true, summary: 'command and its arguments; options for keelson come before it' },
    ],
    options: OPTIONS,
    passThrough: true,
    examples: [
      'keelson exec web -- ls -la /',
      'echo hello | keelson exec web -- cat',
      'keelson exec web --user 1000 id',
    ],
    run: (context, parsed) => run(context, parsed, parsed.rest('command')),
  }),
  defineCommand({
    path: ['shell'],
    summary: 'Open a shell in an instance',
    args: [{ name: 'instance', summary: 'name of the instance' }],
    options: OPTIONS,
    run: (context, parsed) => run(context, parsed, ['/bin/sh', '-c', 'exec $(command -v bash || echo sh) -l']),
  }),
];
