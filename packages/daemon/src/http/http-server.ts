import {
  createServer,
  ServerResponse,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerOptions,
} from 'node:http';
import { createServer as createTlsServer, type ServerOptions as TlsServerOptions } from 'node:https';
import type { Server as NetServer } from 'node:net';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import { errors } from '../core/errors.ts';
import type { Caller } from '../services/certificates/caller.ts';
import { type FrontDoor, sendError } from './front-door.ts';

/** Time a client has to send its header lines, milliseconds. */
const HEADERS_TIMEOUT = 15_000;
const KEEP_ALIVE_TIMEOUT = 65_000;
/** Bytes one websocket message may have. */
const MAX_MESSAGE = 16 * 1024 * 1024;

const LIMITS = {
  headersTimeout: HEADERS_TIMEOUT,
  requestTimeout: 0, // an upload may take hours; JSON bodies have their own limit
  keepAliveTimeout: KEEP_ALIVE_TIMEOUT,
  maxHeaderSize: 32 * 1024,
  noDelay: true,
  shouldUpgradeCallback: (request: IncomingMessage) => request.headers.upgrade?.toLowerCase() === 'websocket',
} satisfies ServerOptions;

/** Who sits at the other end of a request's connection. */
export type Identify = (request: IncomingMessage) => Caller;

/** HTTP in front of the door; `tls` makes it HTTPS. The caller lets it listen. */
export function createHttpServer(door: FrontDoor, identify: Identify, tls?: TlsServerOptions): Server {
  const listener: RequestListener = (request, response) => {
    void door.serve(request, response, identify(request));
  };
  const server = tls === undefined ? createServer(LIMITS, listener) : createTlsServer({ ...LIMITS, ...tls }, listener);
  const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: MAX_MESSAGE });
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    void upgrade({ door, identify, sockets }, request, socket, head);
  });
  server.on('clientError', (_error: Error, socket: Duplex) => {
    if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
    else socket.destroy();
  });
  return server;
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

/** Starts to listen; rejects with the reason when it cannot. */
export async function listen(
  server: NetServer,
  where: { path: string } | { host?: string; port: number },
): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(where, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** Stops listening, lets running requests end for `graceMs`, then cuts what is left. */
export async function close(server: Server, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), graceMs);
  await closed;
  clearTimeout(timer);
}
