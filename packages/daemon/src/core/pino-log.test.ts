import { pino } from 'pino';
import { expect, it } from 'vitest';
import { type LogEvent, pinoLog } from './pino-log.ts';

const record = (level: string) => {
  const lines: Record<string, unknown>[] = [];
  const events: LogEvent[] = [];
  const logger = pino(
    { level, base: null },
    { write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) },
  );
  return { lines, events, log: pinoLog(logger, (event) => events.push(event)) };
};

it('writes lines and forwards them with text fields', () => {
  const { lines, events, log } = record('info');
  log.warn('Slow disk', { pool: 'fast', milliseconds: 12, deep: { a: [1] }, nothing: undefined });
  expect(lines).toEqual([expect.objectContaining({ level: 40, msg: 'Slow disk', pool: 'fast', milliseconds: 12 })]);
  expect(events).toEqual([
    {
      level: 'warning',
      message: 'Slow disk',
      context: { pool: 'fast', milliseconds: '12', deep: '{"a":[1]}', nothing: 'undefined' },
    },
  ]);
});

it('forwards below the written level', () => {
  const { lines, events, log } = record('error');
  log.debug('a');
  log.info('b');
  log.error('c');
  expect(lines.map(({ msg }) => msg)).toEqual(['c']);
  expect(events.map(({ level, message }) => `${level} ${message}`)).toEqual(['debug a', 'info b', 'error c']);
});

it('writes errors with their causes and forwards their message only', () => {
  const { lines, events, log } = record('info');
  log.error('Failed', { error: new Error('top', { cause: new Error('root') }) });
  expect(lines[0]).toMatchObject({ error: { message: 'top', stack: expect.any(String), cause: { message: 'root' } } });
  expect(events[0]?.context).toEqual({ error: 'top' });
  const circular: Record<string, unknown> = {};
  circular['self'] = circular;
  expect(() => log.info('odd', { circular, big: 1n })).not.toThrow();
});
