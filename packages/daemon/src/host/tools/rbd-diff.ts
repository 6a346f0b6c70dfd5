import { PassThrough, type Readable } from 'node:stream';
import { type CommandOutput, commandOutput, writable } from '../command-output.ts';
import { runStream } from '../run-stream.ts';
import { rbdArguments, type RbdPlace, unreachable } from './rbd.ts';

const DAY = 24 * 3_600_000;
/** Milliseconds rbd has to end by itself. */
const LETTING_GO = 10_000;

/** A state of an image: one of its snapshots, or what it is now. */
export interface RbdState {
  readonly image: string;
  readonly snapshot: string | undefined;
}

/** Arguments that print a state, or what changed since the snapshot `from`. */
export function exportArguments({ image, snapshot }: RbdState, from: string | undefined): string[] {
  return [
    ...['export-diff', '--no-progress', '--image', image],
    ...(snapshot === undefined ? [] : ['--snap', snapshot]),
    ...(from === undefined ? [] : ['--from-snap', from]),
    ...['--path', '-'],
  ];
}

/** Stream of a state as `rbd import-diff` reads it. */
export function exportDiff(
  place: RbdPlace,
  state: RbdState,
  options: { readonly from: string | undefined; readonly signal?: AbortSignal | undefined },
): CommandOutput {
  const args = rbdArguments(place, exportArguments(state, options.from), true);
  return commandOutput('rbd', args, {
    timeout: DAY,
    signal: options.signal,
    explain: (error) => unreachable(error, place),
  });
}

/**
 * Writes a stream of `exportDiff` into the image, which must have what it builds on; what it says is not checked. When the
 * stream fails, or `signal` aborts, rbd sees its end and lets the image go: one that is killed holds it for half a minute.
 * @throws unavailable when the cluster does not answer, what the stream fails with, else CommandError with rbd's words.
 */
export async function importDiff(
  place: RbdPlace,
  image: string,
  stream: Readable,
  signal?: AbortSignal,
): Promise<void> {
  const args = rbdArguments(place, ['import-diff', '--no-progress', '--image', image, '--path', '-'], true);
  const input = new PassThrough({ highWaterMark: 1024 * 1024 });
  input.on('error', () => undefined); // rbd may end before it read everything; its exit code tells
  const kill = new AbortController();
  let late: NodeJS.Timeout | undefined;
  const giveUp = (error: unknown): void => {
    late ??= setTimeout(() => kill.abort(error), LETTING_GO);
    input.end();
  };
  const onAbort = (): void => giveUp(signal?.reason);
  signal?.addEventListener('abort', onAbort, { once: true });
  const fed = feed(stream, input);
  fed.catch(giveUp);
  try {
    await runStream('rbd', args, { stdin: input, timeout: DAY, signal: kill.signal });
  } catch (error) {
    // A stream that failed is why rbd did.
    await Promise.race([fed, Promise.resolve()]);
    throw unreachable(error, place);
  } finally {
    clearTimeout(late);
    signal?.removeEventListener('abort', onAbort);
    input.destroy();
  }
  await fed;
}

/** @throws what the stream fails with. */
async function feed(stream: Readable, input: PassThrough): Promise<void> {
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    if (input.writableEnded || input.destroyed) return; // nobody reads any more
    if (!input.write(chunk)) await writable(input);
  }
  input.end();
}
