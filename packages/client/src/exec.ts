import type { InstanceConsolePost, InstanceExecPost, Operation as OperationRecord } from '@keelson/api';
import type { Connection } from './connection.ts';
import { deferred } from './deferred.ts';
import { ClientConnectionFailed } from './errors.ts';
import type { ModelContext } from './model.ts';
import { OutputStream } from './output-stream.ts';
import { projectOf } from './resources/common.ts';
import type { SocketEvent, WebSocketLike } from './transport/types.ts';

/** What a command reads. */
export type ExecInput = string | Uint8Array | AsyncIterable<Uint8Array | string>;

/** How a command runs. */
export interface ExecOptions {
  /** Added to the environment that the server gives. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Folder in the guest; default the user's home. */
  readonly cwd?: string;
  /** Numeric ids in the guest; default root. */
  readonly user?: number;
  /** Numeric id in the guest; default root. */
  readonly group?: number;
  /** What the command reads. Without it the input of `execute` is empty, that of `exec` stays open for `write`. */
  readonly stdin?: ExecInput;
  /** Kills the command and rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Milliseconds that the server has to say how a command ended whose connection broke off, before `exited` rejects;
   * default 5000.
   */
  readonly lossTimeout?: number;
}

/** How a command runs on a terminal. */
export interface ShellOptions extends ExecOptions {
  /** Columns and rows of the terminal; default 80 by 24. */
  readonly width?: number;
  /** Rows; default 24. */
  readonly height?: number;
}

/** How a command ended. */
export interface ExecResult {
  /** 0 to 255; 128+n when signal n ended the command. */
  readonly exitCode: number;
  /** All it printed, as UTF-8. */
  readonly stdout: string;
  /** All it complained, as UTF-8. */
  readonly stderr: string;
}

/** A command that runs in an instance. Disposing kills it if it still runs. */
export class ExecProcess implements AsyncDisposable {
  /** Output of a plain command; of an interactive one everything its terminal shows. */
  readonly stdout: OutputStream;
  /** Empty for an interactive command. */
  readonly stderr: OutputStream;
  /** Exit code; 128+n when signal n ended the command. Rejects when the connection was lost or the signal aborted. */
  readonly exited: Promise<number>;
  readonly #control: WebSocketLike;
  readonly #stdin: WebSocketLike;
  readonly #sockets: readonly WebSocketLike[];

  /** @internal */
  constructor(sockets: ExecSockets, ended: Promise<number>, signal: AbortSignal | undefined) {
    this.#control = sockets.control;
    this.#stdin = sockets.stdin;
    this.#sockets = sockets.all;
    this.stdout = sockets.output.stdout;
    this.stderr = sockets.output.stderr;
    const abort = (): void => {
      this.kill(9);
      this.#close();
    };
    signal?.addEventListener('abort', abort, { once: true });
    if (signal?.aborted) abort();
    this.exited = ended
      .then(async (code) => {
        await sockets.ended;
        signal?.throwIfAborted();
        return code;
      })
      .finally(() => {
        signal?.removeEventListener('abort', abort);
        this.#close();
      });
    this.exited.catch(() => undefined);
  }

