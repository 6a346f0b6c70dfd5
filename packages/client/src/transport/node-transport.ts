import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import { Readable } from 'node:stream';
import { checkServerIdentity, type PeerCertificate } from 'node:tls';
import WebSocket from 'ws';
import { APIException, ClientConnectionFailed, NotFound } from '../errors.ts';
import { deferred } from '../deferred.ts';
import type { Endpoint } from './endpoint.ts';
import type { Transport, TransportRequest, TransportResponse, WebSocketLike } from './types.ts';

export interface NodeTransportOptions {
  readonly endpoint: Endpoint;
  readonly certificate?: { readonly cert: string; readonly key: string } | undefined;
  /** true: the system's authorities; false: no check; else PEM of an authority or of the server's own certificate. */
  readonly verify: boolean | string;
  /** Default timeout in milliseconds for the headers of an answer; undefined = none. */
  readonly timeout?: number | undefined;
}

/** Keep-alive connections over a unix socket or TLS, with node:http. */
export class NodeTransport implements Transport {
  readonly endpoint: string;
  readonly #options: NodeTransportOptions;
  readonly #agent: http.Agent;
  readonly #base: http.RequestOptions & https.RequestOptions;

  constructor(options: NodeTransportOptions) {
    this.#options = options;
    const { endpoint } = options;
    const keepAlive = { keepAlive: true, maxFreeSockets: 16, noDelay: true, scheduling: 'lifo' as const };
    if (endpoint.kind === 'unix') {
      this.endpoint = `unix:${endpoint.socket}`;
      this.#agent = new http.Agent(keepAlive);
      this.#base = { socketPath: endpoint.socket, agent: this.#agent, headers: {} };
      return;
    }
    const url = new URL(endpoint.origin);
    this.endpoint = endpoint.origin;
    this.#agent = new https.Agent({ ...keepAlive, ...tlsOptions(options) });
    this.#base = { host: url.hostname.replace(/^\[|\]$/g, ''), port: url.port || '443', agent: this.#agent };
  }

