import {
  createServer,
  ServerResponse,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerOptions,
} from 'node:http';
import { createServer as createTlsServer, type ServerOptions as TlsServerOptions } from 'node:https';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import { errors } from '../core/errors.ts';
import type { Caller } from '../services/certificates/caller.ts';
import { type FrontDoor, sendError } from './front-door.ts';

/** Time a client has to send its header lines, milliseconds. */
const HEADERS_TIMEOUT = 15_000;
const KEEP_ALIVE_TIMEOUT = 65_000;
/** Idle time after which a connection is probed, milliseconds. */
const KEEP_ALIVE_PROBE = 30_000;
/** Bytes one websocket message may have. */
const MAX_MESSAGE = 16 * 1024 * 1024;
/** Websocket close code of a server that stops. */
const GOING_AWAY = 1001;

const LIMITS = {
  headersTimeout: HEADERS_TIMEOUT,
  requestTimeout: 0, // an upload may take hours; JSON bodies have their own limit
  keepAliveTimeout: KEEP_ALIVE_TIMEOUT,
  maxHeaderSize: 32 * 1024,
  noDelay: true,
  // A migration's peer that is gone without a word is noticed.
  keepAlive: true,
  keepAliveInitialDelay: KEEP_ALIVE_PROBE,
  shouldUpgradeCallback: (request: IncomingMessage) => request.headers.upgrade?.toLowerCase() === 'websocket',
} satisfies ServerOptions;

/** Who sits at the other end of a request's connection. */
export type Identify = (request: IncomingMessage) => Caller;

/** HTTP in front of the door; `tls` makes it HTTPS. */
export class HttpServer {
  readonly #server: Server;
  readonly #sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: MAX_MESSAGE });

  constructor(door: FrontDoor, identify: Identify, tls?: TlsServerOptions) {
    const listener: RequestListener = (request, response) => {
      void door.serve(request, response, identify(request));
    };
    this.#server =
      tls === undefined ? createServer(LIMITS, listener) : createTlsServer({ ...LIMITS, ...tls }, listener);
    const sockets = this.#sockets;
    this.#server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      void upgrade({ door, identify, sockets }, request, socket, head);
    });
    this.#server.on('clientError', (_error: Error, socket: Duplex) => {
      if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
      else socket.destroy();
    });
  }

  /** Where it listens; undefined for a unix socket and when it does not. */
  get bound(): { readonly host: string; readonly port: number } | undefined {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') return undefined;
    return { host: address.address, port: address.port };
  }

  /** Rejects with the reason when it cannot listen there. */
  async listen(where: { path: string } | { host?: string; port: number }): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(where, () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
  }

  /** Stops listening, tells websockets to go, lets running requests end for `graceMs`, then cuts what is left. */
  async close(graceMs: number): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeIdleConnections();
    for (const client of this.#sockets.clients) client.close(GOING_AWAY, 'The daemon is stopping');
    const timer = setTimeout(() => {
      this.#server.closeAllConnections();
      for (const client of this.#sockets.clients) client.terminate();
    }, graceMs);
    await closed;
    clearTimeout(timer);
  }
}

interface Upgrader {
  readonly door: FrontDoor;
  readonly identify: Identify;
  readonly sockets: WebSocketServer;
}

async function upgrade(to: Upgrader, request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
  const gone = new AbortController();
  const onGone = (): void => gone.abort(errors.unavailable('Client went away'));
  socket.on('error', onGone).once('close', onGone);
  try {
    const reply = await to.door.answer(request, to.identify(request), gone.signal);
    if (reply.kind !== 'websocket') throw errors.badRequest('This endpoint does not take a websocket');
    to.sockets.handleUpgrade(request, socket, head, (client) => {
      socket.off('error', onGone);
      client.on('error', () => client.terminate());
      reply.accept(client);
    });
  } catch (error) {
    refuse(error, request, socket);
  }
}

/** Answers a refused upgrade like any other request. */
function refuse(error: unknown, request: IncomingMessage, socket: Duplex): void {
  if (socket.destroyed) return;
  const response = new ServerResponse(request);
  response.assignSocket(socket as Parameters<ServerResponse['assignSocket']>[0]);
  response.once('finish', () => socket.end());
  response.shouldKeepAlive = false;
  sendError(error, response, { unread: true });
}
