import { PassThrough, type Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { runStream } from '../run-stream.ts';
import type { ZfsCommand } from './zfs.ts';

const DAY = 24 * 3_600_000;

/** Output of a `zfs send`; it fails when the command does. `ended` resolves, never rejects, once the command is gone. */
export function sendDataset(
  [command = '', ...args]: ZfsCommand,
  options: { readonly signal?: AbortSignal | undefined; readonly onBytes: (count: number) => void },
): { readonly output: Readable; readonly ended: Promise<void> } {
  const output = new PassThrough({ highWaterMark: 1024 * 1024 });
  const stop = new AbortController();
  const signal = options.signal === undefined ? stop.signal : AbortSignal.any([options.signal, stop.signal]);
  output.once('close', () => stop.abort(new Error('the stream was closed')));
  const copy = async (from: Readable) => {
    for await (const chunk of from as AsyncIterable<Buffer>) {
      options.onBytes(chunk.length);
      if (!output.write(chunk)) await Promise.race([drained(output), finished(output, { readable: false })]);
    }
  };
  const ended = runStream(command, args, { signal, timeout: DAY, stdout: copy }).then(
    () => void output.end(),
    (error: unknown) => void output.destroy(error instanceof Error ? error : new Error(String(error))),
  );
  return { output, ended };
}

/** Feeds a stream to a `zfs receive`. @throws CommandError with zfs' words. */
export async function receiveDataset(
  [command = '', ...args]: ZfsCommand,
  stdin: Readable,
  signal?: AbortSignal,
): Promise<void> {
  await runStream(command, args, { stdin, timeout: DAY, ...(signal === undefined ? {} : { signal }) });
}

function drained(output: PassThrough): Promise<void> {
  return new Promise((resolve) => {
    output.once('drain', resolve);
    output.once('close', resolve);
  });
}
