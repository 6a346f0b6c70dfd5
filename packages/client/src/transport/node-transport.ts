import http from 'node:http';
import https from 'node:https';
import { Readable } from 'node:stream';
import { checkServerIdentity, type PeerCertificate } from 'node:tls';
import { deferred } from '../deferred.ts';
import { ClientConnectionFailed } from '../errors.ts';
import type { Endpoint } from './endpoint.ts';
import { NodeResponse, silence } from './node-response.ts';
import { NodeWebSockets } from './node-websockets.ts';
import type { Transport, TransportRequest, TransportResponse, WebSocketLike } from './types.ts';

export interface NodeTransportOptions {
  readonly endpoint: Endpoint;
  readonly certificate?: { readonly cert: string; readonly key: string } | undefined;
  /** true: the system's authorities; false: no check; else PEM of an authority or of the server's own certificate. */
  readonly verify: boolean | string;
  /** Milliseconds the server may be silent before and within an answer; undefined = no limit. */
  readonly timeout?: number | undefined;
}

/**
 * Milliseconds that an idle connection is kept. Servers keep it longer (Node's own 5 s, keelsond 65 s, LXD and Incus
 * for good), so that none closes it just as it is used again.
 */
const IDLE_MS = 2000;

/** Errors of a connection that the other side has closed. */
const CLOSED: ReadonlySet<string | undefined> = new Set(['ECONNRESET', 'EPIPE']);

/** Keep-alive connections over a unix socket or TLS, with node:http. */
export class NodeTransport implements Transport {
  readonly endpoint: string;
  readonly #timeout: number | undefined;
  readonly #agent: http.Agent;
  readonly #base: http.RequestOptions & https.RequestOptions;
  readonly #request: (options: http.RequestOptions) => http.ClientRequest;
  readonly #sockets: NodeWebSockets;
  #closed = false;

  constructor(options: NodeTransportOptions) {
    const { endpoint, timeout } = options;
    this.#timeout = timeout;
    const keepAlive = {
      keepAlive: true,
      maxFreeSockets: 16,
      noDelay: true,
      scheduling: 'lifo' as const,
      timeout: IDLE_MS,
    };
    const failed = (error: unknown, path: string): Error => this.#failed(error, { method: 'GET', path });
    if (endpoint.kind === 'unix') {
      this.endpoint = `unix:${endpoint.socket}`;
      this.#agent = new http.Agent(keepAlive);
      this.#request = http.request;
      this.#base = { socketPath: endpoint.socket, agent: this.#agent };
      this.#sockets = new NodeWebSockets(`ws+unix://${endpoint.socket}:`, { timeout, tls: {}, failed });
      return;
    }
    const url = new URL(endpoint.origin);
    const tls = tlsOptions(options);
    this.endpoint = endpoint.origin;
    this.#agent = new https.Agent({ ...keepAlive, ...tls });
    this.#request = https.request;
    this.#base = { host: url.hostname.replace(/^\[|\]$/g, ''), port: url.port || '443', agent: this.#agent };
    this.#sockets = new NodeWebSockets(endpoint.origin.replace(/^https/, 'wss'), { timeout, tls, failed });
  }

  async request(request: TransportRequest): Promise<TransportResponse> {
    if (this.#closed) throw this.#failed(new Error('The client was closed'), request);
    request.signal?.throwIfAborted();
    try {
      return await this.#send(request);
    } catch (error) {
      if (!(error instanceof LostReused)) throw error;
      if (this.#closed) throw error.failure;
      // The others that wait may be as dead: the second try has a connection of its own.
      for (const sockets of Object.values(this.#agent.freeSockets)) for (const one of sockets ?? []) one.destroy();
      return this.#send(request, false);
    }
  }

  openWebSocket(path: string, options: { readonly signal?: AbortSignal } = {}): Promise<WebSocketLike> {
    if (this.#closed) return Promise.reject(this.#failed(new Error('The client was closed'), { method: 'GET', path }));
    return this.#sockets.open(path, options.signal);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#agent.destroy();
    this.#sockets.close();
  }

  #send(request: TransportRequest, mayAskAgain = true): Promise<TransportResponse> {
    const { promise, resolve, reject } = deferred<TransportResponse>();
    const { method, path, signal, body, timeout = this.#timeout } = request;
    const headers: Record<string, string | number> = { ...request.headers };
    if (typeof body === 'string') headers['Content-Length'] = Buffer.byteLength(body);
    else if (body instanceof Uint8Array) headers['Content-Length'] = body.byteLength;
    const outgoing = this.#request({ ...this.#base, method, path, headers });
    let read = 0;
    outgoing.once('socket', (socket) => (read = socket.bytesRead));
    const wrap = (error: unknown): Error => (signal?.aborted ? (signal.reason as Error) : this.#failed(error, request));
    const abort = (): void => void outgoing.destroy();
    signal?.addEventListener('abort', abort, { once: true });
    const timer = timeout === undefined ? undefined : setTimeout(() => outgoing.destroy(silence(timeout)), timeout);
    outgoing.once('close', () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    });
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      const lost = mayAskAgain && outgoing.reusedSocket && outgoing.socket?.bytesRead === read;
      reject(lost && !signal?.aborted && mayRepeat(request, error.code) ? new LostReused(wrap(error)) : wrap(error));
    });
    outgoing.once('response', (incoming) => {
      clearTimeout(timer);
      resolve(new NodeResponse(incoming, { wrap, timeout }));
    });
    write(outgoing, body);
    return promise;
  }

  #failed(error: unknown, request: { readonly method: string; readonly path: string }): Error {
    if (error instanceof ClientConnectionFailed) return error;
    const message = error instanceof Error ? error.message : String(error);
    return new ClientConnectionFailed(`Cannot reach the server: ${message}`, {
      method: request.method,
      url: request.path,
      endpoint: this.endpoint,
      cause: error,
    });
  }
}

/**
 * Whether a request may be sent again that failed on a kept connection before any answer: one that changes nothing;
 * else only when the connection would not take it (`EPIPE`), so that the server cannot have had it whole.
 */
function mayRepeat({ method, body }: TransportRequest, code: string | undefined): boolean {
  const whole = body === undefined || typeof body === 'string' || body instanceof Uint8Array;
  return whole && (method === 'GET' ? CLOSED.has(code) : code === 'EPIPE');
}

/** A kept connection that turned out to be closed before an answer began. */
class LostReused extends Error {
  readonly failure: Error;

  constructor(failure: Error) {
    super(failure.message);
    this.failure = failure;
  }
}

function write(outgoing: http.ClientRequest, body: TransportRequest['body']): void {
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) {
    outgoing.end(body);
    return;
  }
  const source = Readable.from(body);
  source.once('error', (error) => outgoing.destroy(error));
  outgoing.once('close', () => source.destroy());
  source.pipe(outgoing);
}

function tlsOptions(options: NodeTransportOptions): https.AgentOptions {
  const { certificate, verify } = options;
  const client = certificate === undefined ? {} : { cert: certificate.cert, key: certificate.key };
  if (verify === true) return client;
  if (verify === false) return { ...client, rejectUnauthorized: false };
  // A pinned server certificate is its own authority; its names need not match the address.
  const checkServer = (host: string, peer: PeerCertificate): Error | undefined =>
    isPinned(verify, peer) ? undefined : checkServerIdentity(host, peer);
  return { ...client, ca: verify, allowPartialTrustChain: true, checkServerIdentity: checkServer };
}

function isPinned(pem: string, peer: PeerCertificate): boolean {
  return pem.replaceAll(/\s/g, '').includes(peer.raw.toString('base64'));
}
