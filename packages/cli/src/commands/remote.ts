import { APIException, Client } from '@keelson/client';
import { type Command, defineCommand, type Parsed, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import { ask } from '../output/terminal.ts';
import {
  BUILT_IN,
  configFolder,
  pinCertificate,
  pinnedCertificate,
  PROTOCOLS,
  readRemotes,
  type Remote,
  remoteOf,
  unpinCertificate,
  writeRemotes,
} from '../remotes.ts';
import { fetchServerCertificate, type JoinToken, parseToken, serverAddress } from '../server-certificate.ts';

const name = { name: 'name', summary: 'name of the remote' } as const;

async function add(context: Context, parsed: Parsed): Promise<void> {
  const word = parsed.arg('name');
  if (!/^[A-Za-z0-9][\w.-]*$/.test(word)) throw new UsageError(`"${word}" is no name for a remote`);
  const file = readRemotes();
  if (file.remotes[word] !== undefined) throw new UsageError(`There is a remote "${word}" already; remove it first`);
  const protocol = protocolOf(parsed.value('protocol'));
  const remote = await reach(context, parsed, protocol);
  const project = parsed.value('remote-project');
  writeRemotes({
    ...file,
    remotes: { ...file.remotes, [word]: { ...remote, ...(project === undefined ? {} : { project }) } },
  });
  context.out.note(
    `Remote "${word}" is ${remote.address}. Try: keelson ${protocol === 'lxd' ? `list ${word}:` : `launch ${word}:IMAGE`}`,
  );
}

async function reach(context: Context, parsed: Parsed, protocol: 'lxd' | 'simplestreams'): Promise<Remote> {
  const text = parsed.arg('address');
  if (protocol === 'simplestreams') {
    if (!URL.canParse(text)) throw new UsageError(`"${text}" is no URL`);
    return { address: text.replace(/\/$/, ''), protocol };
  }
  if (text.startsWith('unix:')) return { address: text };
  const given = parseToken(text);
  const secret = given?.text ?? parsed.value('token') ?? parsed.value('password');
  for (const address of given === undefined ? [text] : given.addresses) {
    const url = serverAddress(address);
    if (given !== undefined && !(await answers(url))) continue;
    await trustBoth(context, url, {
      remote: parsed.arg('name'),
      secret,
      project: parsed.value('remote-project'),
      token: given ?? parseToken(parsed.value('token') ?? ''),
      accept: parsed.flag('accept-certificate'),
    });
    return { address: url };
  }
  throw new UsageError(`None of the addresses in the token answers: ${given?.addresses.join(', ') ?? ''}`);
}

async function answers(address: string): Promise<boolean> {
  return fetchServerCertificate(address).then(
    () => true,
    () => false,
  );
}

interface TrustOptions {
  readonly remote: string;
  readonly secret: string | undefined;
  /** The project a restricted client is let into. */
  readonly project: string | undefined;
  readonly token: JoinToken | undefined;
  readonly accept: boolean;
}

/** Makes this client trust the server, then the server this client. Nothing stays pinned when that fails. */
async function trustBoth(context: Context, address: string, options: TrustOptions): Promise<void> {
  const { remote } = options;
  const server = await fetchServerCertificate(address);
  if (options.token !== undefined && options.token.fingerprint !== server.fingerprint) {
    throw new UsageError(
      `The server at ${address} is not the one that gave the token: its certificate is ${server.fingerprint}`,
    );
  }
  if (!server.trusted && options.token === undefined && !options.accept) await confirm(address, server.fingerprint);
  if (!server.trusted) pinCertificate(remote, server.pem);
  try {
    // Loaded here alone: making certificates takes half a megabyte of code.
    const { ensureClientCertificate } = await import('../client-certificate.ts');
    await ensureClientCertificate(configFolder());
    await using client = new Client({
      endpoint: address,
      ...(options.project === undefined ? {} : { project: options.project }),
      ...(server.trusted ? {} : { verify: pinnedCertificate(remote) }),
    });
    if ((await client.server.get()).auth === 'trusted') return;
    const secret = options.secret ?? (await ask(`Trust password or token of ${address}: `, { hidden: true }));
    if (secret === undefined || secret === '') {
      throw new UsageError(
        `The server does not trust this client yet. There, run "keelson trust add --name NAME", and here give its token with --token; or give --password.`,
      );
    }
    await client.authenticate(secret).catch((error: unknown) => {
      if (error instanceof APIException && error.status === 403)
        throw new Error(`The server at ${address} refuses this password or token`);
      throw error;
    });
    if ((await client.server.get()).auth !== 'trusted')
      throw new Error(`The server at ${address} still does not trust this client`);
    context.out.note('The server trusts this client now.');
  } catch (error) {
    unpinCertificate(remote);
    throw error;
  }
}

async function confirm(address: string, fingerprint: string): Promise<void> {
  const answer = await ask(`The certificate of ${address} has the fingerprint ${fingerprint}\nIs that right (y/n)? `);
  if (answer === undefined) {
    throw new UsageError(
      `The certificate of ${address} has the fingerprint ${fingerprint}. If that is right, add --accept-certificate.`,
    );
  }
  if (!/^y(es)?$/i.test(answer.trim())) throw new UsageError('The certificate was not accepted; nothing was added');
}

function protocolOf(text: string | undefined): (typeof PROTOCOLS)[number] {
  const found = PROTOCOLS.find((one) => one === (text ?? 'lxd'));
  if (found === undefined) throw new UsageError(`"${text}" is no protocol; use one of ${PROTOCOLS.join(', ')}`);
  return found;
}

function remove(word: string): void {
  const file = readRemotes();
  const { [word]: gone, ...remotes } = file.remotes;
  if (gone === undefined) throw new UsageError(`There is no remote "${word}"; see "keelson remote list"`);
  if (JSON.stringify(gone) === JSON.stringify(BUILT_IN.remotes[word]))
    throw new UsageError(`The remote "${word}" is built in`);
  unpinCertificate(word);
  writeRemotes({ default: file.default === word ? 'local' : file.default, remotes });
}

export const remoteCommands: readonly Command[] = [
  defineCommand({
    path: ['remote', 'list'],
    summary: 'List the servers this client knows',
    run: async (context) => {
      const file = readRemotes();
      context.out.list(
        [
          { title: 'NAME', text: (one) => `${one.name}${one.current ? ' (current)' : ''}` },
          { title: 'ADDRESS', text: (one) => one.address },
          { title: 'PROTOCOL', text: (one) => one.protocol },
          { title: 'PROJECT', text: (one) => one.project ?? '' },
        ],
        Object.entries(file.remotes).map(([key, remote]) => ({
          name: key,
          current: key === file.default,
          ...remote,
          protocol: remote.protocol ?? 'lxd',
        })),
      );
    },
  }),
  defineCommand({
    path: ['remote', 'add'],
    summary: 'Get to know a server, and make it trust this client',
    args: [name, { name: 'address', summary: 'https://host:port, unix:/path, or a token of "keelson trust add"' }],
    options: [
      { name: 'accept-certificate', summary: 'do not ask whether the certificate is right' },
      { name: 'token', value: 'token', summary: 'token of "keelson trust add"' },
      { name: 'password', value: 'secret', summary: 'trust password of the server' },
      { name: 'protocol', value: 'name', summary: `one of ${PROTOCOLS.join(', ')}` },
      { name: 'remote-project', value: 'name', summary: 'project to work in on that server' },
    ],
    examples: [
      'keelson remote add office https://10.0.0.5:8443',
      'keelson remote add office TOKEN',
      'keelson remote add cloud https://images.example.org --protocol simplestreams',
    ],
    run: add,
  }),
  defineCommand({
    path: ['remote', 'remove'],
    summary: 'Forget a server; it goes on trusting this client',
    args: [name],
    run: async (_context, parsed) => remove(parsed.arg('name')),
  }),
  defineCommand({
    path: ['remote', 'switch'],
    summary: 'Make a server the one that names without a remote mean',
    args: [name],
    run: async (_context, parsed) => {
      const found = remoteOf(parsed.arg('name').replace(/:$/, ''));
      if (found.protocol === 'simplestreams') throw new UsageError(`The remote "${found.name}" only gives images`);
      writeRemotes({ ...readRemotes(), default: found.name });
    },
  }),
  defineCommand({
    path: ['remote', 'show'],
    summary: 'Show a server: its address, whether it trusts this client, its version',
    args: [{ ...name, optional: true }],
    run: async (context, parsed) => {
      const remote = remoteOf((parsed.maybe('name') ?? '').replace(/:$/, ''));
      if (remote.protocol === 'simplestreams') return context.out.record(remote);
      const server = await context.clientOf(remote.name).server.get({ signal: context.signal });
      const { environment } = 'environment' in server ? server : { environment: undefined };
      context.out.record({
        name: remote.name,
        address: remote.address,
        ...(remote.project === undefined ? {} : { project: remote.project }),
        trusted: server.auth === 'trusted',
        ...(environment === undefined ? {} : { server: `${environment.server} ${environment.server_version}` }),
      });
    },
  }),
  defineCommand({
    path: ['project', 'switch'],
    summary: 'Work in a project unless --project names another',
    args: [{ name: 'project', summary: 'name of the project, also remote:project' }],
    run: async (context, parsed) => {
      const target = context.target(parsed.arg('project'));
      await target.client.projects.get(target.name, { signal: context.signal });
      const file = readRemotes();
      const remote = target.remote === '' ? file.default : target.remote;
      const { project: _old, ...rest } = remoteOf(remote);
      const { name: _name, ...kept } = rest;
      const changed = target.name === 'default' ? kept : { ...kept, project: target.name };
      writeRemotes({ ...file, remotes: { ...file.remotes, [remote]: changed } });
    },
  }),
];
