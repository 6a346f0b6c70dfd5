import type { EventType, ServerEvent } from '@keelson/client';
import { stringify } from 'yaml';
import { type Command, defineCommand, type Parsed, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import type { Format } from '../output/format.ts';
import { splitRemote } from '../remotes.ts';

const EVENT_TYPES = ['lifecycle', 'operation', 'logging'];

async function monitor(context: Context, remote: string, types: readonly string[]): Promise<void> {
  const wrong = types.find((type) => !EVENT_TYPES.includes(type));
  if (wrong !== undefined) throw new UsageError(`"${wrong}" is no type of event; use ${EVENT_TYPES.join(', ')}`);
  const all = types.length === 0 ? {} : { types: types as EventType[] };
  try {
    for await (const event of context.clientOf(remote).events({ ...all, signal: context.signal })) {
      context.out.text(`${textOf(event, context.out.format)}\n`);
    }
  } catch (error) {
    if (!context.signal.aborted) throw error;
  }
}

function textOf(event: ServerEvent, format: Format): string {
  if (format === 'json') return JSON.stringify(event);
  return format === 'yaml' ? `${stringify(event)}---` : summary(event);
}

/** One line: time, type, and what matters of the metadata. */
function summary({ timestamp, type, metadata }: ServerEvent): string {
  const data = (metadata ?? {}) as Record<string, unknown>;
  const part = (key: string): string => (typeof data[key] === 'string' ? data[key] : '');
  const words = {
    lifecycle: [part('action'), part('source')],
    operation: [part('id'), part('status'), part('description'), part('err')],
    logging: [part('level'), part('message')],
  }[type as string] ?? [JSON.stringify(data)];
  return [timestamp, type, ...words].filter((word) => word !== '').join(' ');
}

async function query(context: Context, parsed: Parsed): Promise<number> {
  const word = parsed.arg('path');
  const { client, name: path } = word.startsWith('/') ? { client: context.client, name: word } : context.target(word);
  if (!path.startsWith('/')) throw new UsageError(`"${path}" is no path; it begins with /`);
  const answer = await client.request(parsed.value('request') ?? 'GET', path, jsonOf(parsed.value('data')));
  const text = await answer.text();
  if (parsed.flag('raw')) {
    context.out.line(text);
    return answer.status < 400 ? 0 : 1;
  }
  let envelope: { metadata?: unknown; error?: string; operation?: string };
  try {
    envelope = JSON.parse(text) as typeof envelope;
  } catch {
    throw new UsageError(`The answer to ${path} is no JSON; see it with --raw`);
  }
  if (answer.status >= 400) throw new Error(envelope.error ?? text);
  const result =
    parsed.flag('wait') && envelope.operation
      ? (await client.operations.waitForOperation(envelope.operation, { signal: context.signal })).record
      : (envelope.metadata ?? null);
  context.out.text(context.out.format === 'yaml' ? stringify(result) : `${JSON.stringify(result, undefined, 2)}\n`);
  return 0;
}

function jsonOf(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UsageError(`The body is no JSON: ${error instanceof Error ? error.message : ''}`);
  }
}

export const serverCommands: readonly Command[] = [
  defineCommand({
    path: ['monitor'],
    summary: 'Show events as they happen, until Ctrl-C',
    args: [{ name: 'remote', optional: true, summary: 'remote:' }],
    options: [{ name: 'type', value: 'type', many: true, summary: `one of ${EVENT_TYPES.join(', ')}; default: all` }],
    run: (context, parsed) => monitor(context, splitRemote(parsed.maybe('remote') ?? '').remote, parsed.values('type')),
  }),
  defineCommand({
    path: ['query'],
    summary: 'Send a request to the API and show what it answers',
    args: [{ name: 'path', summary: 'for example /1.0/instances?recursion=1, also remote:/1.0' }],
    options: [
      { name: 'request', short: 'X', value: 'method', summary: 'GET (default), POST, PUT, PATCH or DELETE' },
      { name: 'data', short: 'd', value: 'json', summary: 'body' },
      { name: 'wait', summary: 'wait for the background operation and show it' },
      { name: 'raw', summary: 'the whole answer, not only its metadata' },
    ],
    run: query,
  }),
];
