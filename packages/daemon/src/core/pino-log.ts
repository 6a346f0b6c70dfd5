import type { Logger } from 'pino';
import type { Log } from './log.ts';

/** What `GET /1.0/events?type=logging` shows of one log line. */
export interface LogEvent {
  readonly level: 'debug' | 'info' | 'warning' | 'error';
  readonly message: string;
  readonly context: Readonly<Record<string, string>>;
}

type Fields = Readonly<Record<string, unknown>>;

/** Writes lines with pino and forwards each, whatever pino's level, to `forward`. */
export function pinoLog(pino: Logger, forward: (event: LogEvent) => void = () => undefined): Log {
  const line =
    (level: LogEvent['level'], write: (fields: Fields, message: string) => void) =>
    (message: string, fields: Fields = {}): void => {
      write(fields, message);
      forward({ level, message, context: contextOf(fields) });
    };
  return {
    debug: line('debug', (fields, message) => pino.debug(readable(fields), message)),
    info: line('info', (fields, message) => pino.info(readable(fields), message)),
    warn: line('warning', (fields, message) => pino.warn(readable(fields), message)),
    error: line('error', (fields, message) => pino.error(readable(fields), message)),
  };
}

/** Errors under any name with message, stack and causes. */
function readable(fields: Fields): Fields {
  const values = Object.entries(fields).map(([name, value]) => [name, value instanceof Error ? detail(value) : value]);
  return Object.fromEntries(values) as Fields;
}

function detail(error: Error): object {
  const { cause, stack, message } = error;
  return { message, stack, ...(cause === undefined ? {} : { cause: cause instanceof Error ? detail(cause) : cause }) };
}

function contextOf(fields: Fields): Record<string, string> {
  const texts = Object.entries(fields).map(([name, value]): [string, string] => [name, textOf(value)]);
  return Object.fromEntries(texts);
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value instanceof Error) return value.message;
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}
