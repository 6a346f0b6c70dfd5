import type { IncomingMessage } from 'node:http';
import { deferred } from '../deferred.ts';
import type { TransportResponse } from './types.ts';

/** A body this small is read to its end when it is thrown away; a larger one costs more than a new connection. */
const WORTH_READING = 64 * 1024;

export interface NodeResponseOptions {
  /** Turns a failure within the body into the error to throw. */
  readonly wrap: (error: unknown) => Error;
  /** Milliseconds of silence within the body; undefined = no limit. */
  readonly timeout: number | undefined;
}

/** An answer of node:http. */
export class NodeResponse implements TransportResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly #incoming: IncomingMessage;
  readonly #options: NodeResponseOptions;

  constructor(incoming: IncomingMessage, options: NodeResponseOptions) {
    this.status = incoming.statusCode ?? 0;
    this.headers = incoming.headers as Record<string, string>;
    this.#incoming = incoming;
    this.#options = options;
  }

  get body(): AsyncIterable<Uint8Array> {
    const incoming = this.#incoming;
    const { wrap, timeout } = this.#options;
    return (async function* read(): AsyncIterable<Uint8Array> {
      const chunks = incoming[Symbol.asyncIterator]();
      try {
        for (;;) {
          const chunk = await limited(incoming, timeout, () => chunks.next());
          if (chunk.done) return;
          yield chunk.value as Uint8Array;
        }
      } catch (error) {
        throw wrap(error);
      } finally {
        if (!incoming.complete) incoming.destroy();
      }
    })();
  }

  async bytes(): Promise<Uint8Array> {
    const chunks = await this.#chunks();
    return chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
  }

  async text(): Promise<string> {
    const chunks = await this.#chunks();
    return (chunks.length === 1 ? chunks[0] : Buffer.concat(chunks))?.toString('utf8') ?? '';
  }

  async discard(): Promise<void> {
    const length = Number(this.headers['content-length'] ?? Number.POSITIVE_INFINITY);
    if (length <= WORTH_READING) this.#incoming.resume();
    else this.#incoming.destroy();
  }

  #chunks(): Promise<Buffer[]> {
    const { promise, resolve, reject } = deferred<Buffer[]>();
    const { wrap, timeout } = this.#options;
    const incoming = this.#incoming;
    if (incoming.destroyed) {
      // Its end came before anybody asked, and is not told again.
      reject(wrap(brokenOff()));
      return promise;
    }
    const chunks: Buffer[] = [];
    const timer = timeout === undefined ? undefined : setTimeout(() => incoming.destroy(silence(timeout)), timeout);
    incoming.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      timer?.refresh();
    });
    incoming.once('end', () => resolve(chunks));
    incoming.once('error', (error) => reject(wrap(error)));
    incoming.once('close', () => {
      clearTimeout(timer);
      reject(wrap(brokenOff()));
    });
    return promise;
  }
}

function brokenOff(): Error {
  return new Error('The connection was closed in the middle of the answer');
}

/** What a request ends with when the server stays silent. */
export function silence(timeout: number): Error {
  return new Error(`The server was silent for ${timeout} ms`);
}

/** The next piece, within the time limit. */
async function limited<T>(incoming: IncomingMessage, timeout: number | undefined, next: () => Promise<T>): Promise<T> {
  if (timeout === undefined) return next();
  const timer = setTimeout(() => incoming.destroy(silence(timeout)), timeout);
  try {
    return await next();
  } finally {
    clearTimeout(timer);
  }
}
