import { closeSync, readdirSync, readlinkSync, writeSync } from 'node:fs';
import type { ReadStream } from 'node:tty';
import { errnoOf, fileOfProcess } from './syscalls.ts';
import { addsReturns, hasRoom } from './termios.ts';

/** Calls `done` when the terminal has all of it, or nobody will read it any more. */
export type Write = (data: Buffer, done: () => void) => void;

interface TerminalTool {
  /** The end of its terminal that is ours. */
  readonly master: ReadStream;
  readonly fd: number;
  readonly pid: number | undefined;
  readonly exited: Promise<number>;
  /** Whether the terminal it opens for its command is in its own hands, or in another process's. */
  readonly opensTerminal: boolean;
}

/** How often a terminal that takes no input is asked again, in milliseconds. */
const RETRY = 2;
/** How long the tool may take to set its terminal up, in milliseconds. */
const READY_LIMIT = 10_000;
/** A terminal that has any room takes this much without waiting. */
const PIECE = 1024;

/**
 * Writes input once the tool has set its terminal up (or will not any more), and as fast as the command reads it; never
 * waits for it on this thread. Straight to the terminal of the command where that can be had: the tool itself waits
 * until the command has read what it passes on, and meanwhile nobody reads what the command writes, so that both would
 * wait for ever.
 */
export function terminalInput(tool: TerminalTool): Write {
  const { master, fd, pid, exited } = tool;
  const limit = Date.now() + READY_LIMIT;
  let target: number | undefined;
  let inner: number | undefined;
  let over = false;
  void exited.then(() => {
    over = true;
    if (inner !== undefined) closeSync(inner);
    inner = undefined;
  });
  return function write(data, done) {
    if (over || master.destroyed) {
      done();
      return;
    }
    if (target === undefined && (addsReturns(fd) || Date.now() >= limit)) {
      inner = tool.opensTerminal && pid !== undefined ? terminalOf(pid) : undefined;
      target = inner ?? fd;
    }
    const rest = target === undefined ? data : data.subarray(writeSome(target, data));
    if (rest.length === 0) done();
    else setTimeout(write, RETRY, rest, done);
  };
}

/**
 * The terminal that a process has made for another, as a descriptor of the caller: what is written there is typed.
 * Undefined when there is none, or the kernel does not let us have it.
 */
function terminalOf(pid: number): number | undefined {
  const folder = `/proc/${pid}/fd`;
  try {
    const made = readdirSync(folder).find((name) => readlinkSync(`${folder}/${name}`).endsWith('/ptmx'));
    return made === undefined ? undefined : fileOfProcess(pid, Number(made));
  } catch {
    return undefined; // it has ended, or is out of reach
  }
}

/** Returns how many bytes the terminal took: none while it is full, all when nobody has it open. */
function writeSome(fd: number, data: Buffer): number {
  let written = 0;
  try {
    // Asked before every piece: the one that the tool made would let this thread wait.
    while (written < data.length && hasRoom(fd)) written += writeSync(fd, data.subarray(written, written + PIECE));
    return written;
  } catch (error) {
    return errnoOf(error) === 'EAGAIN' ? written : data.length;
  }
}
