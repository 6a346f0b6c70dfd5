import type { IncomingMessage } from 'node:http';
import type { AgentOptions } from 'node:https';
import WebSocket from 'ws';
import { deferred } from '../deferred.ts';
import { APIException, NotFound } from '../errors.ts';
import type { WebSocketLike } from './types.ts';

/** Milliseconds for the handshake where the client has no timeout of its own. */
const HANDSHAKE_MS = 30_000;
/** Milliseconds for the other side's part of closing. */
const CLOSE_MS = 2000;
/** A refusal's body is read up to this size. */
const REFUSAL_BYTES = 64 * 1024;

export interface NodeWebSocketsOptions {
  readonly timeout: number | undefined;
  readonly tls: AgentOptions;
  readonly failed: (error: unknown, path: string) => Error;
}

/** The websockets of one client, over a unix socket or TLS. */
export class NodeWebSockets {
  readonly #base: string;
  readonly #options: NodeWebSocketsOptions;
  readonly #open = new Set<WebSocket>();

  /** A socket's URL is `base` with the path behind it. */
  constructor(base: string, options: NodeWebSocketsOptions) {
    this.#base = base;
    this.#options = options;
  }

  /** Resolves when the socket is open. @throws ClientConnectionFailed, APIException for a refused upgrade, the abort reason */
  open(path: string, signal: AbortSignal | undefined): Promise<WebSocketLike> {
    const { promise, resolve, reject } = deferred<WebSocketLike>();
    if (signal?.aborted) return Promise.reject(signal.reason);
    const { timeout = HANDSHAKE_MS, tls, failed } = this.#options;
    const options = { perMessageDeflate: false, handshakeTimeout: timeout, closeTimeout: CLOSE_MS, ...tls };
    const socket = new WebSocket(`${this.#base}${path}`, options);
    this.#open.add(socket);
    const abort = (): void => socket.terminate();
    signal?.addEventListener('abort', abort, { once: true });
    socket.once('open', () => {
      signal?.removeEventListener('abort', abort);
      // Nothing may arrive before the caller listens, which it does in the microtasks after this.
      socket.pause();
      setImmediate(() => socket.resume());
      resolve(socket as WebSocketLike);
    });
    socket.once('unexpected-response', (_request, response: IncomingMessage) => {
      void refusal(response, path).then((error) => {
        reject(error);
        socket.terminate();
      });
    });
    socket.on('error', (error) => reject(signal?.aborted ? signal.reason : failed(error, path)));
    socket.once('close', () => {
      signal?.removeEventListener('abort', abort);
      this.#open.delete(socket);
    });
    return promise;
  }

  /** Ends every socket at once. */
  close(): void {
    for (const socket of this.#open) socket.terminate();
  }
}

/** An upgrade that the server refused: its error message and status. */
async function refusal(response: IncomingMessage, url: string): Promise<APIException> {
  const status = response.statusCode ?? 0;
  let message = `The server refused a websocket with status ${status}`;
  try {
    let text = '';
    for await (const chunk of response) {
      text += String(chunk);
      if (text.length > REFUSAL_BYTES) break;
    }
    message = (JSON.parse(text) as { error?: string }).error || message;
  } catch {
    // no JSON: the status says enough
  }
  const details = { method: 'GET', url, status };
  return status === 404 ? new NotFound(message, details) : new APIException(message, details);
}