  request(request: TransportRequest): Promise<TransportResponse> {
    const { promise, resolve, reject } = deferred<TransportResponse>();
    const { method, path, signal, body } = request;
    if (signal?.aborted) return Promise.reject(signal.reason as Error);
    const fail = (error: unknown): void =>
      reject(signal?.aborted ? signal.reason : this.#connectionFailed(error, { method, url: path }));
    const headers: Record<string, string | number> = { ...request.headers };
    if (typeof body === 'string') headers['Content-Length'] = Buffer.byteLength(body);
    else if (body instanceof Uint8Array) headers['Content-Length'] = body.byteLength;
    const options = { ...this.#base, method, path, headers };
    const outgoing = this.#options.endpoint.kind === 'unix' ? http.request(options) : https.request(options);
    const abort = (): void => void outgoing.destroy();
    signal?.addEventListener('abort', abort, { once: true });
    const timeout = request.timeout ?? this.#options.timeout;
    const timer =
      timeout === undefined
        ? undefined
        : setTimeout(() => outgoing.destroy(new Error(`No answer within ${timeout} ms`)), timeout);
    outgoing.once('close', () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    });
    outgoing.once('error', fail);
    outgoing.once('response', (incoming) => {
      clearTimeout(timer);
      resolve(
        new NodeResponse(incoming, (error) =>
          signal?.aborted ? (signal.reason as Error) : this.#connectionFailed(error, { method, url: path }),
        ),
      );
    });
    send(outgoing, body);
    return promise;
  }

  openWebSocket(path: string, options: { readonly signal?: AbortSignal } = {}): Promise<WebSocketLike> {
    const { promise, resolve, reject } = deferred<WebSocketLike>();
    const { endpoint } = this.#options;
    const url =
      endpoint.kind === 'unix'
        ? `ws+unix://${endpoint.socket}:${path}`
        : `${endpoint.origin.replace(/^https/, 'wss')}${path}`;
    const tls = endpoint.kind === 'unix' ? {} : tlsOptions(this.#options);
    const socket = new WebSocket(url, {
      perMessageDeflate: false,
      handshakeTimeout: this.#options.timeout ?? 30_000,
      ...tls,
    });
    const info = { method: 'GET', url: path };
    const abort = (): void => socket.terminate();
    options.signal?.addEventListener('abort', abort, { once: true });
    socket.once('open', () => {
      options.signal?.removeEventListener('abort', abort);
      // Nothing may arrive before the caller listens, which it does in the microtasks after this.
      socket.pause();
      setImmediate(() => socket.resume());
      resolve(socket as WebSocketLike);
    });
    socket.once('unexpected-response', (_request, response: IncomingMessage) => {
      void refusal(response, info).then(reject);
      socket.terminate();
    });
    socket.on('error', (error) =>
      reject(options.signal?.aborted ? options.signal.reason : this.#connectionFailed(error, info)),
    );
    if (options.signal?.aborted) abort();
    return promise;
  }

  async close(): Promise<void> {
    this.#agent.destroy();
  }

  #connectionFailed(error: unknown, info: { method: string; url: string }): Error {
    if (error instanceof ClientConnectionFailed) return error;
    const message = error instanceof Error ? error.message : String(error);
    return new ClientConnectionFailed(`Cannot reach the server: ${message}`, {
      ...info,
      endpoint: this.endpoint,
      cause: error,
    });
  }
}

class NodeResponse implements TransportResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly #incoming: IncomingMessage;
  readonly #wrap: (error: unknown) => Error;

  constructor(incoming: IncomingMessage, wrap: (error: unknown) => Error) {
    this.status = incoming.statusCode ?? 0;
    this.headers = incoming.headers as Record<string, string>;
    this.#incoming = incoming;
    this.#wrap = wrap;
  }

  get body(): AsyncIterable<Uint8Array> {
    const [incoming, wrap] = [this.#incoming, this.#wrap];
    return (async function* read(): AsyncIterable<Uint8Array> {
      try {
        for await (const chunk of incoming) yield chunk as Uint8Array;
      } catch (error) {
        throw wrap(error);
      }
    })();
  }

  async bytes(): Promise<Uint8Array> {
    return Buffer.concat(await this.#chunks());
  }

  async text(): Promise<string> {
    const chunks = await this.#chunks();
    return (chunks.length === 1 ? chunks[0] : Buffer.concat(chunks))?.toString('utf8') ?? '';
  }

  async discard(): Promise<void> {
    this.#incoming.resume();
  }

  #chunks(): Promise<Buffer[]> {
    const { promise, resolve, reject } = deferred<Buffer[]>();
    const chunks: Buffer[] = [];
    this.#incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    this.#incoming.once('end', () => resolve(chunks));
    this.#incoming.once('error', (error) => reject(this.#wrap(error)));
    this.#incoming.once('close', () =>
      reject(this.#wrap(new Error('The connection was closed in the middle of the answer'))),
    );
    return promise;
  }
}

function send(outgoing: http.ClientRequest, body: TransportRequest['body']): void {
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) {
    outgoing.end(body);
    return;
  }
  const source = Readable.from(body);
  source.once('error', (error) => outgoing.destroy(error));
  outgoing.once('close', () => source.destroy());
  source.pipe(outgoing);
}

/** An upgrade that the server refused: its error message and status. */
async function refusal(response: IncomingMessage, info: { method: string; url: string }): Promise<Error> {
  let message = `The server refused a websocket with status ${response.statusCode}`;
  try {
    let text = '';
    for await (const chunk of response) text += String(chunk);
    message = (JSON.parse(text) as { error?: string }).error ?? message;
  } catch {
    // no JSON: the status says enough
  }
  const details = { ...info, status: response.statusCode ?? 0 };
  return response.statusCode === 404 ? new NotFound(message, details) : new APIException(message, details);
}

function tlsOptions(options: NodeTransportOptions): https.AgentOptions {
  const { certificate, verify } = options;
  const client = certificate === undefined ? {} : { cert: certificate.cert, key: certificate.key };
  if (verify === true) return client;
  if (verify === false) return { ...client, rejectUnauthorized: false };
  // A pinned self-signed server certificate is its own authority; its names need not match the address.
  const checkServer = (host: string, peer: PeerCertificate): Error | undefined =>
    isPinned(verify, peer) ? undefined : checkServerIdentity(host, peer);
  return { ...client, ca: verify, checkServerIdentity: checkServer };
}

function isPinned(pem: string, peer: PeerCertificate): boolean {
  return pem.replaceAll(/\s/g, '').includes(peer.raw.toString('base64'));
}
