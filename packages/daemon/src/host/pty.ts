import { Duplex } from 'node:stream';
import { type IPty, spawn } from '@lydell/node-pty';
import { COMMAND_ENVIRONMENT } from './run.ts';

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
}

/** Starts a process on a terminal of its own. Always an argument vector. @throws when it cannot be started. */
export function spawnOnTerminal(command: string, args: readonly string[], options: TerminalOptions): TerminalProcess {
  const pty = spawn(command, [...args], {
    name: 'xterm-256color',
    cols: clampSize(options.width, 80),
    rows: clampSize(options.height, 24),
    cwd: options.cwd ?? '/',
    env: { ...COMMAND_ENVIRONMENT },
    encoding: null,
  });
  const { promise: exited, resolve } = Promise.withResolvers<number>();
  const terminal = terminalStream(pty);
  let ended = false;
  pty.onExit(({ exitCode, signal }) => {
    ended = true;
    terminal.push(null);
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

function terminalStream(pty: IPty): Duplex {
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
  // With `encoding: null` the data is bytes, whatever the declared type says.
  const onData = (data: string | Uint8Array) => {
    if (!stream.push(typeof data === 'string' ? Buffer.from(data) : data)) pty.pause();
  };
  pty.onData(onData);
  return stream;
}
