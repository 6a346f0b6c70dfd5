import { spawn, type ChildProcess } from 'node:child_process';
import { lstat, mkdir, readlink, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { Duplex, type Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { cloneMount } from '../mounts.ts';
import { CommandError, OWN_ENVIRONMENT } from '../run.ts';

/** The two directions of a connection to another rsync. */
export interface RsyncWire {
  readonly incoming: Readable;
  readonly outgoing: Writable;
}

export interface RsyncOptions {
  /**
   * What both ends do beyond contents, owners, modes, times, links and device nodes: `xattrs`, `delete`, `compress`,
   * `hardlinks`, `acls`.
   */
  readonly features: readonly string[];
  readonly signal: AbortSignal;
}

export interface RsyncSendOptions extends RsyncOptions {
  /** `rsync.bwlimit` of the pool, as rsync takes it; empty: no limit. */
  readonly bwlimit: string;
}

/** Where the program and its libraries are, for a receiver that sees nothing else. */
const SYSTEM = ['usr', 'lib', 'lib64', 'lib32', 'bin'];
/** The file descriptor of the connection in the sender's helper. */
const WIRE_FD = 3;
/**
 * Stands for the remote shell: rsync as a client talks to what its shell starts. It copies between rsync and the
 * connection, reads nothing of the arguments it gets, and ends with what comes in, as rsync expects of a shell.
 */
const RELAY = `/bin/sh -c "exec 9<&0; cat <&9 >&${WIRE_FD} & exec cat <&${WIRE_FD}"`;
/** Files vanished while a guest used them: not a failure where the caller took that into account. */
const PARTIAL = 24;

/**
 * Sends the content of folder `source` to a receiver as `receiveTree` and LXD's.
 * @throws CommandError, the abort reason, or what broke the connection.
 */
export async function sendTree(source: string, wire: RsyncWire, options: RsyncSendOptions): Promise<void> {
  const limit = options.bwlimit === '' || options.bwlimit === '0' ? [] : ['--bwlimit', options.bwlimit];
  const fixed = ['-ar', '--devices', '--numeric-ids', '--partial', '--sparse'];
  const args = [...fixed, ...limit, ...featureArguments(options.features), '-e', RELAY, `${source}/`, 'localhost:/'];
  const child = spawn('rsync', args, {
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    env: { ...OWN_ENVIRONMENT },
  });
  const connection = child.stdio[WIRE_FD];
  if (!(connection instanceof Duplex)) throw new Error('rsync has no connection');
  await converse({ child, args, from: connection, to: connection, wire }, options.signal);
}

/**
 * Makes folder `name` below `jail` hold what the sender has; nothing outside of `jail` can be reached, whatever the
 * sender asks for. `prepareJail` made it.
 * @throws CommandError, the abort reason, or what broke the connection.
 */
export async function receiveTree(jail: string, name: string, wire: RsyncWire, options: RsyncOptions): Promise<void> {
  const own = options.features.includes('hardlinks');
  // The short options are those LXD's receivers have; a sender of our own can do more.
  const short = own ? '-vlogDtpre.iLsfxCIvu' : '-vlogDtpre.iLsfx';
  const fixed = ['--server', short, '--numeric-ids', '--devices', '--partial', '--sparse', '--modify-window=-1'];
  const command = ['/usr/bin/rsync', ...fixed, ...featureArguments(options.features), '.', `/${name}/`];
  // In a jail without /proc the mode of a device can only be right from its creation on.
  const child = spawn('/bin/sh', ['-c', 'umask 0; exec chroot "$@"', 'sh', jail, ...command], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...OWN_ENVIRONMENT },
  });
  await converse({ child, args: command, from: child.stdout, to: child.stdin, wire }, options.signal);
}

/** Makes `jail`, an existing folder, one that `receiveTree` can work in. Its mounts are the caller's to undo. */
export async function prepareJail(jail: string): Promise<readonly string[]> {
  const mounted: string[] = [];
  for (const name of SYSTEM) {
    const found = await lstat(`/${name}`).catch(() => undefined);
    if (found?.isSymbolicLink() === true) await symlink(await readlink(`/${name}`), join(jail, name));
    if (found?.isDirectory() !== true) continue;
    const target = join(jail, name);
    await mkdir(target);
    await cloneMount(`/${name}`, target, { readOnly: true });
    mounted.push(target);
  }
  return mounted;
}

function featureArguments(features: readonly string[]): string[] {
  const has = (name: string): boolean => features.includes(name);
  return [
    ...(has('hardlinks') ? ['--hard-links'] : []),
    ...(has('acls') ? ['--acls'] : []),
    ...(has('xattrs') ? ['--xattrs', '--filter=-x security.selinux'] : []),
    ...(has('delete') ? ['--delete'] : []),
    ...(has('compress') ? ['--compress', '--compress-level=2'] : []),
  ];
}

interface Conversation {
  readonly child: ChildProcess;
  readonly args: readonly string[];
  /** What the process says. */
  readonly from: Readable;
  readonly to: Writable;
  readonly wire: RsyncWire;
}

/** Runs both directions to their ends; the process is ended when one of them breaks. */
async function converse({ child, args, from, to, wire }: Conversation, signal: AbortSignal): Promise<void> {
  const ended = new Promise<number>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve(code ?? 137));
  });
  ended.catch(() => undefined); // awaited below
  // The processes that rsync made end with their streams.
  const stop = (): void => {
    child.kill('SIGKILL');
    from.destroy();
    to.destroy();
  };
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  const complaints = collect(child.stderr);
  const listening = listen(wire.incoming, to);
  const speaking = pipeline(from, wire.outgoing);
  try {
    for (const flow of [listening, speaking]) flow.catch(stop);
    const results = await Promise.allSettled([listening, speaking]);
    const code = await ended;
    signal.throwIfAborted();
    const broken = results.find((result) => result.status === 'rejected');
    if (broken !== undefined && (code === 0 || code === 137)) throw broken.reason;
    if (code !== 0 && code !== PARTIAL) throw new CommandError('rsync', args, { code, stderr: await complaints });
  } finally {
    signal.removeEventListener('abort', stop);
    stop();
  }
}

/** All of one frame into the process; what it does not want any more is read all the same, to the frame's end. */
async function listen(incoming: Readable, to: Writable): Promise<void> {
  let gone = false;
  to.on('error', () => {
    gone = true;
  });
  to.on('close', () => {
    gone = true;
  });
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    if (gone || to.write(chunk)) continue;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        to.off('drain', done);
        to.off('close', done);
        resolve();
      };
      to.once('drain', done);
      to.once('close', done);
    });
  }
  if (!gone) to.end();
}

async function collect(stream: Readable | null): Promise<string> {
  let text = '';
  if (stream === null) return text;
  for await (const chunk of stream as AsyncIterable<Buffer>) text = (text + chunk.toString('utf8')).slice(-16_384);
  return text;
}
