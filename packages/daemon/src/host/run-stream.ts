import { spawn } from 'node:child_process';
import { type Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { CommandError, OWN_ENVIRONMENT, watchReads } from './run.ts';

export interface RunStreamOptions {
  readonly signal?: AbortSignal;
  /** Milliseconds until the process is killed; default one hour. */
  readonly timeout?: number;
  readonly cwd?: string;
  /** Exit codes that are not failures; default [0]. */
  readonly ok?: readonly number[];
  readonly stdin?: Readable;
  /** Told 0 at its start, then soon and some times a second how many bytes the process has read, where the kernel counts them. */
  readonly onRead?: (bytes: number) => void;
  /**
   * Receives the output; an error it throws kills the command and is the one thrown. An open file the process writes to
   * by itself.
   */
  readonly stdout?: Writable | ((output: Readable) => Promise<void>) | { readonly fd: number };
}

const HOUR = 3_600_000;
const STDERR_LIMIT = 64 * 1024;

/**
 * Runs one host command whose input or output is too large to hold; back-pressure goes both ways.
 * @throws CommandError for a wrong exit code, the abort reason when `signal` aborts, what a given stream throws.
 */
export async function runStream(
  command: string,
  args: readonly string[],
  options: RunStreamOptions = {},
): Promise<{ code: number; stderr: string }> {
  options.signal?.throwIfAborted();
  const child = spawn(command, args, {
    stdio: [options.stdin ? 'pipe' : 'ignore', outputOf(options), 'pipe'],
    env: { ...OWN_ENVIRONMENT },
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
    killSignal: 'SIGKILL',
    timeout: options.timeout ?? HOUR,
  });
  using _watch = watchReads(child.pid, options.onRead);
  const ended = new Promise<number>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve(code ?? 137));
  });
  const stderr = collectTail(child.stderr);
  for (const later of [ended, stderr]) later.catch(() => undefined); // awaited below, once the streams are done
  const flows = [feed(options.stdin, child.stdin), drain(options.stdout, child.stdout)];
  const failure = await Promise.all(flows).then(
    () => undefined,
    (error: unknown) => ({ error }),
  );
  if (failure !== undefined) child.kill('SIGKILL');
  const code = await ended;
  if (failure !== undefined) throw failure.error;
  const text = await stderr;
  if (!(options.ok ?? [0]).includes(code)) throw new CommandError(command, args, { code, stderr: text });
  return { code, stderr: text };
}

function outputOf({ stdout }: RunStreamOptions): 'pipe' | 'ignore' | number {
  if (stdout === undefined) return 'ignore';
  return isFile(stdout) ? stdout.fd : 'pipe';
}

/** A stream into a file has a descriptor, too. */
function isFile(sink: NonNullable<RunStreamOptions['stdout']>): sink is { readonly fd: number } {
  return typeof sink !== 'function' && !(sink instanceof Writable);
}

async function feed(source: Readable | undefined, target: Writable | null): Promise<void> {
  if (source === undefined || target === null) return;
  await pipeline(source, target).catch((error: unknown) => {
    // The command may end before it read everything; its exit code then says whether that was a failure.
    if (
      !(
        error instanceof Error &&
        'code' in error &&
        (error.code === 'EPIPE' || error.code === 'ERR_STREAM_PREMATURE_CLOSE')
      )
    )
      throw error;
  });
}

async function drain(sink: RunStreamOptions['stdout'], output: Readable | null): Promise<void> {
  if (sink === undefined || output === null || isFile(sink)) return;
  if (typeof sink === 'function') await sink(output);
  else await pipeline(output, sink);
}

async function collectTail(stream: Readable | null): Promise<string> {
  let text = '';
  if (stream === null) return text;
  for await (const chunk of stream as AsyncIterable<Buffer>)
    text = (text + chunk.toString('utf8')).slice(-STDERR_LIMIT);
  return text;
}

/** Calls `onLine` for each line, without its line break; bytes are read as latin1 so that no name is altered. */
export async function eachLine(output: Readable, maxLength: number, onLine: (line: string) => void): Promise<void> {
  let rest = '';
  for await (const chunk of output as AsyncIterable<Buffer>) {
    const lines = (rest + chunk.toString('latin1')).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > maxLength) throw new RangeError('line too long');
    for (const line of lines) onLine(line);
  }
  if (rest !== '') onLine(rest);
}
