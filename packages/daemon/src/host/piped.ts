import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { COMMAND_ENVIRONMENT } from './run.ts';

export interface PipedProcess {
  /** Undefined when it could not be started; `exited` is then 126. */
  readonly pid: number | undefined;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Exit code, 128 and the signal's number when one ended it; never rejects. */
  readonly exited: Promise<number>;
}

/** Starts a process whose three streams are pipes of the caller. Always an argument vector. */
export function spawnPiped(command: string, args: readonly string[], cwd: string): PipedProcess {
  const child = spawn(command, args, { cwd, stdio: ['pipe', 'pipe', 'pipe'], env: { ...COMMAND_ENVIRONMENT } });
  child.stdin.on('error', () => undefined); // the command may end before it read everything
  const exited = new Promise<number>((resolve) => {
    child.once('error', () => resolve(126));
    child.once('exit', (code, signal) => resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])));
  });
  return { pid: child.pid, stdin: child.stdin, stdout: child.stdout, stderr: child.stderr, exited };
}
