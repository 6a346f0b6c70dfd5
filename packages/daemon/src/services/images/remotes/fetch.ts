import { X509Certificate } from 'node:crypto';
import { lookup, type LookupAddress } from 'node:dns';
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import { BlockList, isIP } from 'node:net';
import { TLSSocket } from 'node:tls';
import { errors, isKeelsonError } from '../../../core/errors.ts';

export interface FetchOptions {
  readonly method?: 'GET' | 'HEAD';
  readonly headers?: Readonly<Record<string, string>>;
  /** PEM the server must present itself; empty: the system's authorities decide. */
  readonly certificate?: string;
  readonly signal?: AbortSignal | undefined;
  /** Plain HTTP is refused unless true. */
  readonly allowHttp?: boolean;
}

const MAX_REDIRECTS = 5;
const IDLE_MS = 60_000;

/**
 * Addresses no image server has, but clouds keep their secrets at: checked at connect time, so that neither a name
 * nor a redirect leads there.
 */
const forbidden = new BlockList();
forbidden.addSubnet('169.254.0.0', 16);
forbidden.addSubnet('fe80::', 10, 'ipv6');
forbidden.addSubnet('0.0.0.0', 8);
forbidden.addAddress('fd00:ec2::254', 'ipv6');

/** The answer to a request, redirects followed. @throws bad-request naming the URL. */
export async function fetchUrl(url: string, options: FetchOptions = {}): Promise<IncomingMessage> {
  let target = parseUrl(url, options);
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const answer = await send(target, options);
    const { statusCode = 0, headers } = answer;
    if (statusCode < 300 || statusCode >= 400 || headers.location === undefined) return answer;
    answer.resume();
    target = parseUrl(new URL(headers.location, target).href, options);
  }
  throw errors.badRequest(`Cannot reach "${url}": too many redirects`);
}

/** Small JSON document. @throws not-found for 404, bad-request for everything else that is no JSON with status 200. */
export async function fetchJson(url: string, limit: number, options: FetchOptions = {}): Promise<unknown> {
  const answer = await fetchUrl(url, options);
  if (answer.statusCode === 404) {
    answer.resume();
    throw errors.notFound(`"${url}" does not exist`);
  }
  if (answer.statusCode !== 200) {
    answer.resume();
    throw errors.badRequest(`"${url}" answered with status ${answer.statusCode ?? 0}`);
  }
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of answer as AsyncIterable<Uint8Array>) {
    size += chunk.length;
    if (size > limit) throw errors.badRequest(`"${url}" is larger than ${limit} bytes`);
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch (error) {
    throw errors.badRequest(`"${url}" is not valid JSON`, error);
  }
}

function parseUrl(text: string, options: FetchOptions): URL {
  let url: URL;
  try {
    url = new URL(text);
  } catch (error) {
    throw errors.badRequest(`Invalid URL "${text}"`, error);
  }
  const plain = url.protocol === 'http:' && options.allowHttp === true;
  if (url.protocol !== 'https:' && !plain) {
    throw errors.badRequest(`Cannot reach "${text}": unsupported protocol scheme "${url.protocol.slice(0, -1)}"`);
  }
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0 && isForbidden(host)) throw refused(host);
  return url;
}

function send(url: URL, options: FetchOptions): Promise<IncomingMessage> {
  const secure = url.protocol === 'https:';
  const pinned = options.certificate !== undefined && options.certificate !== '' ? options.certificate : undefined;
  const settings: RequestOptions = {
    method: options.method ?? 'GET',
    headers: { 'User-Agent': 'keelson', ...options.headers },
    lookup: guardedLookup,
    timeout: IDLE_MS,
    agent: false,
    ...(options.signal === undefined ? {} : { signal: options.signal }),
    ...(pinned === undefined ? {} : { rejectUnauthorized: false }),
  };
  return new Promise((resolve, reject) => {
    const request = secure ? httpsRequest(url, settings) : httpRequest(url, settings);
    const fail = (error: unknown): void => reject(unreachable(url, error));
    request.on('error', fail);
    request.on('timeout', () => request.destroy(new Error('no answer in time')));
    request.on('socket', (socket) => {
      if (pinned === undefined || !(socket instanceof TLSSocket)) return;
      socket.once('secureConnect', () => {
        if (!presents(socket, pinned)) request.destroy(new Error('the server presents another certificate'));
      });
    });
    request.on('response', resolve);
    request.end();
  });
}

function presents(socket: TLSSocket, pem: string): boolean {
  try {
    return socket.getPeerX509Certificate()?.fingerprint256 === new X509Certificate(pem).fingerprint256;
  } catch {
    return false;
  }
}

function unreachable(url: URL, error: unknown): unknown {
  if (isKeelsonError(error)) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return errors.badRequest(`Cannot reach "${url.origin}": ${detail}`, error);
}

export function isForbidden(address: string): boolean {
  return forbidden.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
}

function refused(host: string): Error {
  return errors.badRequest(`Cannot reach "${host}": link-local addresses are refused`);
}

type LookupDone = (error: NodeJS.ErrnoException | null, address: string | LookupAddress[], family?: number) => void;

export const guardedLookup: NonNullable<RequestOptions['lookup']> = (host, options, done: LookupDone) => {
  lookup(host, { ...options, all: true }, (error, addresses) => {
    if (error !== null) return done(error, []);
    const allowed = addresses.filter(({ address }) => !isForbidden(address));
    const [first] = allowed;
    if (first === undefined) return done(new Error('link-local addresses are refused'), []);
    if (options.all === true) return done(null, allowed);
    done(null, first.address, first.family);
  });
};
