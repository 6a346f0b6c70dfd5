import type { InstanceExecPost, Operation as OperationRecord } from '@keelson/api';
import type { Connection } from './connection.ts';
import { deferred } from './deferred.ts';
import type { ModelContext } from './model.ts';
import type { SocketEvent, WebSocketLike } from './transport/types.ts';

export type ExecInput = string | Uint8Array | AsyncIterable<Uint8Array | string>;

export interface ExecOptions {
  readonly environment?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Numeric ids in the guest; default root. */
  readonly user?: number;
  readonly group?: number;
  /** What the command reads; without it its input is empty. */
  readonly stdin?: ExecInput;
  /** Kills the command and rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

export interface ShellOptions extends ExecOptions {
  /** Columns and rows of the terminal; default 80 by 24. */
  readonly width?: number;
  readonly height?: number;
}

/** How a command ended. */
export interface ExecResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Output of one stream of a command, as it comes; text at the end with `text()`. Iterate or ask once, not both. */
export class OutputStream implements AsyncIterable<Uint8Array> {
  readonly #chunks: Uint8Array[] = [];
  #ended = false;
  #wake: (() => void) | undefined;

  /** @internal */
  push(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
    this.#wake?.();
  }

  /** @internal */
  end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      const chunk = this.#chunks.shift();
      if (chunk !== undefined) yield chunk;
      else if (this.#ended) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  /** Everything until the stream's end, decoded as UTF-8. */
  async text(): Promise<string> {
    const decoder = new TextDecoder();
    let text = '';
    for await (const chunk of this) text += decoder.decode(chunk, { stream: true });
    return text + decoder.decode();
  }
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
  constructor(sockets: ExecSockets, ended: Promise<number>) {
    this.#control = sockets.control;
    this.#stdin = sockets.stdin;
    this.#sockets = sockets.all;
    this.stdout = sockets.output.stdout;
    this.stderr = sockets.output.stderr;
    const outputs = sockets.ended;
    this.exited = ended.then(async (code) => {
      await outputs;
      this.#close();
      return code;
    });
    this.exited.catch(() => this.#close());
  }

  /** Sends input; resolves when the connection took it. */
  async write(data: string | Uint8Array): Promise<void> {
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

/** Starts a command over the exec websockets. `POST /1.0/instances/<name>/exec` */
export async function startExec(
  context: ModelContext,
  path: string,
  body: InstanceExecPost,
  options: Pick<ExecOptions, 'signal' | 'stdin'>,
): Promise<ExecProcess> {
  const { connection, operations } = context;
  const request = { ...body, 'wait-for-websocket': true };
  const { metadata, operation } = await connection.request<OperationRecord>('POST', `${path}/exec`, {
    json: request,
    signal: options.signal,
  });
  const fds = (metadata.metadata as { fds?: Record<string, string> } | null)?.fds ?? {};
  const sockets = await openSockets(connection, operation, fds, body.interactive === true);
  const waited = operations
    .wait(operation)
    .then((ended) => Number((ended.metadata as { return?: number } | null)?.return ?? -1));
  const process = new ExecProcess(
    sockets,
    aborting(waited, options.signal, () => process.kill(9)),
  );
  void feed(process, options.stdin, body.interactive === true);
  return process;
}

/** Listens to each socket as soon as it is open: output may come before the last one stands. */
async function openSockets(
  connection: Connection,
  operation: string,
  fds: Record<string, string>,
  interactive: boolean,
): Promise<ExecSockets> {
  const output = { stdout: new OutputStream(), stderr: new OutputStream() };
  const ended: Promise<void>[] = [];
  const open = async (name: string, stream?: OutputStream): Promise<WebSocketLike> => {
    const path = `${operation.split('?')[0]}/websocket`;
    const socket = await connection.openWebSocket(path, { query: { secret: fds[name] } });
    socket.binaryType = 'arraybuffer';
    if (stream !== undefined) ended.push(receive(socket, stream));
    return socket;
  };
  if (interactive) {
    output.stderr.end();
    const [control, terminal] = await Promise.all([open('control'), open('0', output.stdout)]);
    // LXD ends the operation when this side closes the terminal after its last output.
    void Promise.all(ended).then(() => terminal.close());
    return { control, stdin: terminal, all: [control, terminal], output, ended: Promise.all(ended) };
  }
  const all = await Promise.all([open('control'), open('0'), open('1', output.stdout), open('2', output.stderr)]);
  return { control: all[0], stdin: all[1], all, output, ended: Promise.all(ended) };
}

/** The exit code, or the signal's reason as soon as it aborts. */
function aborting(waited: Promise<number>, signal: AbortSignal | undefined, kill: () => void): Promise<number> {
  if (signal === undefined) return waited;
  const { promise, resolve, reject } = deferred<number>();
  const abort = (): void => {
    kill();
    reject(signal.reason);
  };
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) queueMicrotask(abort);
  void waited.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  return promise;
}

async function feed(process: ExecProcess, stdin: ExecInput | undefined, interactive: boolean): Promise<void> {
  try {
    if (typeof stdin === 'string' || stdin instanceof Uint8Array) await process.write(stdin);
    else if (stdin !== undefined) for await (const chunk of stdin) await process.write(chunk);
    if (!interactive) process.endInput();
  } catch {
    process.kill(9); // input that breaks off must not look like its end
  }
}

/** Resolves at the stream's end: an empty text message or the socket's close. */
function receive(socket: WebSocketLike, output: OutputStream): Promise<void> {
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
