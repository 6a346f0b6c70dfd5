import { checkerOf, type Checker } from '@keelson/api';
import type { IncomingMessage } from 'node:http';
import type { TSchema } from 'typebox';
import { errors } from '../core/errors.ts';

/** Bytes a JSON body may have. */
export const JSON_LIMIT = 1024 * 1024;
/** Milliseconds a JSON body may take to arrive; then the connection is cut. */
const TIMEOUT = 60_000;

/** Checks JSON bodies against schemas; each schema is compiled at its first use. */
export class BodyParser {
  readonly #checkers = new WeakMap<TSchema, Checker<TSchema>>();

  /** Reads and checks the whole body. @throws bad-request naming the field, too-large. */
  async read(request: IncomingMessage, schema: TSchema): Promise<unknown> {
    const body = parseJson(await readText(request, JSON_LIMIT));
    let checker = this.#checkers.get(schema);
    if (checker === undefined) {
      checker = checkerOf(schema);
      this.#checkers.set(schema, checker);
    }
    const checked = checker(body);
    if (!checked.ok) throw errors.badRequest(checked.message);
    return checked.value;
  }
}

/** The whole body as text. @throws too-large beyond `limit` bytes, bad-request when it is not UTF-8. */
export async function readText(request: IncomingMessage, limit: number): Promise<string> {
  if (Number(request.headers['content-length'] ?? 0) > limit) throw tooLarge(limit);
  const chunks: Uint8Array[] = [];
  let size = 0;
  const timer = setTimeout(() => request.destroy(errors.badRequest('Request body did not arrive in time')), TIMEOUT);
  try {
    for await (const chunk of request as AsyncIterable<Uint8Array>) {
      size += chunk.length;
      if (size > limit) throw tooLarge(limit);
      chunks.push(chunk);
    }
  } finally {
    clearTimeout(timer);
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks));
  } catch (error) {
    throw errors.badRequest('Request body is not valid UTF-8', error);
  }
}

function tooLarge(limit: number): Error {
  return errors.tooLarge(`Request body is larger than ${limit} bytes`);
}

function parseJson(text: string): unknown {
  if (text.trim() === '') throw errors.badRequest('EOF');
  try {
    return JSON.parse(text);
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error);
    throw errors.badRequest(`Request body is not valid JSON: ${detail}`, error);
  }
}
