import { spawn } from 'node:child_process';
import { closeSync } from 'node:fs';
import { constants } from 'node:os';
import { Duplex } from 'node:stream';
import { ReadStream } from 'node:tty';
import { COMMAND_ENVIRONMENT } from './run.ts';
import { terminalInput, type Write } from './terminal-input.ts';
import { openTerminal, setSize } from './termios.ts';

export interface TerminalProcess {
  /** Undefined when it could not be started; `exited` is then 126. */
  readonly pid: number | undefined;
  /**
   * Both directions of the terminal. Ends when the process has ended and all of its output was read; what is not
   * read holds the process back. Input waits until the process has set its terminal up.
   */
  readonly terminal: Duplex;
  readonly exited: Promise<number>;
  resize(width: number, height: number): void;
}

export interface TerminalOptions {
  readonly width: number;
  readonly height: number;
  readonly cwd?: string;
  /**
   * The tool does not open the terminal of the command itself: one more in between adds a carriage return of its own,
   * as liblxc's console proxy does.
   */
  readonly proxied?: boolean;
}

/**
 * Starts one of liblxc's tools on a raw terminal of its own: they open a second terminal behind it (only that one
 * edits lines), set ours to add carriage returns, and throw away what was typed until then. Always an argument
 * vector. @throws when no terminal can be had.
 */
export function spawnOnTerminal(command: string, args: readonly string[], options: TerminalOptions): TerminalProcess {
  const { master: fd, slave } = openTerminal(clampSize(options.width, 80), clampSize(options.height, 24));
  const master = new ReadStream(fd);
  try {
    // The tools talk to /dev/tty: the terminal must be the controlling one of a session of their own.
    const child = spawn('setsid', ['--ctty', command, ...args], {
      cwd: options.cwd ?? '/',
      env: { ...COMMAND_ENVIRONMENT, TERM: 'xterm-256color' },
      stdio: [slave, slave, slave],
    });
    const exited = new Promise<number>((resolve) => {
      child.once('error', () => resolve(126));
      child.once('exit', (code, signal) => resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])));
    });
    const proxied = options.proxied === true;
    const input = terminalInput({ master, fd, pid: child.pid, exited, opensTerminal: !proxied });
    return {
      pid: child.pid,
      terminal: terminalStream(master, input, proxied),
      exited,
      resize: (width, height) => {
        if (!master.destroyed) setSize(fd, clampSize(width, 80), clampSize(height, 24));
      },
    };
  } catch (error) {
    master.destroy();
    throw error;
  } finally {
    closeSync(slave);
  }
}

/** The kernel keeps sizes in 16 bits; zero means "not known" to the caller. */
function clampSize(size: number, fallback: number): number {
  return Number.isInteger(size) && size > 0 ? Math.min(size, 65_535) : fallback;
}

const READ_AHEAD = 64 * 1024;

function terminalStream(master: ReadStream, write: Write, proxied: boolean): Duplex {
  const stream = new Duplex({
    readableHighWaterMark: READ_AHEAD,
    read: () => {
      master.resume();
      returns.wait();
      second.wait();
    },
    write: (chunk: Buffer, _encoding, done) => write(chunk, () => done()), // nobody reads what comes after its end
    destroy: (error, done) => {
      master.destroy();
      done(error);
    },
  });
  const push = (data: Buffer): void => {
    if (stream.push(data)) return;
    master.pause();
    // The newline that a return waits for is not read either.
    returns.stay();
    second.stay();
  };
  const second = new ReturnFilter(push);
  const returns = new ReturnFilter(proxied ? (data) => second.add(data) : push);
  master.on('data', (data: Buffer) => returns.add(data));
  master.on('error', () => undefined); // EIO: all of its output was read and nobody has the terminal open
  master.once('close', () => {
    returns.flush();
    second.flush();
    stream.push(null);
  });
  master.pause();
  return stream;
}

const RETURN = 0x0d;
const NEWLINE = 0x0a;
/** How long a carriage return at the end of a read waits for its newline, in milliseconds. */
const HOLD_MS = 50;
/** And one that follows another: such are those that are taken back, and hardly any other. */
const SECOND_HOLD_MS = 1000;

/**
 * Takes back what a second terminal does to the output of the first: lxc-attach turns "newline becomes return and
 * newline" on for the outer terminal before it starts the command, although the guest's own does it already. A read
 * may end between the two.
 */
export class ReturnFilter {
  readonly #emit: (data: Buffer) => void;
  /** A carriage return that may be one to take back. */
  #held = false;
  /** It follows another. */
  #second = false;
  #last: number | undefined;
  #stays = false;
  #timer: NodeJS.Timeout | undefined;
  #turn: NodeJS.Immediate | undefined;

  constructor(emit: (data: Buffer) => void) {
    this.#emit = emit;
  }

  add(data: Buffer): void {
    this.#disarm();
    const all = this.#held ? Buffer.concat([Buffer.of(RETURN), data]) : data;
    const output = this.#strip(all);
    this.#second = (all.length > 1 ? all.at(-2) : this.#last) === RETURN;
    this.#last = all.at(-1);
    if (output.length > 0) this.#emit(output);
    this.#arm();
  }

  /** Nothing is read until `wait`: what is held back stays so. */
  stay(): void {
    this.#stays = true;
    this.#disarm();
  }

  /** What is held back waits for what is read now. */
  wait(): void {
    if (!this.#stays) return;
    this.#stays = false;
    this.#arm();
  }

  /** Gives out what is held back. */
  flush(): void {
    this.#disarm();
    if (this.#held) this.#emit(Buffer.of(RETURN));
    this.#held = false;
  }

  #arm(): void {
    if (!this.#held || this.#stays) return;
    this.#timer = setTimeout(() => this.#afterReading(), this.#second ? SECOND_HOLD_MS : HOLD_MS);
  }

  /** A thread that was held up finds its timers first: what came meanwhile is read in the turn after them. */
  #afterReading(): void {
    this.#turn = setImmediate(() => {
      this.#turn = setImmediate(() => this.flush());
    });
  }

  #disarm(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#turn);
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
