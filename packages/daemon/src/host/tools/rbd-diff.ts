import type { Readable } from 'node:stream';
import { type CommandOutput, commandOutput } from '../command-output.ts';
import { runStream } from '../run-stream.ts';
import { rbdArguments, type RbdPlace, unreachable } from './rbd.ts';

const DAY = 24 * 3_600_000;

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
 * Writes a stream of `exportDiff` into the image, which must have what it builds on; what it says is not checked.
 * @throws unavailable when the cluster does not answer, else CommandError with rbd's words.
 */
export async function importDiff(
  place: RbdPlace,
  image: string,
  stream: Readable,
  signal?: AbortSignal,
): Promise<void> {
  const args = rbdArguments(place, ['import-diff', '--no-progress', '--image', image, '--path', '-'], true);
  try {
    await runStream('rbd', args, { stdin: stream, timeout: DAY, ...(signal === undefined ? {} : { signal }) });
  } catch (error) {
    throw unreachable(error, place);
  }
}
