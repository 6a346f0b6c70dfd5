import { spawn } from 'node:child_process';
import { patient } from './patience.ts';
import { handled } from './poll.ts';

export interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CommandOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly input?: string | Uint8Array;
  readonly timeoutMs?: number;
  /** Resolve whatever the exit code is; default: reject unless it is 0. */
  readonly anyExit?: boolean;
}

/** Runs a program to its end. @throws Error with its stderr when it fails. */
export function command(
  program: string,
  args: readonly string[],
  options: CommandOptions = {},
): Promise<CommandResult> {
  const ended = new Promise<CommandResult>((resolve, reject) => {
    const child = spawn(program, args, {
      env: { ...process.env, ...options.env },
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      timeout: patient(options.timeoutMs ?? 120_000),
      killSignal: 'SIGKILL',
    });
    const out: Buffer[] = [];
    const err: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => err.push(chunk));
    child.stdin.on('error', () => undefined);
    child.stdin.end(options.input);
    child.on('error', reject);
    child.on('close', (exit) => {
      const result = {
        code: exit ?? 255,
        stdout: Buffer.concat(out).toString(),
        stderr: Buffer.concat(err).toString(),
      };
      if (result.code === 0 || options.anyExit === true) resolve(result);
      else reject(new Error(`${program} ${args.join(' ')}: exit ${result.code}: ${result.stderr}${result.stdout}`));
    });
  });
  return handled(ended);
}
