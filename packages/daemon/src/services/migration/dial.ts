import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { connect, type TLSSocket } from 'node:tls';
import { WebSocket } from 'ws';
import { errors, type KeelsonError } from '../../core/errors.ts';
import { guardedLookup, isForbidden } from '../images/remotes/fetch.ts';
import { type MigrationSockets, SOCKET_NAMES } from './peer.ts';

/** Another server's operation that waits for our sockets; all of it comes from a client. */
export interface RemoteOperation {
  /** URL of the operation. */
  readonly url: string;
  /** PEM the server must present itself; empty: the system's authorities decide. */
  readonly certificate: string;
  /** Secret of each socket by its name. */
  readonly secrets: Readonly<Record<string, string>>;
}

/** How long one connection may take, in milliseconds. */
const CONNECT_TIMEOUT = 10_000;
/** A peer that is gone without a word is noticed after this time, in milliseconds. */
const KEEP_ALIVE = 30_000;
const MAX_MESSAGE = 16 * 1024 * 1024;

const OPERATION = /^\/1\.0\/operations\/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\/?$/i;

/**
 * A checked address: nothing but the websocket of an operation over HTTPS can be reached with it.
 * @throws bad-request
 */
export function parseRemote({ url, certificate, secrets }: RemoteOperation): RemoteOperation {
  const missing = SOCKET_NAMES.find((name) => (secrets[name] ?? '') === '');
  if (missing !== undefined) throw errors.badRequest(`Missing ${missing} secret`);
  let target: URL;
  try {
    target = new URL(url);
  } catch (error) {
    throw errors.badRequest(`Invalid URL of the operation "${url}"`, error);
  }
  if (
    target.protocol !== 'https:' ||
    !OPERATION.test(target.pathname) ||
    target.username !== '' ||
    target.password !== ''
  ) {
    throw errors.badRequest(`"${url}" is not the HTTPS URL of an operation`);
  }
  if (certificate !== '') pinned(certificate);
  return { url: `https://${target.host}${target.pathname.replace(/\/$/, '')}`, certificate, secrets };
}

/**
 * Connects the sockets, `control` first. No redirect is followed, no secret is sent before the certificate was compared.
 * @throws bad-request that begins as LXD's clients expect of an address to try the next one after.
 */
export async function dial(remote: RemoteOperation, signal: AbortSignal): Promise<MigrationSockets> {
  const sockets = new Map<string, WebSocket>();
  try {
    for (const name of SOCKET_NAMES) sockets.set(name, await dialOne(remote, name, signal));
    return sockets;
  } catch (error) {
    for (const socket of sockets.values()) socket.terminate();
    throw error;
  }
}

async function dialOne(remote: RemoteOperation, name: string, signal: AbortSignal): Promise<WebSocket> {
  const url = new URL(`${remote.url}/websocket`);
  url.protocol = 'wss:';
  url.searchParams.set('secret', remote.secrets[name] ?? '');
  const timeout = AbortSignal.any([signal, AbortSignal.timeout(CONNECT_TIMEOUT)]);
  const connection = await connectTls(url, remote.certificate, timeout).catch((error: unknown) => {
    signal.throwIfAborted();
    throw unreachable(url.host, error);
  });
  const socket = new WebSocket(url, {
    createConnection: () => connection,
    perMessageDeflate: false,
    maxPayload: MAX_MESSAGE,
    handshakeTimeout: CONNECT_TIMEOUT,
    followRedirects: false,
  });
  await opened(socket, timeout).catch((error: unknown) => {
    socket.on('error', () => undefined);
    socket.terminate();
    signal.throwIfAborted();
    throw refused(url.host, error);
  });
  return socket;
}

/** A connection whose other end has shown the wanted certificate. */
function connectTls(url: URL, certificate: string, signal: AbortSignal): Promise<TLSSocket> {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const wanted = certificate === '' ? undefined : pinned(certificate);
  return new Promise((resolve, reject) => {
    if (isIP(host) !== 0 && isForbidden(host)) return reject(new Error('link-local addresses are refused'));
    const socket = connect({
      host,
      port: url.port === '' ? 443 : Number(url.port),
      lookup: guardedLookup,
      minVersion: 'TLSv1.2',
      ALPNProtocols: ['http/1.1'],
      ...(isIP(host) !== 0 ? {} : { servername: host }),
      ...(wanted === undefined ? {} : { rejectUnauthorized: false }),
    });
    const fail = (error: unknown): void => {
      signal.removeEventListener('abort', stop);
      socket.on('error', () => undefined);
      socket.destroy();
      reject(error);
    };
    const stop = (): void => fail(new Error('no answer in time'));
    signal.addEventListener('abort', stop, { once: true });
    socket.setKeepAlive(true, KEEP_ALIVE);
    socket.setNoDelay(true);
    socket.once('error', fail);
    socket.once('secureConnect', () => {
      if (wanted !== undefined && socket.getPeerX509Certificate()?.fingerprint256 !== wanted)
        return fail(new Error('the server presents another certificate'));
      signal.removeEventListener('abort', stop);
      socket.off('error', fail);
      resolve(socket);
    });
  });
}

function opened(socket: WebSocket, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    socket.once('error', reject);
    socket.once('open', () => {
      signal.removeEventListener('abort', stop);
      socket.off('error', reject);
      socket.on('error', () => undefined);
      socket.pause(); // nothing may arrive before somebody listens
      resolve();
    });
  });
}

/** Its SHA-256. @throws bad-request */
function pinned(pem: string): string {
  try {
    return new X509Certificate(pem).fingerprint256;
  } catch (error) {
    throw errors.badRequest('Invalid certificate', error);
  }
}

function unreachable(host: string, error: unknown): KeelsonError {
  const detail = error instanceof Error ? error.message : String(error);
  return errors.badRequest(`Unable to connect to: ${host}: ${detail}`, error);
}

function refused(host: string, error: unknown): KeelsonError {
  const detail = error instanceof Error ? error.message : String(error);
  return errors.badRequest(`The server at ${host} refuses the connection: ${detail}`, error);
}
