import type { ExecProcess } from '@keelson/client';
import { spawnSync } from 'node:child_process';

const END_OF_INPUT = '\u0004';

/** Columns and rows of this terminal; 80 by 24 when there is none. */
export function terminalSize(): { readonly width: number; readonly height: number } {
  return { width: process.stdout.columns ?? 80, height: process.stdout.rows ?? 24 };
}

export interface AttachOptions {
  /** Sees what is typed before the guest does; true keeps it back. */
  readonly intercept?: (data: Buffer) => boolean;
}

/** Joins this terminal and the guest's until the command ends; afterwards the terminal is as it was. */
export async function attach(running: ExecProcess, options: AttachOptions = {}): Promise<number> {
  const { stdin, stdout } = process;
  const raw = stdin.isTTY === true;
  const resize = (): void => {
    const { width, height } = terminalSize();
    running.resize(width, height);
  };
  const type = (data: Buffer): void => {
    if (options.intercept?.(data) !== true) void running.write(data);
  };
  const ended = (): void => void running.write(END_OF_INPUT);
  if (raw) rawMode();
  else stdin.once('end', ended);
  stdin.on('data', type);
  stdin.resume();
  stdout.on('resize', resize);
  try {
    for await (const chunk of running.stdout) {
      if (!stdout.write(chunk)) await new Promise((resolve) => stdout.once('drain', resolve));
    }
    return await running.exited;
  } finally {
    stdin.off('data', type);
    stdin.off('end', ended);
    stdout.off('resize', resize);
    if (raw) stdin.setRawMode(false);
    stdin.pause();
    if (!raw) stdin.destroy();
  }
}

/** Raw both ways: Node leaves the terminal turning each line feed it is sent into a new line, which is the guest's to do. */
function rawMode(): void {
  process.stdin.setRawMode(true);
  spawnSync('stty', ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'] });
}

/** Asks on the terminal; `hidden` shows nothing of the answer. Undefined when there is no terminal to ask on. */
export async function ask(question: string, options: { readonly hidden?: boolean } = {}): Promise<string | undefined> {
  const { stdin, stderr } = process;
  if (stdin.isTTY !== true || stderr.isTTY !== true) return undefined;
  const { createInterface } = await import('node:readline/promises');
  const { Writable } = await import('node:stream');
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const reader = createInterface({ input: stdin, output: options.hidden ? silent : stderr, terminal: true });
  try {
    if (options.hidden) stderr.write(question);
    return await reader.question(options.hidden ? '' : question);
  } finally {
    reader.close();
    if (options.hidden) stderr.write('\n');
  }
}
