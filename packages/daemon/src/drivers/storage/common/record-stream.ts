import { Transform, type TransformCallback } from 'node:stream';

/** Passes on a stream of records that a subclass reads, and may change, as they come. */
export abstract class RecordStream extends Transform {
  #buffered: Buffer = Buffer.alloc(0);
  /** What goes on of the present chunk. */
  #out: Buffer[] = [];

  constructor() {
    super({ highWaterMark: 1024 * 1024 });
  }

  /** Bytes of `content` that were dealt with; 0 when more are needed. A rejection fails the stream. */
  protected abstract step(content: Buffer): number | Promise<number>;

  /** Passes a part on. */
  protected emitPart(part: Buffer): void {
    // What follows the last part in the same memory makes one part with it: most of a stream goes on as it came.
    const last = this.#out.at(-1);
    const follows = last?.buffer === part.buffer && last.byteOffset + last.length === part.byteOffset;
    if (last === undefined || !follows) this.#out.push(part);
    else this.#out[this.#out.length - 1] = Buffer.from(part.buffer, last.byteOffset, last.length + part.length);
  }

  override async _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): Promise<void> {
    try {
      await this.#take(chunk);
    } catch (error) {
      done(error instanceof Error ? error : new Error(String(error)));
      return;
    }
    done();
  }

  async #take(chunk: Buffer): Promise<void> {
    let rest = this.#buffered.length === 0 ? chunk : Buffer.concat([this.#buffered, chunk]);
    for (;;) {
      const step = this.step(rest);
      const used = typeof step === 'number' ? step : await step;
      if (used === 0) break;
      rest = rest.subarray(used);
    }
    this.#buffered = rest;
    for (const part of this.#out) this.push(part);
    this.#out = [];
  }
}
