import type { ExecProcess } from '@keelson/client';
import { type Command, defineCommand, keyValues, type Option, type Parsed } from '../command.ts';
import type { Context } from '../context.ts';

const OPTIONS: readonly Option[] = [
  { name: 'env', value: 'key=value', many: true, summary: 'variable of the command' },
  { name: 'cwd', value: 'path', summary: 'folder to run it in' },
  { name: 'user', value: 'uid', summary: 'numeric user' },
  { name: 'group', value: 'gid', summary: 'numeric group' },
  { name: 'terminal', short: 't', summary: 'on a terminal, also when input or output is not one' },
  { name: 'no-terminal', short: 'T', summary: 'without a terminal' },
];

async function run(context: Context, parsed: Parsed, command: readonly string[]): Promise<number> {
  const { client, name } = context.target(parsed.arg('instance'));
  const instance = await client.instances.get(name);
  const [cwd, user, group] = [parsed.value('cwd'), parsed.value('user'), parsed.value('group')];
  const options = {
    environment: {
      ...(process.env['TERM'] === undefined ? {} : { TERM: process.env['TERM'] }),
      ...keyValues(parsed.values('env')),
    },
    ...(cwd === undefined ? {} : { cwd }),
    ...(user === undefined ? {} : { user: Number(user) }),
    ...(group === undefined ? {} : { group: Number(group) }),
  };
  const onTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true;
  if (parsed.flag('terminal') || (onTerminal && !parsed.flag('no-terminal'))) {
    const size = { width: process.stdout.columns ?? 80, height: process.stdout.rows ?? 24 };
    return attach(await instance.shell(command, { ...options, ...size }));
  }
  const stdin = process.stdin.isTTY ? undefined : process.stdin;
  const running = await instance.exec(command, {
    ...options,
    ...(stdin === undefined ? {} : { stdin }),
    signal: context.signal,
  });
  await Promise.all([pipe(running.stdout, process.stdout), pipe(running.stderr, process.stderr)]);
  const code = await running.exited;
  stdin?.destroy();
  return code;
}

async function pipe(source: AsyncIterable<Uint8Array>, target: NodeJS.WriteStream): Promise<void> {
  for await (const chunk of source) {
    if (!target.write(chunk)) await new Promise((resolve) => target.once('drain', resolve));
  }
}

/** Joins this terminal and the guest's until the command ends. */
async function attach(running: ExecProcess): Promise<number> {
  const { stdin, stdout } = process;
  const resize = (): void => running.resize(stdout.columns ?? 80, stdout.rows ?? 24);
  const type = (data: Buffer): void => void running.write(data);
  if (stdin.isTTY) stdin.setRawMode(true);
  stdin.on('data', type);
  stdin.resume();
  stdout.on('resize', resize);
  try {
    await pipe(running.stdout, stdout);
    return await running.exited;
  } finally {
    stdin.off('data', type);
    stdout.off('resize', resize);
    if (stdin.isTTY) stdin.setRawMode(false);
    stdin.pause();
  }
}

export const execCommands: readonly Command[] = [
  defineCommand({
    path: ['exec'],
    summary: 'Run a command in an instance',
    args: [
      { name: 'instance', summary: 'name of the instance' },
      { name: 'command', rest: true, summary: 'command and its arguments' },
    ],
    options: OPTIONS,
    passThrough: true,
    examples: ['keelson exec web -- ls -la /', 'echo hello | keelson exec web -- cat'],
    run: (context, parsed) => {
      const [first, ...rest] = parsed.rest('command');
      return run(context, parsed, first === '--' ? rest : [first ?? '', ...rest]);
    },
  }),
  defineCommand({
    path: ['shell'],
    summary: 'Open a shell in an instance',
    args: [{ name: 'instance', summary: 'name of the instance' }],
    options: OPTIONS,
    run: (context, parsed) => run(context, parsed, ['/bin/sh', '-c', 'exec $(command -v bash || echo sh) -l']),
  }),
];
