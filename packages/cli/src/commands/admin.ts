import type { Server } from '@keelson/api';
import { findSocket } from '@keelson/client';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Command, defineCommand, UsageError } from '../command.ts';
import type { Context } from '../context.ts';
import { answerOf } from './answer.ts';
import { recoverCommand } from './recover.ts';
import { type Configurable, settingsCommands } from './settings.ts';

async function serverOf(context: Context): Promise<Server> {
  const server = await context.client.server.get({ signal: context.signal });
  if (!('environment' in server)) throw new UsageError('The server does not trust this client');
  return server;
}

/** @throws UsageError */
function secondsOf(text: string | undefined, fallback: number): number {
  const seconds = Number(text ?? fallback);
  if (!Number.isFinite(seconds) || seconds < 0) throw new UsageError(`"${text}" is no number of seconds`);
  return seconds;
}

async function waitReady(context: Context, seconds: number): Promise<void> {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    try {
      await context.clientOf('').server.get({ signal: context.signal });
      return;
    } catch (error) {
      if (Date.now() > deadline || context.signal.aborted) throw error;
      await sleep(100);
    }
  }
}

interface ShutdownOptions {
  readonly guests: boolean;
  readonly seconds: number;
}

/** Ends the daemon of this machine; the API has no request for it, its process id is what the socket tells. */
async function shutdown(context: Context, { guests, seconds }: ShutdownOptions): Promise<void> {
  if (!context.client.endpoint.startsWith('unix:')) {
    throw new UsageError('Only the server of this machine can be shut down: use its unix socket');
  }
  const { server, server_pid: pid } = (await serverOf(context)).environment;
  if (server !== 'keelson') throw new UsageError(`The server at ${context.client.endpoint} is ${server}, not keelson`);
  process.kill(pid, guests ? 'SIGPWR' : 'SIGTERM');
  context.out.progress(`Stopping the server${guests ? ' and all instances' : '; containers keep running'} …`);
  const deadline = Date.now() + seconds * 1000;
  while (alive(pid)) {
    if (Date.now() > deadline) throw new Error(`The server (process ${pid}) still runs after ${seconds} seconds`);
    if (context.signal.aborted) throw context.signal.reason;
    await sleep(50);
  }
}

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

interface InitOptions {
  readonly driver: string;
  readonly pool: string;
  readonly bridge: string;
}

/** Makes what a new instance needs and is not there: pool, bridge, devices of the default profile. */
async function init(context: Context, { driver, pool, bridge }: InitOptions): Promise<void> {
  const { client } = context;
  await ensure(context, `storage pool ${pool}`, {
    exists: client.storagePools.exists(pool),
    create: () => client.storagePools.create({ name: pool, driver, config: {} }),
  });
  await ensure(context, `network ${bridge}`, {
    exists: client.networks.exists(bridge),
    create: () => client.networks.create(bridge, { config: {} }),
  });
  const profile = await client.profiles.get('default');
  const present = Object.values(profile.devices);
  const missing = {
    ...(present.some(({ type, path }) => type === 'disk' && path === '/')
      ? {}
      : { root: { type: 'disk', path: '/', pool } }),
    ...(present.some(({ type }) => type === 'nic') ? {} : { eth0: { type: 'nic', name: 'eth0', network: bridge } }),
  };
  if (Object.keys(missing).length === 0) return context.out.note('profile default: already there');
  profile.devices = { ...profile.devices, ...missing };
  await profile.save({ wait: true });
  context.out.note(`profile default: added ${Object.keys(missing).join(' and ')}`);
}

async function ensure(
  context: Context,
  what: string,
  made: { readonly exists: Promise<boolean>; create(): Promise<unknown> },
): Promise<void> {
  if (await made.exists) return context.out.note(`${what}: already there`);
  await made.create();
  context.out.note(`${what}: created`);
}

async function doctor(context: Context): Promise<void> {
  const { environment } = await serverOf(context);
  const warnings = answerOf<unknown>(context.client.request('GET', '/1.0/warnings?recursion=1'));
  context.out.record({
    endpoint: context.client.endpoint,
    'default socket': findSocketOrNone(),
    server: `${environment.server} ${environment.server_version}`,
    kernel: environment.kernel_version,
    'instance drivers': environment.driver,
    'storage drivers': environment.storage_supported_drivers?.map(({ Name }) => Name) ?? [],
    firewall: environment.firewall,
    warnings: (await warnings.catch(() => [])) ?? [],
  });
}

function findSocketOrNone(): string {
  try {
    return findSocket();
  } catch {
    return 'none';
  }
}

/** The server's own settings as an object with settings. */
async function settings(context: Context, word: string): Promise<Configurable> {
  const { client } = context.target(word);
  const server = await client.server.get({ signal: context.signal });
  if (!('config' in server)) throw new UsageError('The server does not trust this client');
  let config = { ...(server.config as Record<string, string>) };
  return {
    record: { config },
    get config() {
      return config;
    },
    set config(changed) {
      config = changed;
    },
    save: () => client.server.put(config),
    put: (body) => client.server.put((body as { config: Record<string, string> }).config),
  };
}

export const adminCommands: readonly Command[] = [
  ...settingsCommands({
    path: ['admin', 'config'],
    noun: 'server',
    writable: ['config'],
    find: settings,
    single: true,
  }),
  defineCommand({
    path: ['admin', 'init'],
    summary: 'Make a storage pool, a bridge and the default profile where they are missing',
    options: [
      { name: 'auto', summary: 'ask nothing; the only way so far' },
      { name: 'storage-driver', value: 'name', summary: 'driver of a new pool; default: dir' },
      { name: 'storage-pool', value: 'name', summary: 'default: default' },
      { name: 'network', value: 'name', summary: 'default: keelbr0' },
    ],
    run: (context, parsed) => {
      if (!parsed.flag('auto'))
        throw new UsageError('Only "keelson admin init --auto" is there so far: it asks nothing');
      return init(context, {
        driver: parsed.value('storage-driver') ?? 'dir',
        pool: parsed.value('storage-pool') ?? 'default',
        bridge: parsed.value('network') ?? 'keelbr0',
      });
    },
  }),
  defineCommand({
    path: ['admin', 'waitready'],
    summary: 'Wait until the server answers',
    options: [{ name: 'timeout', value: 'seconds', summary: 'default 60' }],
    run: (context, parsed) => waitReady(context, secondsOf(parsed.value('timeout'), 60)),
  }),
  defineCommand({
    path: ['admin', 'shutdown'],
    summary: 'Stop the server of this machine; containers keep running',
    options: [
      { name: 'guests', summary: 'shut down all instances first, as before the host goes down' },
      { name: 'timeout', value: 'seconds', summary: 'how long to wait for its end; default 60, with --guests 600' },
    ],
    run: (context, parsed) => {
      const guests = parsed.flag('guests');
      return shutdown(context, { guests, seconds: secondsOf(parsed.value('timeout'), guests ? 600 : 60) });
    },
  }),
  recoverCommand,
  defineCommand({
    path: ['admin', 'doctor'],
    summary: 'Show what the server can run on this host, and what is missing',
    run: doctor,
  }),
];
