import { PassThrough, type Readable } from 'node:stream';
import { runStream } from './run-stream.ts';

/** What a command prints, as it comes; it fails when the command does. */
export interface CommandOutput {
  readonly output: Readable;
  /** Resolves, never rejects, once the command is gone. */
  readonly ended: Promise<void>;
}

/** Runs a command for its output; the command ends when the output is closed. `timeout`: milliseconds. */
export function commandOutput(
  command: string,
  args: readonly string[],
  options: {
    readonly timeout: number;
    readonly signal?: AbortSignal | undefined;
    /** What the output fails with in place of a command's error. */
    readonly explain?: (error: unknown) => unknown;
  },
): CommandOutput {
  const { timeout, explain = (error: unknown) => error } = options;
  const output = new PassThrough({ highWaterMark: 1024 * 1024 });
  output.on('error', () => undefined); // whoever reads it learns of it, also later
  const stop = new AbortController();
  const signal = options.signal === undefined ? stop.signal : AbortSignal.any([options.signal, stop.signal]);
  output.once('close', () => stop.abort(new Error('the stream was closed')));
  const copy = async (from: Readable) => {
    for await (const chunk of from as AsyncIterable<Buffer>) if (!output.write(chunk)) await writable(output);
  };
  const ended = runStream(command, args, { signal, timeout, stdout: copy }).then(
    () => void output.end(),
    (error: unknown) => {
      const told = explain(error);
      output.destroy(told instanceof Error ? told : new Error(String(told)));
    },
  );
  return { output, ended };
}

/** Resolves when the stream takes more, or none any more. */
export function writable(output: PassThrough): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      output.off('drain', done).off('close', done);
      resolve();
    };
    if (output.destroyed) resolve();
    else output.on('drain', done).on('close', done);
  });
}
