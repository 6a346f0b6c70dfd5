import { connect } from 'node:tls';
import { UsageError } from './command.ts';

/** What a server shows of itself before anything is sent to it. */
export interface ServerCertificate {
  readonly pem: string;
  /** SHA-256 over the DER form, lower-case hex. */
  readonly fingerprint: string;
  /** The system's authorities vouch for it. */
  readonly trusted: boolean;
}

const TIMEOUT_MS = 20_000;

/** Fetches the certificate of `https://host:port`. @throws UsageError when nobody answers with TLS there */
export function fetchServerCertificate(address: string): Promise<ServerCertificate> {
  const { hostname, port } = new URL(address);
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const name = /^[\d.]+$|:/.test(host) ? {} : { servername: host };
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port: Number(port || 443), rejectUnauthorized: false, ...name });
    const fail = (reason: string): void => {
      socket.destroy();
      reject(new UsageError(`Cannot reach ${address}: ${reason}. Does the server have core.https_address set?`));
    };
    socket.setTimeout(TIMEOUT_MS, () => fail('no answer'));
    socket.once('error', (error) => fail(error.message));
    socket.once('secureConnect', () => {
      const found = socket.getPeerX509Certificate();
      const trusted = socket.authorized;
      socket.destroy();
      if (found === undefined) return fail('it shows no certificate');
      resolve({ pem: found.toString(), fingerprint: found.fingerprint256.replaceAll(':', '').toLowerCase(), trusted });
    });
  });
}

/** A token of `trust add`: who it is for, and where the server is. */
export interface JoinToken {
  readonly addresses: readonly string[];
  /** Fingerprint of the server's certificate. */
  readonly fingerprint: string;
  /** The token as it was given: what the server takes as the secret. */
  readonly text: string;
}

/** Reads a token; undefined when the text is none. */
export function parseToken(text: string): JoinToken | undefined {
  try {
    const found = JSON.parse(Buffer.from(text, 'base64').toString('utf8')) as Partial<JoinToken> | null;
    if (!Array.isArray(found?.addresses) || typeof found.fingerprint !== 'string') return undefined;
    return { addresses: found.addresses, fingerprint: found.fingerprint, text };
  } catch {
    return undefined;
  }
}

/** `https://host:port` of an address that people type: the scheme and port 8443 may be left out. @throws UsageError */
export function serverAddress(text: string): string {
  const full = text.includes('://') ? text : `https://${/^[^[]*:.*:/.test(text) ? `[${text}]` : text}`;
  if (!full.startsWith('https://') || !URL.canParse(full))
    throw new UsageError(`"${text}" is no address; use https://HOST:8443`);
  const { hostname, port } = new URL(full);
  const given = port !== '' || /:443\/?$/.test(full);
  return `https://${hostname}:${given ? port || '443' : '8443'}`;
}
