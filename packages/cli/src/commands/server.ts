import { type EventType, findSocket } from '@keelson/client';
import { stringify } from 'yaml';
import { type Command, defineCommand, UsageError } from '../command.ts';
import type { Context } from '../context.ts';

async function monitor(context: Context, types: readonly string[]): Promise<void> {
  const stream = context.client.events({ types: types as EventType[], signal: context.signal });
  for await (const event of stream) {
    context.out.text(context.out.format === 'json' ? `${JSON.stringify(event)}\n` : `${stringify(event)}---\n`);
  }
}

async function query(
  context: Context,
  word: string,
  options: { method: string; data: string | undefined; raw: boolean },
): Promise<number> {
  const { client, name: path } = word.startsWith('/') ? { client: context.client, name: word } : context.target(word);
  if (!path.startsWith('/')) throw new UsageError(`"${path}" is no path; it begins with /`);
  const json: unknown = options.data === undefined ? undefined : JSON.parse(options.data);
  const answer = await client.request(options.method, path, json);
  const text = await answer.text();
  if (options.raw) {
    context.out.line(text);
    return answer.status < 400 ? 0 : 1;
  }
  const envelope = JSON.parse(text) as { metadata?: unknown; error?: string };
  if (answer.status >= 400) throw new Error(envelope.error ?? text);
  context.out.line(JSON.stringify(envelope.metadata, undefined, 2));
  return 0;
}

async function waitReady(context: Context, seconds: number): Promise<void> {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    try {
      const client = context.clientOf('');
      await client.server.get();
      return;
    } catch (error) {
      if (Date.now() > deadline || context.signal.aborted) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

export const serverCommands: readonly Command[] = [
  defineCommand({
    path: ['monitor'],
    summary: 'Show events as they happen',
    options: [{ name: 'type', value: 'type', many: true, summary: 'lifecycle, operation or logging; default: all' }],
    run: (context, parsed) => monitor(context, parsed.values('type')),
  }),
  defineCommand({
    path: ['query'],
    summary: 'Send a request to the API and show what it answers',
    args: [{ name: 'path', summary: 'for example /1.0/instances?recursion=1' }],
    options: [
      { name: 'request', short: 'X', value: 'method', summary: 'GET (default), POST, PUT, PATCH or DELETE' },
      { name: 'data', short: 'd', value: 'json', summary: 'body' },
      { name: 'raw', summary: 'the whole answer, not only its metadata' },
    ],
    run: (context, parsed) =>
      query(context, parsed.arg('path'), {
        method: parsed.value('request') ?? 'GET',
        data: parsed.value('data'),
        raw: parsed.flag('raw'),
      }),
  }),
  defineCommand({
    path: ['admin', 'waitready'],
    summary: 'Wait until the server answers',
    options: [{ name: 'timeout', value: 'seconds', summary: 'default 60' }],
    run: (context, parsed) => waitReady(context, Number(parsed.value('timeout') ?? 60)),
  }),
  defineCommand({
    path: ['admin', 'doctor'],
    summary: 'Show what the server can run on this host, and what is missing',
    run: async (context) => {
      const server = await context.client.server.get();
      if (!('environment' in server)) throw new UsageError('The server does not trust this client');
      const { environment } = server;
      context.out.record({
        endpoint: context.client.endpoint,
        'default socket': findSocketOrNone(),
        server: `${environment.server} ${environment.server_version}`,
        kernel: environment.kernel_version,
        'instance drivers': environment.driver,
        'storage drivers': environment.storage_supported_drivers?.map(({ Name }) => Name) ?? [],
        firewall: environment.firewall,
        warnings: await warnings(context),
      });
    },
  }),
];

function findSocketOrNone(): string {
  try {
    return findSocket();
  } catch {
    return 'none';
  }
}

async function warnings(context: Context): Promise<unknown> {
  const answer = await context.client.request('GET', '/1.0/warnings?recursion=1');
  return answer.status === 200 ? ((await answer.json<{ metadata: unknown }>()).metadata ?? []) : [];
}
