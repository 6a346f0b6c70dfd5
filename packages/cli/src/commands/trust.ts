import type { Operation } from '@keelson/api';
import type { Certificate } from '@keelson/client';
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type Command, defineCommand, type Parsed, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import { when } from '../output/format.ts';
import { answerOf } from './answer.ts';
import { edited } from './editing.ts';
import { splitRemote } from '../remotes.ts';

const fingerprint = { name: 'fingerprint', summary: 'fingerprint of the certificate, or its beginning' } as const;
const remote = { name: 'remote', optional: true, summary: 'remote:' } as const;

async function find(context: Context, word: string): Promise<Certificate> {
  const target = context.target(word);
  return target.client.certificates.get(target.name, { signal: context.signal });
}

async function add(context: Context, parsed: Parsed): Promise<void> {
  const word = parsed.maybe('file') ?? '';
  const { remote: server, name: file } = splitRemote(word);
  const projects = parsed.value('projects')?.split(',');
  const body = {
    type: 'client',
    name: parsed.value('name') ?? '',
    restricted: parsed.flag('restricted') || projects !== undefined,
    ...(projects === undefined ? {} : { projects }),
  };
  const client = context.clientOf(server);
  if (file !== '') {
    const certificate = new X509Certificate(readFileSync(file)).raw.toString('base64');
    await answerOf(client.request('POST', '/1.0/certificates', { ...body, certificate }));
    return;
  }
  if (body.name === '')
    throw new UsageError('Name the client that the token is for with --name, or give its certificate file');
  const made = await answerOf<Operation>(client.request('POST', '/1.0/certificates', { ...body, token: true }));
  const secret = tokenOf(made);
  context.out.note(`Token for "${body.name}"; there, run: keelson remote add NAME TOKEN`);
  if (context.out.format === 'table') context.out.line(secret);
  else context.out.record({ name: body.name, token: secret });
}

/** The token as clients exchange it: base64 of what the server told. */
function tokenOf(operation: Operation): string {
  const { request, secret, addresses, fingerprint: server } = (operation.metadata ?? {}) as Record<string, unknown>;
  const name = (request as { name?: string } | undefined)?.name ?? '';
  return Buffer.from(JSON.stringify({ client_name: name, fingerprint: server, addresses, secret })).toString('base64');
}

function details(pem: string): { subject: string; until: string } {
  try {
    const { subject, validTo } = new X509Certificate(pem);
    return { subject: /CN=(.*)/.exec(subject)?.[1] ?? '', until: when(validTo) };
  } catch {
    return { subject: '', until: '' };
  }
}

export const trustCommands: readonly Command[] = [
  defineCommand({
    path: ['trust', 'list'],
    summary: 'List the certificates that the server trusts',
    args: [remote],
    run: async (context, parsed) => {
      const client = context.clientOf(splitRemote(parsed.maybe('remote') ?? '').remote);
      context.out.list(
        [
          { title: 'NAME', text: (one) => one.name },
          { title: 'TYPE', text: (one) => one.type },
          { title: 'COMMON NAME', text: (one) => details(one.certificate).subject },
          { title: 'FINGERPRINT', text: (one) => one.fingerprint.slice(0, 12) },
          { title: 'EXPIRES', text: (one) => details(one.certificate).until },
          { title: 'PROJECTS', text: (one) => (one.restricted ? (one.projects ?? []).join('\n') || 'none' : 'all') },
        ],
        await client.certificates.all({ recursion: 1, signal: context.signal }),
      );
    },
  }),
  defineCommand({
    path: ['trust', 'add'],
    summary: 'Trust a certificate, or print a token with which a client makes itself trusted',
    args: [{ name: 'file', optional: true, summary: 'certificate as PEM; without one a token is printed' }],
    options: [
      { name: 'name', value: 'name', summary: 'what to call the client' },
      { name: 'restricted', summary: 'only for the projects named' },
      { name: 'projects', value: 'names', summary: 'projects, separated by commas' },
    ],
    examples: ['keelson trust add --name laptop', 'keelson trust add client.crt --name ci --projects ci'],
    run: add,
  }),
  defineCommand({
    path: ['trust', 'show'],
    summary: 'Show a trusted certificate',
    args: [fingerprint],
    run: async (context, parsed) => context.out.record((await find(context, parsed.arg('fingerprint'))).record),
  }),
  defineCommand({
    path: ['trust', 'edit'],
    summary: 'Edit name and projects of a trusted certificate as YAML',
    args: [fingerprint],
    run: async (context, parsed) => {
      const found = await find(context, parsed.arg('fingerprint'));
      const { name, type, restricted, projects } = found;
      const body = await edited({ name, type, restricted, projects });
      if (body !== undefined) await found.put(body, { wait: true });
    },
  }),
  defineCommand({
    path: ['trust', 'remove'],
    summary: 'Trust a certificate no longer',
    args: [fingerprint],
    run: async (context, parsed) => (await find(context, parsed.arg('fingerprint'))).delete(),
  }),
];
