import { Duplex } from 'node:stream';
import { type IPty, spawn } from '@lydell/node-pty';
import { COMMAND_ENVIRONMENT } from './run.ts';
import { addsReturns, makeRaw } from './termios.ts';

export interface TerminalProcess {
  readonly pid: number;
  /** Both directions of the terminal; ends when the process has ended and its output was read. */
  readonly terminal: Duplex;
  readonly exited: Promise<number>;
  resize(width: number, height: number): void;
  kill(signal: NodeJS.Signals): void;
}

export interface TerminalOptions {
  readonly width: number;
  readonly height: number;
  readonly cwd?: string;
  /** One more terminal in between adds a carriage return of its own, as liblxc's console proxy does. */
  readonly proxied?: boolean;
}

/**
 * Starts a process on a raw terminal of its own, for tools that open a second terminal behind it (only that one edits
 * lines and adds carriage returns). Always an argument vector. @throws when it cannot be started.
 */
export function spawnOnTerminal(command: string, args: readonly string[], options: TerminalOptions): TerminalProcess {
  const pty = spawn(command, [...args], {
    name: 'xterm-256color',
    cols: clampSize(options.width, 80),
    rows: clampSize(options.height, 24),
    cwd: options.cwd ?? '/',
    env: { ...COMMAND_ENVIRONMENT },
    encoding: null,
  });
  const fd = 'fd' in pty && typeof pty.fd === 'number' ? pty.fd : -1;
  makeRaw(fd);
  const { promise: exited, resolve } = Promise.withResolvers<number>();
  const terminal = terminalStream(pty, fd, options.proxied === true);
  let ended = false;
  pty.onExit(({ exitCode, signal }) => {
    ended = true;
    resolve(signal === undefined || signal === 0 ? exitCode : 128 + signal);
  });
  return {
    pid: pty.pid,
    terminal,
    exited,
    resize: (width, height) => {
      if (!ended) pty.resize(clampSize(width, 80), clampSize(height, 24));
    },
    kill: (signal) => {
      if (!ended) pty.kill(signal);
    },
  };
}

/** The kernel keeps sizes in 16 bits; zero means "not known" to the caller. */
function clampSize(size: number, fallback: number): number {
  return Number.isInteger(size) && size > 0 ? Math.min(size, 65_535) : fallback;
}

/** Paused output is lost when the process ends meanwhile, so a slow reader gets a wide margin first. */
const READ_AHEAD = 1024 * 1024;

function terminalStream(pty: IPty, fd: number, proxied: boolean): Duplex {
  const writer: { write(data: string | Uint8Array): void } = pty; // it takes bytes, whatever the declared type says
  const stream = new Duplex({
    readableHighWaterMark: READ_AHEAD,
    allowHalfOpen: true,
    read: () => pty.resume(),
    write: (chunk: Buffer, _encoding, done) => {
      writer.write(chunk);
      done();
    },
    final: (done) => done(),
  });
  const push = (data: Buffer) => {
    if (!stream.push(data)) pty.pause();
  };
  const second = new ReturnFilter(push);
  const returns = new ReturnFilter(proxied ? (data) => second.add(data, () => true) : push);
  // With `encoding: null` the data is bytes, whatever the declared type says.
  const onData = (data: string | Uint8Array) => {
    returns.add(typeof data === 'string' ? Buffer.from(data) : Buffer.from(data), () => addsReturns(fd));
  };
  pty.onData(onData);
  pty.onExit(() => {
    returns.flush();
    second.flush();
    stream.push(null);
  });
  return stream;
}

const RETURN = 0x0d;
const NEWLINE = 0x0a;
/** How long a carriage return at the end of a read may wait for its newline. */
const HOLD_MS = 10;

/**
 * Takes back what a second terminal does to the output of the first: lxc-attach turns "newline becomes return and
 * newline" on for the outer terminal, although the guest's own has done it already.
 */
export class ReturnFilter {
  readonly #emit: (data: Buffer) => void;
  #active = false;
  #held = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(emit: (data: Buffer) => void) {
    this.#emit = emit;
  }

  /** `addsReturns`: asked until it is true once; the tool changes its terminal only at its start. */
  add(data: Buffer, addsReturns: () => boolean): void {
    this.#active ||= addsReturns();
    if (!this.#active) {
      this.#emit(data);
      return;
    }
    clearTimeout(this.#timer);
    const output = this.#strip(this.#held ? Buffer.concat([Buffer.of(RETURN), data]) : data);
    if (output.length > 0) this.#emit(output);
    if (this.#held) this.#timer = setTimeout(() => this.flush(), HOLD_MS);
  }

  /** Gives out what is held back. */
  flush(): void {
    clearTimeout(this.#timer);
    if (this.#held) this.#emit(Buffer.of(RETURN));
    this.#held = false;
  }

  #strip(data: Buffer): Buffer {
    const output = Buffer.allocUnsafe(data.length);
    let length = 0;
    for (let index = 0; index < data.length; index++) {
      const byte = data[index] ?? 0;
      if (byte !== RETURN || data[index + 1] !== NEWLINE) output[length++] = byte;
    }
    this.#held = data.at(-1) === RETURN;
    return output.subarray(0, this.#held ? length - 1 : length);
  }
}
