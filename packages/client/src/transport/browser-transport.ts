import { deferred } from '../deferred.ts';
import { ClientConnectionFailed } from '../errors.ts';
import type { SocketEvent, Transport, TransportRequest, TransportResponse, WebSocketLike } from './types.ts';

/** The browser's own fetch and WebSocket; the page's origin or any other that the server lets it talk to. */
export class BrowserTransport implements Transport {
  readonly endpoint: string;
  readonly #timeout: number | undefined;

  constructor(options: { readonly origin: string; readonly timeout?: number | undefined }) {
    this.endpoint = options.origin;
    this.#timeout = options.timeout;
  }

  async request(request: TransportRequest): Promise<TransportResponse> {
    const timeout = request.timeout ?? this.#timeout;
    const signals = [request.signal, timeout === undefined ? undefined : AbortSignal.timeout(timeout)].filter(
      (signal) => signal !== undefined,
    );
    try {
      const response = await fetch(`${this.endpoint}${request.path}`, {
        method: request.method,
        ...(request.headers && { headers: request.headers }),
        ...(request.body === undefined ? {} : { body: await wholeBody(request.body) }),
        ...(signals.length === 0 ? {} : { signal: AbortSignal.any(signals) }),
        credentials: 'include',
      });
      return new BrowserResponse(response, (error) => this.#failed(error, request));
    } catch (error) {
      throw this.#failed(error, request);
    }
  }

  #failed(error: unknown, request: TransportRequest): Error {
    if (request.signal?.aborted) return request.signal.reason as Error;
    return new ClientConnectionFailed(
      `Cannot reach the server: ${error instanceof Error ? error.message : String(error)}`,
      { method: request.method, url: request.path, endpoint: this.endpoint, cause: error },
    );
  }

  openWebSocket(path: string, options: { readonly signal?: AbortSignal } = {}): Promise<WebSocketLike> {
    const { promise, resolve, reject } = deferred<WebSocketLike>();
    const socket = new WebSocket(`${this.endpoint.replace(/^http/, 'ws')}${path}`) as WebSocketLike;
    socket.binaryType = 'arraybuffer';
    const abort = (): void => {
      socket.close();
      reject(options.signal?.reason);
    };
    if (options.signal?.aborted) abort();
    options.signal?.addEventListener('abort', abort, { once: true });
    socket.addEventListener('open', () => {
      options.signal?.removeEventListener('abort', abort);
      resolve(socket);
    });
    socket.addEventListener('error', (event: SocketEvent) => {
      options.signal?.removeEventListener('abort', abort);
      const details = { method: 'GET', url: path, endpoint: this.endpoint, cause: event.error };
      reject(new ClientConnectionFailed('The websocket cannot be opened', details));
    });
    return promise;
  }

  async close(): Promise<void> {
    // fetch keeps no connection that a page could close
  }
}

type FetchBody = NonNullable<RequestInit['body']>;

class BrowserResponse implements TransportResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly #response: Response;
  readonly #wrap: (error: unknown) => Error;

  constructor(response: Response, wrap: (error: unknown) => Error) {
    this.status = response.status;
    this.headers = Object.fromEntries(response.headers);
    this.#response = response;
    this.#wrap = wrap;
  }

  get body(): AsyncIterable<Uint8Array> {
    const reader = this.#response.body?.getReader();
    const wrap = this.#wrap;
    return (async function* read(): AsyncIterable<Uint8Array> {
      try {
        for (;;) {
          const chunk = await reader?.read();
          if (chunk === undefined || chunk.done) return;
          yield chunk.value;
        }
      } catch (error) {
        throw wrap(error);
      } finally {
        await reader?.cancel().catch(() => undefined);
      }
    })();
  }

  text(): Promise<string> {
    return this.#response.text().catch((error: unknown) => Promise.reject(this.#wrap(error)));
  }

  async bytes(): Promise<Uint8Array> {
    const buffer = await this.#response.arrayBuffer().catch((error: unknown) => Promise.reject(this.#wrap(error)));
    return new Uint8Array(buffer);
  }

  async discard(): Promise<void> {
    await this.#response.body?.cancel();
  }
}

/** Browsers send streams only over HTTP/2 and not everywhere: collect them. */
async function wholeBody(body: NonNullable<TransportRequest['body']>): Promise<FetchBody> {
  if (typeof body === 'string' || body instanceof Uint8Array) return body as FetchBody;
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return new Blob(chunks as Uint8Array<ArrayBuffer>[]);
}
