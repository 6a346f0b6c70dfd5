import type { IncomingMessage } from 'node:http';
import { errors } from '../core/errors.ts';

const SAFE = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * Refuses what a foreign web page makes a browser send with the user's client certificate: every change and every
 * websocket from another origin. Other clients send neither header and pass. There is no CORS.
 * @throws unauthorized
 */
export function checkOrigin(request: IncomingMessage): void {
  const upgrades = request.headers.upgrade !== undefined;
  if (SAFE.has(request.method ?? '') && !upgrades) return;
  const site = request.headers['sec-fetch-site'];
  if (site === 'same-origin' || site === 'none') return;
  const { origin, host } = request.headers;
  if (site === undefined && (origin === undefined || hostOf(origin) === host)) return;
  throw errors.unauthorized('Cross-origin requests are not allowed');
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}
