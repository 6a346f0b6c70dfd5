import { readFile } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { identify } from './proc.ts';
import { type Child, spawnChild } from './spawn-child.ts';

export interface RunOptions {
  readonly signal?: AbortSignal;
  /** Milliseconds until the process is killed; default 60,000. */
  readonly timeout?: number;
  readonly input?: string | Uint8Array;
  /** Replaces the environment; default `OWN_ENVIRONMENT`. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Exit codes that are not failures; default [0]. */
  readonly ok?: readonly number[];
  /** Told 0 at its start, then soon and some times a second how many bytes the process has read, where the kernel counts them. */
  readonly onRead?: (bytes: number) => void;
}

export interface RunResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A host command that failed: the command line, its exit and the end of its stderr. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly command: string;
  readonly args: readonly string[];
  readonly code: number;
  readonly stderr: string;

  constructor(command: string, args: readonly string[], result: { code: number; stderr: string }) {
    const detail = result.stderr.trim().split('\n').slice(-5).join('\n');
    super(`${command} ${args.join(' ')}: exit ${result.code}${detail === '' ? '' : `: ${detail}`}`);
    this.command = command;
    this.args = args;
    this.code = result.code;
    this.stderr = result.stderr;
  }
}

const LIMIT = 16 * 1024 * 1024;

/** The environment of commands that outlive this process: nothing of ours leaks into it. */
export const COMMAND_ENVIRONMENT: Readonly<Record<string, string>> = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LC_ALL: 'C.UTF-8',
  HOME: '/root',
};

/** Names the process that started a command, to the command and to all that it starts. */
export const OWNER_VARIABLE = 'KEELSON_COMMAND_OF';

/** This process; no other of this host ever has the same name. */
export const OWNER = `${process.pid}.${identify(process.pid)?.startTime ?? ''}`;

/** The environment of all other commands: a daemon that starts ends those of one that was killed. */
export const OWN_ENVIRONMENT: Readonly<Record<string, string>> = { ...COMMAND_ENVIRONMENT, [OWNER_VARIABLE]: OWNER };

/**
 * Runs one host command to its end. Always an argument vector, never a shell.
 * @throws CommandError when the exit code is not in `ok`, the abort reason when `signal` aborts.
 */
export async function run(command: string, args: readonly string[], options: RunOptions = {}): Promise<RunResult> {
  options.signal?.throwIfAborted();
  const env = options.env ?? OWN_ENVIRONMENT;
  const child = await spawnChild({ command, args, env, cwd: options.cwd, input: options.input !== undefined });
  if (options.input !== undefined) child.stdin?.end(options.input);
  using _watch = watchReads(child.pid, options.onRead);
  using _limits = killAt(child, options);
  const [code, stdout, stderr] = await Promise.all([child.exited, collect(child.stdout), collect(child.stderr)]);
  options.signal?.throwIfAborted();
  if (!(options.ok ?? [0]).includes(code)) throw new CommandError(command, args, { code, stderr });
  return { code, stdout, stderr };
}

/** Kills the process when it is aborted or takes too long, until disposed of. */
function killAt(child: Child, { signal, timeout }: RunOptions): Disposable {
  const kill = (): void => child.kill();
  const timer = setTimeout(kill, timeout ?? 60_000);
  signal?.addEventListener('abort', kill, { once: true });
  if (signal?.aborted === true) kill();
  return {
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', kill);
    },
  };
}

/** Milliseconds. A command that ends sooner is not worth telling. */
const FIRST_READS = 20;
const READS_EVERY = 100;

/** Calls `onRead` while the process runs, until it is disposed of. */
export function watchReads(pid: number | undefined, onRead: RunOptions['onRead']): Disposable | undefined {
  if (onRead === undefined || pid === undefined) return undefined;
  let last = 0;
  const look = async (): Promise<void> => {
    const text = await readFile(`/proc/${pid}/io`, 'utf8').catch(() => '');
    const bytes = Number(/^rchar: (\d+)$/m.exec(text)?.[1] ?? 0);
    if (bytes > last) onRead((last = bytes));
  };
  onRead(0);
  const timers = [setTimeout(() => void look(), FIRST_READS), setInterval(() => void look(), READS_EVERY)];
  for (const timer of timers) timer.unref();
  return { [Symbol.dispose]: () => timers.forEach(clearTimeout) };
}

/** What the stream brings until it ends or is destroyed. */
function collect(stream: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  stream.on('data', (chunk: Buffer) => {
    length += chunk.length;
    if (length <= LIMIT) chunks.push(chunk);
  });
  return new Promise((resolve, reject) => {
    stream.once('error', reject);
    stream.once('close', () => resolve(Buffer.concat(chunks).toString('utf8')));
  });
}
