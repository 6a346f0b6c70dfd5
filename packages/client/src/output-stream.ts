import type { WebSocketLike } from './transport/types.ts';

/** Bytes of output that are kept for a slow reader; the command waits beyond. */
const OUTPUT_BYTES = 1024 * 1024;

/**
 * Output of one stream of a command, as it comes; text at the end with `text()`. Iterate or ask once, not both. Of
 * what is not read yet 1 MiB is kept: then the command waits, so read every stream or `discard()` it. Browsers' sockets
 * cannot wait: there it is all kept.
 */
export class OutputStream implements AsyncIterable<Uint8Array> {
  readonly #chunks: Uint8Array[] = [];
  #bytes = 0;
  #ended = false;
  #discarding = false;
  #paused = false;
  #source: Pick<WebSocketLike, 'pause' | 'resume'> = {};
  #wake: (() => void) | undefined;

  /** @internal Where the bytes come from: paused while the reader is slow. */
  readFrom(source: Pick<WebSocketLike, 'pause' | 'resume'>): void {
    this.#source = source;
  }

  /** @internal */
  push(chunk: Uint8Array): void {
    if (this.#ended || this.#discarding) return;
    this.#chunks.push(chunk);
    this.#bytes += chunk.byteLength;
    if (this.#bytes > OUTPUT_BYTES && !this.#paused) {
      this.#paused = true;
      this.#source.pause?.();
    }
    this.#wake?.();
  }

  /** @internal What was kept can still be read. */
  end(): void {
    this.#ended = true;
    this.#resume();
    this.#wake?.();
  }

  /** Throws away what was not read, and what comes. */
  discard(): void {
    this.#discarding = true;
    this.#chunks.length = 0;
    this.#resume();
  }

  /** Leaving the loop throws away the rest. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    try {
      for (;;) {
        const chunk = this.#chunks.shift();
        if (chunk !== undefined) {
          this.#bytes -= chunk.byteLength;
          if (this.#bytes < OUTPUT_BYTES / 2) this.#resume();
          yield chunk;
        } else if (this.#ended) return;
        else await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      this.discard();
    }
  }

  /** Everything until the stream's end, decoded as UTF-8. */
  async text(): Promise<string> {
    const decoder = new TextDecoder();
    let text = '';
    for await (const chunk of this) text += decoder.decode(chunk, { stream: true });
    return text + decoder.decode();
  }

  #resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#source.resume?.();
  }
}
