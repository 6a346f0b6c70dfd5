import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { ClientConnectionFailed } from '../errors.ts';

/** Where a server listens. */
export type Endpoint =
  | {
      /** A unix socket. */
      readonly kind: 'unix';
      /** Absolute path. */
      readonly socket: string;
    }
  | {
      /** TLS over TCP. */
      readonly kind: 'https';
      /** `https://host[:port]`. */
      readonly origin: string;
    };

/**
 * Reads an endpoint: `unix:/path`, `unix:///path`, `http+unix:///path` (also percent-encoded), a bare absolute
 * path, or `https://host[:port]`.
 *
 * @throws ClientConnectionFailed for anything else
 */
export function parseEndpoint(text: string): Endpoint {
  const unix = /^(?:http\+)?unix:(?:\/\/)?(.+)$/.exec(text)?.[1] ?? (text.startsWith('/') ? text : undefined);
  if (unix !== undefined) return { kind: 'unix', socket: decoded(unix) };
  if (text.startsWith('https://') && URL.canParse(text)) return { kind: 'https', origin: new URL(text).origin };
  throw new ClientConnectionFailed(`Not an endpoint: "${text}"; use unix:/path or https://host:port`, {
    method: 'CONNECT',
    url: '/',
    endpoint: text,
  });
}

/** Sockets that are tried, in order, when no endpoint is given. */
export function socketCandidates(env: Readonly<Record<string, string | undefined>>): string[] {
  const folders = [
    env['KEELSON_DIR'],
    '/var/lib/keelson',
    env['LXD_DIR'],
    '/var/lib/lxd',
    '/var/snap/lxd/common/lxd',
    env['INCUS_DIR'],
    '/var/lib/incus',
    '/run/incus',
  ];
  return folders.flatMap((folder) => (folder === undefined || folder === '' ? [] : [join(folder, 'unix.socket')]));
}

/** First socket that is there. @throws ClientConnectionFailed naming the places looked at. */
export function findSocket(env: Readonly<Record<string, string | undefined>> = process.env): string {
  const candidates = socketCandidates(env);
  const found = candidates.find((path) => existsSync(path));
  if (found !== undefined) return found;
  throw new ClientConnectionFailed(`No server found; looked for ${candidates.join(', ')}`, {
    method: 'CONNECT',
    url: '/',
    endpoint: 'unix:',
  });
}

/** A client certificate: PEM text or paths of PEM files. */
export type Certificate =
  | {
      /** PEM or a path. */
      readonly cert: string;
      /** PEM or a path. */
      readonly key: string;
    }
  | readonly [cert: string, key: string]
  | string;

/** PEM texts of a certificate given as text, as paths, or as one file that holds both. */
export function readCertificate(certificate: Certificate): { cert: string; key: string } {
  if (typeof certificate === 'string') {
    const both = readPem(certificate);
    return { cert: both, key: both };
  }
  if ('cert' in certificate) return { cert: readPem(certificate.cert), key: readPem(certificate.key) };
  return { cert: readPem(certificate[0]), key: readPem(certificate[1]) };
}

/** Client certificate of keelson's or lxc's configuration folder; undefined when neither has one. */
export function defaultCertificate(
  env: Readonly<Record<string, string | undefined>> = process.env,
): { cert: string; key: string } | undefined {
  const config = env['XDG_CONFIG_HOME'] || join(homedir(), '.config');
  const folders = [env['KEELSON_CONF'], join(config, 'keelson'), env['LXD_CONF'], join(config, 'lxc')];
  for (const folder of folders) {
    if (folder === undefined || folder === '') continue;
    const [cert, key] = [join(folder, 'client.crt'), join(folder, 'client.key')];
    if (existsSync(cert) && existsSync(key))
      return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') };
  }
  return undefined;
}

/** PEM given as text or as a path. @throws ClientConnectionFailed when the file cannot be read */
export function readPem(value: string, what = 'client certificate'): string {
  if (value.includes('-----BEGIN')) return value;
  try {
    return readFileSync(value, 'utf8');
  } catch (error) {
    // The value may be a key that was not recognised: it is not repeated.
    const { code = 'unreadable' } = error as NodeJS.ErrnoException;
    throw new ClientConnectionFailed(`Cannot read the ${what}: ${code}`, {
      method: 'CONNECT',
      url: '/',
      endpoint: 'https:',
    });
  }
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path; // a per cent sign of the path's own
  }
}
