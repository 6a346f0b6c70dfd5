import { Transform, type TransformCallback } from 'node:stream';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

const compress = promisify(gzip);
/** Large enough that the members' own bytes do not count. */
const BLOCK = 1024 ** 2;

/**
 * Compresses as gzip does, several blocks at a time: each becomes a member of its own, which every reader of gzip
 * joins again. The work is done by the runtime's threads, not by the event loop; `threads` of them at most.
 */
export function parallelGzip(threads = 2): Transform {
  return new ParallelGzip(threads);
}

class ParallelGzip extends Transform {
  readonly #threads: number;
  #collected: Buffer[] = [];
  #size = 0;
  /** In the order of the content; the oldest is written first. */
  readonly #running: Promise<Buffer>[] = [];

  constructor(threads: number) {
    super({ highWaterMark: 256 * 1024 });
    this.#threads = threads;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#collected.push(chunk);
    this.#size += chunk.length;
    if (this.#size < BLOCK) return done();
    this.#begin();
    if (this.#running.length < this.#threads) return done();
    this.#finish(this.#writeOldest(), done);
  }

  override _flush(done: TransformCallback): void {
    // An empty stream is one empty member.
    if (this.#size > 0 || this.#running.length === 0) this.#begin();
    this.#finish(this.#writeAll(), done);
  }

  #finish(work: Promise<void>, done: TransformCallback): void {
    void (async () => {
      const error = await work.then(
        () => null,
        (reason: unknown) => (reason instanceof Error ? reason : new Error(String(reason))),
      );
      done(error);
    })();
  }

  #begin(): void {
    const block = compress(Buffer.concat(this.#collected, this.#size));
    block.catch(() => undefined); // awaited when its turn comes
    this.#running.push(block);
    this.#collected = [];
    this.#size = 0;
  }

  async #writeAll(): Promise<void> {
    while (this.#running.length > 0) await this.#writeOldest();
  }

  async #writeOldest(): Promise<void> {
    this.push(await this.#running.shift());
  }
}
