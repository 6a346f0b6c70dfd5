import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { CommandOutput } from '../../../host/command-output.ts';
import { exportDiff, type RbdState } from '../../../host/tools/rbd-diff.ts';
import { byteCounter } from '../common/byte-counter.ts';
import type { NativeSend, ProgressOptions } from '../contract.ts';
import type { CephContext } from './context.ts';
import { DiffStream } from './diff-stream.ts';
import { snapshotName } from './names.ts';

/** What is sent as the volume itself: a snapshot, whose name must not arrive as one (`nameless`). */
interface Source extends RbdState {
  readonly snapshot: string;
  readonly nameless: boolean;
}

/** A volume on its way out; `frozen` goes with it. */
export class CephSend implements NativeSend {
  readonly #pool: CephContext;
  readonly #source: Source;
  #frozen: AsyncDisposable | undefined;
  readonly #running = new Set<CommandOutput>();

  constructor(pool: CephContext, source: Source, frozen?: AsyncDisposable) {
    this.#pool = pool;
    this.#source = source;
    this.#frozen = frozen;
  }

  async open(part: string | undefined, parent: string | undefined, options: ProgressOptions = {}): Promise<Readable> {
    const { image, nameless, snapshot: own } = this.#source;
    const snapshot = part === undefined ? own : snapshotName(part);
    const from = parent === undefined ? undefined : snapshotName(parent);
    const sending = exportDiff(this.#pool.place, { image, snapshot }, { from, signal: options.signal });
    this.#running.add(sending);
    void sending.ended.then(() => this.#running.delete(sending));
    const count = byteCounter('Sending', options);
    sending.output.on('data', (chunk: Buffer) => count(chunk.length)).pause(); // a listener makes it flow
    if (part !== undefined || !nameless) return sending.output;
    const renamed = new DiffStream({ from: async (name) => name, to: undefined, limit: Number.MAX_SAFE_INTEGER });
    void pipeline(sending.output, renamed).catch(() => undefined); // who reads the stream learns of it
    return renamed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { output, ended } of this.#running) {
      output.destroy();
      await ended;
    }
    const frozen = this.#frozen;
    this.#frozen = undefined;
    await frozen?.[Symbol.asyncDispose]();
  }
}
