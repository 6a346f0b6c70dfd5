const BATCH = 256 * 1024;

/**
 * Gathers the small pieces a network brings into large writes. Two buffers take turns: while one is written the
 * other fills, and nothing is allocated per piece. Dispose waits for the write that is under way.
 */
export class BatchWriter implements AsyncDisposable {
  readonly #write: (batch: Uint8Array) => Promise<void>;
  #filling = Buffer.allocUnsafe(BATCH);
  #spare = Buffer.allocUnsafe(BATCH);
  #length = 0;
  #writing: Promise<void> = Promise.resolve();

  /** `write` must be done with the bytes when it resolves. */
  constructor(write: (batch: Uint8Array) => Promise<void>) {
    this.#write = write;
  }

  /** @throws what an earlier write threw. */
  async add(piece: Uint8Array): Promise<void> {
    for (let offset = 0; offset < piece.length; ) {
      const part = piece.subarray(offset, offset + BATCH - this.#length);
      this.#filling.set(part, this.#length);
      this.#length += part.length;
      offset += part.length;
      if (this.#length === BATCH) await this.#start();
    }
  }

  /** Resolves when everything added was written. */
  async flush(): Promise<void> {
    if (this.#length > 0) await this.#start();
    await this.#writing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writing.catch(() => undefined);
  }

  async #start(): Promise<void> {
    await this.#writing;
    const batch = this.#filling.subarray(0, this.#length);
    [this.#filling, this.#spare] = [this.#spare, this.#filling];
    this.#length = 0;
    this.#writing = this.#write(batch);
    this.#writing.catch(() => undefined); // thrown by the next call
  }
}
