import { errors } from '../../../core/errors.ts';
import type { RemoteImage, RemotePart, RemoteRequest } from '../ports.ts';
import { fetchUrl } from './fetch.ts';

const HASH = /^[0-9a-f]{64}$/;

/** An image file at a URL whose HEAD names it: `LXD-Image-Hash` and `LXD-Image-URL`. */
export async function findDirect(
  request: RemoteRequest,
  architectures: string,
  signal: AbortSignal | undefined,
): Promise<RemoteImage> {
  const headers = { 'LXD-Server-Architectures': architectures, 'LXD-Server-Version': '5.0' };
  const { certificate } = request;
  const answer = await fetchUrl(request.server, { method: 'HEAD', headers, certificate, signal, allowHttp: true });
  answer.resume();
  const hash = textOf(answer.headers['lxd-image-hash']).toLowerCase();
  const target = textOf(answer.headers['lxd-image-url']);
  if (hash === '') throw errors.badRequest('Missing LXD-Image-Hash header');
  if (target === '') throw errors.badRequest('Missing LXD-Image-URL header');
  if (!HASH.test(hash)) throw errors.badRequest('The LXD-Image-Hash header is not a SHA-256 in hex');
  const url = new URL(target, request.server).href;
  return { fingerprint: hash, size: undefined, properties: {}, open: (stop) => download(url, certificate, stop) };
}

async function* download(
  url: string,
  certificate: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<RemotePart> {
  const answer = await fetchUrl(url, { certificate, signal, allowHttp: true });
  if (answer.statusCode !== 200) {
    answer.resume();
    throw errors.badRequest(`"${url}" answered with status ${answer.statusCode ?? 0}`);
  }
  yield { part: 'main', filename: undefined, body: answer };
}

function textOf(header: string | string[] | undefined): string {
  return Array.isArray(header) ? (header[0] ?? '') : (header ?? '');
}