  /** Sends input; resolves when the connection took it. */
  async write(data: string | Uint8Array): Promise<void> {
    if (data.length === 0) return;
    this.#stdin.send(typeof data === 'string' ? new TextEncoder().encode(data) : data);
    while (this.#stdin.bufferedAmount > HIGH_WATER && this.#stdin.readyState === OPEN) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  /** Ends the command's input. */
  endInput(): void {
    // LXD's protocol: an empty text message is the end of a stream.
    if (this.#stdin.readyState === OPEN) this.#stdin.send('');
  }

  /** Changes the size of an interactive command's terminal. */
  resize(width: number, height: number): void {
    this.#tell({ command: 'window-resize', args: { width: String(width), height: String(height) } });
  }

  /** Sends a signal by number, for example 15. */
  kill(signal = 15): void {
    this.#tell({ command: 'signal', signal });
  }

  /** Kills the command if it runs and closes the connection. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.kill(9);
    this.#close();
    await this.exited.catch(() => undefined);
  }

  #tell(message: object): void {
    if (this.#control.readyState === OPEN) this.#control.send(JSON.stringify(message));
  }

  #close(): void {
    for (const socket of this.#sockets) socket.close();
    this.stdout.end();
    this.stderr.end();
  }
}

const OPEN = 1;
const HIGH_WATER = 1024 * 1024;

interface ExecSockets {
  readonly control: WebSocketLike;
  readonly stdin: WebSocketLike;
  readonly all: readonly WebSocketLike[];
  readonly output: { readonly stdout: OutputStream; readonly stderr: OutputStream };
  /** Resolves when every output stream ended. */
  readonly ended: Promise<unknown>;
}

/** Starts what `path` stands for, a command or a console, over the websockets that the server offers. */
export async function startExec(
  context: ModelContext,
  path: string,
  body: StartBody,
  options: Pick<ExecOptions, 'signal' | 'stdin' | 'lossTimeout'>,
): Promise<ExecProcess> {
  const { connection, operations } = context;
  const { signal, stdin, lossTimeout = LOSS_MS } = options;
  const { interactive, ...others } = body;
  const json = path.endsWith('/console') ? others : body;
  const { metadata, operation } = await connection.request<OperationRecord>('POST', path, { json, signal });
  const fds = (metadata.metadata as { fds?: Record<string, string> } | null)?.fds ?? {};
  try {
    const sockets = await openSockets({ connection, operation, fds, signal }, interactive);
    const lost = lossOf(sockets.control, lossTimeout, {
      method: 'POST',
      url: path,
      endpoint: connection.transport.endpoint,
    });
    const ended = Promise.race([operations.wait(operation, { signal: anyOf(signal, lost.signal) }), lost.failure])
      .then((record) => Number((record.metadata as { return?: number } | null)?.return ?? 0))
      .finally(() => lost.stop());
    const process = new ExecProcess(sockets, ended, signal);
    void feed(process, stdin, interactive);
    return process;
  } catch (error) {
    // Without its sockets the command would wait for them until the server gives up.
    await operations.cancel(operation).catch(() => undefined);
    throw error;
  }
}

/**
 * Watches for a control socket that breaks off without a close. The server then kills the command, which ends its
 * operation; a server that never says so must not be waited for without end.
 */
function lossOf(control: WebSocketLike, timeout: number, where: Where): Loss {
  const gone = new AbortController();
  const { promise, reject } = deferred<never>();
  promise.catch(() => undefined);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let over = false;
  const fail = (): void => {
    reject(new ClientConnectionFailed('The connection to the command was lost', where));
    gone.abort();
  };
  control.addEventListener('close', ({ code }) => {
    // Once nobody waits any more, a timer would only hold the program back.
    if (code === BROKEN_OFF && !over) timer = setTimeout(fail, timeout);
  });
  const stop = (): void => {
    over = true;
    clearTimeout(timer);
  };
  return { signal: gone.signal, failure: promise, stop };
}

type Where = ConstructorParameters<typeof ClientConnectionFailed>[1];

interface Loss {
  readonly signal: AbortSignal;
  readonly failure: Promise<never>;
  stop(): void;
}

/** Close code of a websocket that ended without one. */
const BROKEN_OFF = 1006;
/** Default of `lossTimeout`. */
const LOSS_MS = 5000;

function anyOf(one: AbortSignal | undefined, other: AbortSignal): AbortSignal {
  return one === undefined ? other : AbortSignal.any([one, other]);
}

/** Body of `POST …/exec` or `…/console`. */
type StartBody = (Partial<InstanceExecPost> | InstanceConsolePost) & { readonly interactive: boolean };

interface SocketPlan {
  readonly connection: Connection;
  readonly operation: string;
  /** Secret of each socket by name. */
  readonly fds: Readonly<Record<string, string>>;
  readonly signal: AbortSignal | undefined;
}

/** Listens to each socket as soon as it is open: output may come before the last one stands. */
async function openSockets(plan: SocketPlan, interactive: boolean): Promise<ExecSockets> {
  const output = { stdout: new OutputStream(), stderr: new OutputStream() };
  const ended: Promise<void>[] = [];
  const opened: WebSocketLike[] = [];
  const open = async (name: string, stream?: OutputStream): Promise<WebSocketLike> => {
    const path = `${plan.operation.split('?')[0]}/websocket`;
    const query = { secret: plan.fds[name], project: projectOf(plan.operation) };
    const socket = await plan.connection.openWebSocket(path, { query, signal: plan.signal });
    opened.push(socket);
    socket.binaryType = 'arraybuffer';
    if (stream !== undefined) ended.push(receive(socket, stream));
    return socket;
  };
  if (interactive) output.stderr.end();
  const wanted = interactive
    ? [open('control'), open('0', output.stdout)]
    : [open('control'), open('0'), open('1', output.stdout), open('2', output.stderr)];
  const results = await Promise.allSettled(wanted);
  const refused = results.find((result) => result.status === 'rejected');
  if (refused !== undefined) {
    for (const socket of opened) socket.close();
    throw refused.reason;
  }
  const [control, stdin] = await Promise.all(wanted);
  if (control === undefined || stdin === undefined) throw new TypeError('exec needs a control and an input socket');
  const outputs = Promise.all(ended);
  // LXD ends the operation when this side closes the terminal after its last output.
  if (interactive) void outputs.then(() => stdin.close());
  return { control, stdin, all: opened, output, ended: outputs };
}

async function feed(process: ExecProcess, stdin: ExecInput | undefined, interactive: boolean): Promise<void> {
  try {
    if (stdin === undefined) return;
    if (typeof stdin === 'string' || stdin instanceof Uint8Array) await process.write(stdin);
    else for await (const chunk of stdin) await process.write(chunk);
    if (!interactive) process.endInput();
  } catch {
    process.kill(9); // input that breaks off must not look like its end
  }
}

/** Resolves at the stream's end: an empty text message or the socket's close. */
function receive(socket: WebSocketLike, output: OutputStream): Promise<void> {
  output.readFrom(socket);
  return new Promise((resolve) => {
    const end = (): void => {
      output.end();
      resolve();
    };
    socket.addEventListener('message', ({ data }: SocketEvent) => {
      if (typeof data === 'string') {
        if (data === '') end();
        else output.push(new TextEncoder().encode(data));
      } else output.push(new Uint8Array(data as ArrayBuffer));
    });
    socket.addEventListener('close', end);
    socket.addEventListener('error', end);
  });
}
