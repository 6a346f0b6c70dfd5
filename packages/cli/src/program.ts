import { Command as Commander, InvalidArgumentError } from 'commander';
import { parseArgs } from 'node:util';
import { type Command, type Option, type Parsed, UsageError } from './command.ts';
import { Context } from './context.ts';
import { type Format, FORMATS } from './output/format.ts';
import { Output, type Terminal } from './output/output.ts';

export interface ProgramOptions {
  readonly commands: readonly Command[];
  readonly version: string;
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: Terminal;
  /** Called with the exit code of the command that ran. */
  readonly onExit: (code: number) => void;
  readonly signal: AbortSignal;
}

/** The command line, built from the commands' data. */
export function buildProgram(options: ProgramOptions): Commander {
  const program = new Commander('keelson')
    .description('Runs and manages system containers and virtual machines')
    .version(options.version)
    .option('--project <name>', 'project to work in')
    .option('--endpoint <address>', 'server to talk to: unix:/path or https://host:port')
    .option('-q, --quiet', 'no progress and no notes')
    .enablePositionalOptions()
    .showSuggestionAfterError()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void options.stdout.write(text),
      writeErr: (text) => void options.stderr.write(text),
    });
  for (const command of options.commands) add(program, command, options);
  return program;
}

function add(program: Commander, command: Command, options: ProgramOptions): void {
  const parent = command.path.slice(0, -1).reduce(groupOf, program);
  const own = parent.command(command.path.at(-1) ?? '').description(command.summary);
  for (const { name, summary, optional, rest } of command.args ?? []) {
    const text = `${name}${rest ? '...' : ''}`;
    own.argument(optional ? `[${text}]` : `<${text}>`, summary);
  }
  const short = command.options?.some((option) => option.short === 'f') ? '' : '-f, ';
  own.option(`${short}--format <form>`, `one of ${FORMATS.join(', ')}`, parseFormat);
  for (const option of command.options ?? []) addOption(own, option);
  if (command.passThrough) own.passThroughOptions();
  if (command.examples !== undefined)
    own.addHelpText('after', `\nExamples:\n${command.examples.map((example) => `  ${example}\n`).join('')}`);
  own.exitOverride().action(async (...given: unknown[]) => {
    const globals = program.opts<{ project?: string; endpoint?: string; quiet?: boolean }>();
    const local = own.opts<Record<string, unknown>>();
    const format = (local['format'] as Format | undefined) ?? 'table';
    const out = new Output({ format, quiet: globals.quiet ?? false, stdout: options.stdout, stderr: options.stderr });
    const scope = { project: globals.project, endpoint: globals.endpoint, format, quiet: globals.quiet ?? false };
    await using context = new Context(scope, out, options.signal);
    try {
      options.onExit((await command.run(context, parsed(command, given, local))) ?? 0);
    } finally {
      out.clearProgress();
    }
  });
}

function groupOf(parent: Commander, word: string): Commander {
  const found = parent.commands.find((one) => one.name() === word);
  return found ?? parent.command(word).description(`Work with ${word}`).exitOverride();
}

function addOption(own: Commander, option: Option): void {
  const short = option.short === undefined ? '' : `-${option.short}, `;
  if (option.value === undefined) own.option(`${short}--${option.name}`, option.summary);
  else if (option.many)
    own.option(`${short}--${option.name} <${option.value}>`, `${option.summary} (may be repeated)`, collect, []);
  else own.option(`${short}--${option.name} <${option.value}>`, option.summary);
}

function collect(value: string, earlier: readonly string[]): string[] {
  return [...earlier, value];
}

function parseFormat(text: string): Format {
  const found = FORMATS.find((format) => format === text);
  if (found === undefined) throw new InvalidArgumentError(`Use one of ${FORMATS.join(', ')}.`);
  return found;
}

function parsed(command: Command, given: readonly unknown[], local: Readonly<Record<string, unknown>>): Parsed {
  const values = new Map((command.args ?? []).map(({ name }, index) => [name, given[index]]));
  const late = command.passThrough ? lateOptions(command, values) : {};
  const option = (name: string): unknown => late[name] ?? valueOf(local, name);
  return {
    arg(name) {
      const value = values.get(name);
      if (typeof value !== 'string') throw new UsageError(`Missing ${name}`);
      return value;
    },
    maybe: (name) => values.get(name) as string | undefined,
    rest: (name) => (values.get(name) as string[] | undefined) ?? [],
    flag: (name) => option(name) === true,
    value: (name) => option(name) as string | undefined,
    values: (name) => [
      ...((valueOf(local, name) as string[] | undefined) ?? []),
      ...((late[name] as string[] | undefined) ?? []),
    ],
  };
}

/** Value of an option as commander keeps it: in camel case, and `--no-x` as `x: false`. */
function valueOf(local: Readonly<Record<string, unknown>>, name: string): unknown {
  const key = (text: string): string => text.replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase());
  return name.startsWith('no-') ? local[key(name.slice(3))] === false : local[key(name)];
}

/**
 * Options between the first argument and the words to pass on: `exec c1 --user 1000 -- id -u`. What they leave
 * becomes the rest argument; `--` ends them and is not passed on.
 *
 * @throws UsageError
 */
function lateOptions(command: Command, values: Map<string, unknown>): Record<string, unknown> {
  const rest = command.args?.find((one) => one.rest)?.name ?? '';
  const words = values.get(rest) as string[];
  const known = command.options ?? [];
  let end = 0;
  for (; words[end]?.startsWith('-') === true && words[end] !== '--'; end++) {
    const word = words[end] ?? '';
    const option = known.find(({ name, short }) => word.split('=')[0] === `--${name}` || word === `-${short ?? ''}`);
    if (option === undefined) throw new UsageError(`Unknown option ${word}; put -- before a command that begins so`);
    if (option.value !== undefined && !word.includes('=')) end++;
  }
  const options = known.map(({ name, short, value, many }) => [
    name,
    {
      type: value === undefined ? 'boolean' : 'string',
      ...(short === undefined ? {} : { short }),
      multiple: many ?? false,
    },
  ]);
  const found = parseArgs({ args: words.slice(0, end), options: Object.fromEntries(options) as ParseOptions });
  const passed = words.slice(words[end] === '--' ? end + 1 : end);
  if (passed.length === 0) throw new UsageError(`Missing ${rest}`);
  values.set(rest, passed);
  return found.values;
}

type ParseOptions = Record<string, { type: 'boolean' | 'string'; short?: string; multiple: boolean }>;
