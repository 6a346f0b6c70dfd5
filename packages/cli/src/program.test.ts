import { PassThrough } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { type Command, type Parsed, UsageError } from './command.ts';
import type { Context } from './context.ts';
import { buildProgram } from './program.ts';

interface Ran {
  readonly code: number | undefined;
  readonly out: string;
  readonly err: string;
  readonly parsed: Parsed;
  readonly context: Context;
}

/** Runs one command line over commands of the test. */
async function run(command: Pick<Command, 'path'> & Partial<Command>, ...argv: string[]): Promise<Ran> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const seen: { parsed?: Parsed; context?: Context; code?: number } = {};
  const program = buildProgram({
    commands: [
      {
        summary: 'Try',
        run: async (context, parsed) => {
          seen.context = context;
          seen.parsed = parsed;
        },
        ...command,
      },
    ],
    version: '1.2.3',
    stdout,
    stderr,
    onExit: (code) => (seen.code = code),
    signal: new AbortController().signal,
  });
  await program.parseAsync(argv, { from: 'user' });
  const { parsed, context, code } = seen;
  if (parsed === undefined || context === undefined) throw new Error('the command did not run');
  return { parsed, context, code, out: String(stdout.read() ?? ''), err: String(stderr.read() ?? '') };
}

const many = { name: 'config', short: 'c', value: 'key=value', many: true, summary: 'x' };

describe('options', () => {
  test('switches, values, repeated ones, names with dashes', async () => {
    const options = [
      many,
      { name: 'trust-all', summary: 'x' },
      { name: 'target-project', value: 'name', summary: 'x' },
      { name: 'absent', summary: 'x' },
    ];
    const words = ['try', '-c', 'a=1', '--config', 'b=2', '--trust-all', '--target-project', 'p'];
    const { parsed } = await run({ path: ['try'], options }, ...words);
    expect(parsed.values('config')).toEqual(['a=1', 'b=2']);
    expect(parsed.flag('trust-all')).toBe(true);
    expect(parsed.flag('absent')).toBe(false);
    expect(parsed.value('target-project')).toBe('p');
  });

  test('options that begin with no-', async () => {
    const options = [
      { name: 'no-profiles', summary: 'x' },
      { name: 'terminal', short: 't', summary: 'x' },
      { name: 'no-terminal', short: 'T', summary: 'x' },
    ];
    const flags = async (...words: string[]): Promise<boolean[]> => {
      const { parsed } = await run({ path: ['try'], options }, 'try', ...words);
      return ['no-profiles', 'terminal', 'no-terminal'].map((name) => parsed.flag(name));
    };
    expect(await flags()).toEqual([false, false, false]);
    expect(await flags('--no-profiles')).toEqual([true, false, false]);
    expect(await flags('-t')).toEqual([false, true, false]);
    expect(await flags('-T')).toEqual([false, false, true]);
  });

  test('-f is the format unless the command has another -f', async () => {
    const { context } = await run({ path: ['try'] }, 'try', '-f', 'json');
    expect(context.options.format).toBe('json');
    const force = { name: 'force', short: 'f', summary: 'x' };
    const { parsed } = await run({ path: ['try'], options: [force] }, 'try', '-f', '--format', 'csv');
    expect(parsed.flag('force')).toBe(true);
  });

  test('global ones reach the context', async () => {
    const { context } = await run({ path: ['try'] }, '--project', 'p', '--endpoint', 'unix:/x', '-q', 'try');
    expect(context.options).toEqual({ project: 'p', endpoint: 'unix:/x', quiet: true, format: 'table' });
  });

  test('unknown options and formats, missing arguments: commander says so', async () => {
    await expect(run({ path: ['try'] }, 'try', '--zork')).rejects.toThrow(/unknown option/);
    await expect(run({ path: ['try'] }, 'try', '-f', 'xml')).rejects.toThrow(/table, json/);
    await expect(run({ path: ['try'], args: [{ name: 'a', summary: 'x' }] }, 'try')).rejects.toThrow(/missing/);
    await expect(run({ path: ['try'] }, 'try', 'more')).rejects.toThrow(/too many/);
    await expect(run({ path: ['deep', 'try'] }, 'deep', 'zork')).rejects.toThrow(/unknown command/);
  });
});

describe('a command that passes words on', () => {
  const exec: Pick<Command, 'path'> & Partial<Command> = {
    path: ['exec'],
    passThrough: true,
    args: [
      { name: 'instance', summary: 'x' },
      { name: 'command', rest: true, summary: 'x' },
    ],
    options: [
      { name: 'env', value: 'key=value', many: true, summary: 'x' },
      { name: 'user', value: 'uid', summary: 'x' },
      { name: 'terminal', short: 't', summary: 'x' },
      { name: 'no-terminal', short: 'T', summary: 'x' },
    ],
  };
  const passed = async (...words: string[]): Promise<readonly string[]> => {
    const { parsed } = await run(exec, 'exec', ...words);
    return parsed.rest('command');
  };

  test('its own options stay its own', async () => {
    expect(await passed('c1', 'ls', '-la', '--color', '--', 'x')).toEqual(['ls', '-la', '--color', '--', 'x']);
    expect(await passed('c1', '--', '-weird', '-t')).toEqual(['-weird', '-t']);
  });

  test('options before and after the instance', async () => {
    const { parsed } = await run(
      exec,
      'exec',
      '--user',
      '5',
      'c1',
      '-T',
      '--env',
      'A=b=c',
      '--env=D=',
      '--',
      'id',
      '-u',
    );
    expect(parsed.arg('instance')).toBe('c1');
    expect(parsed.value('user')).toBe('5');
    expect(parsed.values('env')).toEqual(['A=b=c', 'D=']);
    expect(parsed.flag('no-terminal')).toBe(true);
    expect(parsed.rest('command')).toEqual(['id', '-u']);
  });

  test('options on both sides come together', async () => {
    const { parsed } = await run(exec, 'exec', '--env', 'A=1', 'c1', '--env', 'B=2', 'id');
    expect(parsed.values('env')).toEqual(['A=1', 'B=2']);
  });

  test('what is no option of it is refused', async () => {
    await expect(passed('c1', '--zork', 'ls')).rejects.toThrow(UsageError);
    await expect(passed('c1', '--')).rejects.toThrow(/Missing command/);
  });
});

test('the exit code is what the command returns, 0 for nothing', async () => {
  expect((await run({ path: ['try'] }, 'try')).code).toBe(0);
});
