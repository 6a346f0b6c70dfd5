import { NotFound } from '../errors.ts';
import type { TransportResponse } from '../transport/types.ts';

/** Whether the object that `request` fetches is there. Other failures are thrown. */
export async function exists(request: Promise<unknown>): Promise<boolean> {
  try {
    await request;
    return true;
  } catch (error) {
    if (error instanceof NotFound) return false;
    throw error;
  }
}

/** Last part of a URL path, decoded; the query is not part of it. */
export function nameOf(url: string): string {
  return decodeURIComponent(url.split('?')[0]?.split('/').at(-1) ?? '');
}

/** Bytes that the server streams: iterate them, or take them whole. */
export class Download implements AsyncIterable<Uint8Array> {
  /** Bytes to come, when the server said so. */
  readonly size: number | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly #response: TransportResponse;

  constructor(response: TransportResponse) {
    this.#response = response;
    this.headers = response.headers;
    const length = response.headers['content-length'];
    this.size = length === undefined ? undefined : Number(length);
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    return this.#response.body[Symbol.asyncIterator]();
  }

  /** Everything at once; mind the size. */
  bytes(): Promise<Uint8Array> {
    return this.#response.bytes();
  }
}
