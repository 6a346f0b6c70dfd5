import type { Operation } from '@keelson/api';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findLeftovers, removeLeftovers, type Leftovers } from './leftovers.ts';
import { patient } from './patience.ts';
import { handled, until } from './poll.ts';
import { problemsOf } from './problems.ts';
import { request, type Answer, type RequestOptions } from './request.ts';

export interface StartDaemonOptions {
  /** An existing state folder, for example of a daemon that was stopped; default: a new one, removed at the end. */
  readonly stateDir?: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly readyTimeoutMs?: number;
  /** Run the built bundle as users do, instead of the sources; `npm run build` makes it. */
  readonly bundle?: boolean;
}

/** How keelsond runs from its sources; its own arguments come after `args`. */
export const keelsond: { readonly program: string; readonly args: readonly string[] } = {
  program: process.execPath,
  args: [
    '--conditions=source',
    '--disable-warning=ExperimentalWarning',
    fileURLToPath(new URL('../../daemon/src/main.ts', import.meta.url)),
  ],
};

const bundledArgs = [
  '--disable-warning=ExperimentalWarning',
  fileURLToPath(new URL('../../daemon/dist/main.js', import.meta.url)),
];

/** A real daemon process on its own state folder. `await using` stops it and removes everything it made. */
export class TestDaemon implements AsyncDisposable {
  readonly stateDir: string;
  readonly #options: StartDaemonOptions;
  #process: ChildProcess | undefined;
  #disposed = false;

  constructor(options: StartDaemonOptions) {
    this.#options = options;
    this.stateDir = options.stateDir ?? mkdtempSync(join(tmpdir(), 'keelson-test-'));
  }

  get socket(): string {
    return join(this.stateDir, 'unix.socket');
  }
  get logFile(): string {
    return join(this.stateDir, 'test-daemon.log');
  }
  get pid(): number {
    return this.#process?.pid ?? 0;
  }
  get isRunning(): boolean {
    const child = this.#process;
    return child !== undefined && child.exitCode === null && child.signalCode === null;
  }
  /** What it printed so far. */
  get logs(): string {
    return readFileSync(this.logFile, 'utf8');
  }

  /** Starts it and resolves when it answers. @throws Error with its log when it ends instead, or does not answer in time. */
  async start(): Promise<void> {
    // A test that ran out of time goes on behind the back of the next one.
    if (this.#disposed) throw new Error('The daemon was disposed of');
    if (this.isRunning) throw new Error('The daemon runs already');
    const log = openSync(this.logFile, 'a');
    const { args = [], env = {}, readyTimeoutMs = 60_000, bundle = false } = this.#options;
    const own = bundle ? [...bundledArgs] : [...keelsond.args, '--debug'];
    const child = spawn(keelsond.program, [...own, '--state-dir', this.stateDir, ...args], {
      stdio: ['ignore', log, log],
      env: {
        ...process.env,
        NODE_COMPILE_CACHE: join(tmpdir(), 'keelson-test-compile-cache'),
        NODE_OPTIONS: '',
        ...env,
      },
    });
    closeSync(log);
    this.#process = child;
    child.on('error', () => undefined); // it has neither pid nor exit then, and is waited for in vain
    await until(
      () => `the daemon to answer; ${problemsOf(this)}`,
      async () => {
        if (child.exitCode !== null || child.signalCode !== null) return true;
        return (await request(this.socket, 'GET', '/1.0', undefined, { timeoutMs: 5000 })).status === 200;
      },
      { timeoutMs: readyTimeoutMs, intervalMs: 10 },
    );
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new Error(`The daemon ended with ${child.exitCode ?? child.signalCode}:\n${this.logs}`);
    }
  }

  request<T = unknown>(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<Answer<T>> {
    return request<T>(this.socket, method, path, body, options);
  }

  /** A request whose background operation, if it starts one, is waited for. @throws Error with the operation's error when it failed. */
  run(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<Operation | undefined> {
    return handled(this.#run(method, path, body, options));
  }

  async #run(method: string, path: string, body: unknown, options?: RequestOptions): Promise<Operation | undefined> {
    const answer = await this.request(method, path, body, options);
    if (answer.status >= 400) throw new Error(`${method} ${path}: ${answer.status} ${answer.body.error}`);
    if (answer.body.type !== 'async') return undefined;
    // Nothing is heard until it ends; how long that may take is for the test to say.
    const wait = `${answer.body.operation}/wait`;
    const { status, body: done } = await this.request<Operation>('GET', wait, undefined, { timeoutMs: 1_800_000 });
    if (status !== 200) throw new Error(`${method} ${path}: ${status} ${done.error}`);
    if (done.metadata.status_code !== 200) throw new Error(`${method} ${path}: ${done.metadata.err}`);
    return done.metadata;
  }

  /** SIGTERM, and SIGKILL when it does not end. Containers keep running. Resolves with its exit code; undefined when killed. */
  stop(timeoutMs = 30_000): Promise<number | undefined> {
    return this.#end('SIGTERM', timeoutMs);
  }

  /** SIGPWR: guests are shut down first, pools unmounted. Resolves as `stop` does. */
  shutDown(timeoutMs = 120_000): Promise<number | undefined> {
    return this.#end('SIGPWR', timeoutMs);
  }

  /** Ends it at once, as a crash would. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL', 30_000);
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  /** What names its state folder beside the daemon itself. */
  async leftovers(): Promise<Leftovers> {
    const found = await findLeftovers(this.stateDir);
    const processes = new Map([...found.processes].filter(([pid]) => pid !== this.pid));
    return { ...found, processes };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    await this.stop();
    await removeLeftovers(this.stateDir);
    if (this.#options.stateDir === undefined) rmSync(this.stateDir, { recursive: true, force: true, maxRetries: 5 });
  }

  async #end(signal: NodeJS.Signals, timeoutMs: number): Promise<number | undefined> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null)
      return child?.exitCode ?? undefined;
    const ended = once(child, 'exit');
    child.kill(signal);
    const timer = setTimeout(() => child.kill('SIGKILL'), patient(timeoutMs));
    await ended;
    clearTimeout(timer);
    return child.exitCode ?? undefined;
  }
}

/** Starts a daemon from source; when it does not come up nothing of it is left. */
export async function startDaemon(options: StartDaemonOptions = {}): Promise<TestDaemon> {
  const daemon = new TestDaemon(options);
  try {
    await daemon.start();
  } catch (error) {
    await daemon[Symbol.asyncDispose]();
    throw error;
  }
  return daemon;
}
