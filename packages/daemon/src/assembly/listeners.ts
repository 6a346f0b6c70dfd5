import type { IncomingMessage } from 'node:http';
import { TLSSocket } from 'node:tls';
import type { Log } from '../core/log.ts';
import type { FrontDoor } from '../http/front-door.ts';
import { HttpServer } from '../http/http-server.ts';
import { formatAddress } from '../http/listeners/address.ts';
import { HttpsListener } from '../http/listeners/https-listener.ts';
import type { Caller } from '../services/certificates/caller.ts';
import type { TrustStore } from '../services/certificates/trust-store.ts';
import { describe, type ParsedCertificate } from '../services/certificates/x509.ts';
import type { ServerCertificate } from '../services/server/server-certificate.ts';

/** A peer of the unix socket. */
export const UNIX_CALLER: Caller = {
  kind: 'unix',
  projects: [],
  requestor: { username: 'root', protocol: 'unix', address: '@' },
  certificate: undefined,
  fingerprint: '',
};

/** Milliseconds a client has for the TLS handshake. */
const HANDSHAKE_TIMEOUT = 15_000;

export interface TlsParts {
  readonly door: FrontDoor;
  readonly trust: TrustStore;
  readonly certificate: ServerCertificate;
  readonly log: Log;
}

/** HTTPS with client certificates: TLS 1.3; who the client is, the trust store says, not the certificate's chain. */
export function createHttpsListener({ door, trust, certificate, log }: TlsParts): HttpsListener {
  const certificates = new WeakMap<TLSSocket, ParsedCertificate | null>();
  const identify = (request: IncomingMessage): Caller => {
    const { socket } = request;
    const address = formatAddress(socket.remoteAddress ?? '', socket.remotePort ?? 0);
    return trust.identify(socket instanceof TLSSocket ? certificateOf(socket, certificates) : undefined, address);
  };
  const createServer = (): HttpServer =>
    new HttpServer(door, identify, {
      cert: certificate.certificate,
      key: certificate.key,
      minVersion: 'TLSv1.3',
      requestCert: true,
      rejectUnauthorized: false,
      handshakeTimeout: HANDSHAKE_TIMEOUT,
    });
  return new HttpsListener({ createServer, log });
}

/** Parsed once per connection. */
function certificateOf(
  socket: TLSSocket,
  known: WeakMap<TLSSocket, ParsedCertificate | null>,
): ParsedCertificate | undefined {
  let parsed = known.get(socket);
  if (parsed === undefined) {
    const certificate = socket.getPeerX509Certificate();
    parsed = certificate === undefined ? null : describe(certificate);
    known.set(socket, parsed);
  }
  return parsed ?? undefined;
}
