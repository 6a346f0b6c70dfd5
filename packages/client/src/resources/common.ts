import { NotFound } from '../errors.ts';
import type { ModelContext } from '../model.ts';
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

/** The project that a URL of a list names. */
export function projectOf(url: string): string | undefined {
  return new URLSearchParams(url.split('?')[1] ?? '').get('project') ?? undefined;
}

/** The same server seen from another project. */
export function inProject(context: ModelContext, project: string): ModelContext {
  return { ...context, connection: context.connection.with({ project }) };
}

/** Whether both are the same server, which then needs no connection to copy from the one to the other. */
export function sameServer(one: ModelContext, other: ModelContext): boolean {
  const [a, b] = [one.connection.transport, other.connection.transport];
  return a === b || a.endpoint === b.endpoint;
}

/**
 * A header under LXD's and Incus's name; each server reads its own.
 * @returns `X-LXD-<name>` and `X-Incus-<name>`; nothing for undefined
 */
export function serverHeaders(values: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined) continue;
    headers[`X-LXD-${name}`] = value;
    headers[`X-Incus-${name}`] = value;
  }
  return headers;
}

/** Bytes that the server streams: iterate them, or take them whole. */
export class Download implements AsyncIterable<Uint8Array> {
  /** Bytes to come, when the server said so. */
  readonly size: number | undefined;
  /** Headers of the answer, lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly #response: TransportResponse;

  /** @internal */
  constructor(response: TransportResponse) {
    this.#response = response;
    this.headers = response.headers;
    const length = response.headers['content-length'];
    this.size = length === undefined ? undefined : Number(length);
  }

  /** Bytes as they come. @throws ClientConnectionFailed when the connection breaks off */
  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    return this.#response.body[Symbol.asyncIterator]();
  }

  /** Everything at once; mind the size. */
  bytes(): Promise<Uint8Array> {
    return this.#response.bytes();
  }

  /** Throws the rest away. Needed only for a download that is not read to its end. */
  discard(): Promise<void> {
    return this.#response.discard();
  }
}
