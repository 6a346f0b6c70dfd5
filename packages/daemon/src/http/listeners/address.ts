import { isIP } from 'node:net';
import { errors } from '../../core/errors.ts';

export const DEFAULT_PORT = 8443;

/** Where HTTPS listens; `host` undefined means every address. */
export interface ListenAddress {
  readonly host: string | undefined;
  readonly port: number;
}

/**
 * `[host][:port]`: `:8443`, `10.0.0.1`, `[::1]:443`, `0.0.0.0:8443`, `host.example`. Port 0 lets the kernel choose.
 * @throws bad-request
 */
export function parseListenAddress(text: string): ListenAddress {
  if (isIP(text) === 6) return { host: text, port: DEFAULT_PORT };
  const match = /^(?:\[([^\]]+)\]|([^:[\]\s]*))(?::(\d{1,5}))?$/.exec(text);
  const host = match?.[1] ?? match?.[2] ?? '';
  const port = match?.[3] === undefined ? DEFAULT_PORT : Number(match[3]);
  if (match === null || port > 65_535 || (match[1] !== undefined && isIP(host) !== 6)) {
    throw errors.badRequest(`Invalid address "${text}": expected <host>:<port>, [<IPv6>]:<port> or :<port>`);
  }
  return { host: host === '' ? undefined : host, port };
}

/** The address as `host:port`, IPv6 in brackets. */
export function formatAddress(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
