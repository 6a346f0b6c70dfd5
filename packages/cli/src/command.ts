import type { Context } from './context.ts';

export interface Argument {
  readonly name: string;
  readonly summary: string;
  readonly optional?: boolean;
  /** Takes everything that is left. */
  readonly rest?: boolean;
}

export interface Option {
  /** Long name without dashes, for example `config`. */
  readonly name: string;
  readonly short?: string;
  readonly summary: string;
  /** Placeholder of the value; without one the option is a switch. */
  readonly value?: string;
  /** May be given several times. */
  readonly many?: boolean;
}

/** Values by argument name; a rest argument is a list. */
export interface Parsed {
  arg(name: string): string;
  maybe(name: string): string | undefined;
  rest(name: string): readonly string[];
  flag(name: string): boolean;
  value(name: string): string | undefined;
  values(name: string): readonly string[];
}

/** A command is data and a handler; help, completion and docs come from the data. */
export interface Command {
  /** Words of the command, for example `['storage', 'create']`. */
  readonly path: readonly [string, ...string[]];
  readonly summary: string;
  readonly args?: readonly Argument[];
  readonly options?: readonly Option[];
  readonly examples?: readonly string[];
  /** Everything after the first argument is passed on, options too (`exec c1 -- ls -la`). */
  readonly passThrough?: boolean;
  /** @returns the exit code; nothing means 0 */
  run(context: Context, parsed: Parsed): Promise<number | void>;
}

export function defineCommand(command: Command): Command {
  return command;
}

/** Wrong use of the command line: message only, exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** A failure with an exit code of its own. */
export class ExitError extends Error {
  override readonly name = 'ExitError';
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** `key=value` words as an object. @throws UsageError */
export function keyValues(words: readonly string[]): Record<string, string> {
  const result: Record<string, string> = {};
  for (const word of words) {
    const at = word.indexOf('=');
    if (at <= 0) throw new UsageError(`"${word}" is not of the form key=value`);
    result[word.slice(0, at)] = word.slice(at + 1);
  }
  return result;
}
