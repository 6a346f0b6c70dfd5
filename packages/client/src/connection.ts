import type { Operation } from '@keelson/api';
import { APIException, NotFound, PreconditionFailed } from './errors.ts';
import type { RequestBody, Transport, TransportResponse, WebSocketLike } from './transport/types.ts';

/** Query of a URL; what is undefined is left out. */
export type QueryValues = Readonly<Record<string, string | number | boolean | undefined>>;

/** What a request carries beside method and path. */
export interface RequestOptions {
  /** Query of the URL; the client adds its project and target. */
  readonly query?: QueryValues | undefined;
  /** Sent as JSON unless it is text or bytes given as `raw`. */
  readonly json?: unknown;
  /** Body that is not JSON. */
  readonly raw?: RequestBody | undefined;
  /** Added to those the request needs. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Ends the request, which then rejects with its reason. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds of silence before and within the answer; overrides the client's. */
  readonly timeout?: number | undefined;
}

/** An answer in LXD's envelope. `operation` is set when the server works on in the background. */
export interface Answer<T> {
  /** HTTP status. */
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /** What was asked for. */
  readonly metadata: T;
  /** `/1.0/operations/<id>`; empty for a synchronous answer. */
  readonly operation: string;
}

interface Envelope {
  readonly type?: string;
  readonly error?: string;
  readonly error_code?: number;
  readonly operation?: string;
  readonly metadata?: unknown;
}

/** Requests in the API's form over a transport: query, JSON, envelope, errors. Shared by everything a client hands out. */
export class Connection {
  readonly transport: Transport;
  /** `1.0` */
  readonly version: string;
  readonly project: string | undefined;
  readonly target: string | undefined;

  constructor(
    transport: Transport,
    options: { version: string; project?: string | undefined; target?: string | undefined },
  ) {
    this.transport = transport;
    this.version = options.version;
    this.project = options.project;
    this.target = options.target;
  }

  /** Path below the version prefix with every part encoded: `path('instances', 'c1')` is `/1.0/instances/c1`. */
  path(...parts: readonly string[]): string {
    return ['', this.version, ...parts.map(encodeURIComponent)].join('/');
  }

  /** Sends a request and reads its envelope. @throws APIException, NotFound, PreconditionFailed, ClientConnectionFailed */
  async request<T>(method: string, path: string, options: RequestOptions = {}): Promise<Answer<T>> {
    const response = await this.raw(method, path, options);
    const info = { method, url: path };
    const text = await response.text();
    const envelope = parseEnvelope(text, response, info);
    // Incus sends the head of a blocking answer before it knows how it ends.
    if (envelope.type === 'error') throw failure(text, envelope.error_code || response.status, info);
    return {
      status: response.status,
      headers: response.headers,
      metadata: envelope.metadata as T,
      operation: envelope.type === 'async' ? (envelope.operation ?? '') : '',
    };
  }

  /** As `request`, and only the metadata. */
  async get<T>(path: string, options: RequestOptions = {}): Promise<T> {
    return (await this.request<T>('GET', path, options)).metadata;
  }

  /** Sends a request and leaves a good answer's body to the caller; an error answer is thrown. */
  async raw(method: string, path: string, options: RequestOptions = {}): Promise<TransportResponse> {
    const response = await this.send(method, path, options);
    if (response.status < 400) return response;
    throw failure(await response.text(), response.status, { method, url: path });
  }

  /** Sends a request and returns whatever comes, errors too. */
  async send(method: string, path: string, options: RequestOptions = {}): Promise<TransportResponse> {
    const { json, raw, signal, timeout } = options;
    const headers = { ...options.headers, ...(json === undefined ? {} : { 'Content-Type': 'application/json' }) };
    const body = json === undefined ? raw : JSON.stringify(json);
    return this.transport.request({
      method,
      path: this.withQuery(path, options.query),
      headers,
      ...(body === undefined ? {} : { body }),
      ...(signal === undefined ? {} : { signal }),
      ...(timeout === undefined ? {} : { timeout }),
    });
  }

  async openWebSocket(
    path: string,
    options: { query?: QueryValues; signal?: AbortSignal | undefined } = {},
  ): Promise<WebSocketLike> {
    const { signal } = options;
    return this.transport.openWebSocket(this.withQuery(path, options.query), signal === undefined ? {} : { signal });
  }

  /** The same server seen through another project or member. */
  with(options: { project?: string | undefined; target?: string | undefined }): Connection {
    return new Connection(this.transport, {
      version: this.version,
      project: this.project,
      target: this.target,
      ...options,
    });
  }

  withQuery(path: string, query: QueryValues = {}): string {
    const own = path.includes('project=') || query['all-projects'] !== undefined ? undefined : this.project;
    const all = { ...query, project: query['project'] ?? own, target: query['target'] ?? this.target };
    const parts: string[] = [];
    for (const [key, value] of Object.entries(all)) {
      if (value !== undefined) parts.push(`${encodeURIComponent(key)}=${encodeURIComponent(String(value))}`);
    }
    if (parts.length === 0) return path;
    return `${path}${path.includes('?') ? '&' : '?'}${parts.join('&')}`;
  }
}

function parseEnvelope(text: string, response: TransportResponse, info: { method: string; url: string }): Envelope {
  try {
    const envelope = JSON.parse(text) as Envelope | null;
    if (typeof envelope === 'object' && envelope !== null && envelope.type !== undefined) return envelope;
  } catch {
    // The parser's own message quotes the body, which may hold a secret.
    throw new APIException('The answer is not JSON', { ...info, status: response.status });
  }
  throw new APIException('The answer is not one of this API', { ...info, status: response.status });
}

/** The error of an answer with status 400 or more; also when its body is no envelope (a proxy's HTML page, say). */
export function failure(text: string, status: number, info: { method: string; url: string }): APIException {
  let message = '';
  try {
    message = (JSON.parse(text) as Envelope).error ?? '';
  } catch {
    message = '';
  }
  if (message === '') message = `The server answered with status ${status}`;
  if (status === 404) return new NotFound(message, { ...info, status });
  return status === 412
    ? new PreconditionFailed(message, { ...info, status })
    : new APIException(message, { ...info, status });
}

/** The error of a background operation that ended badly. */
export function operationFailure(
  operation: Pick<Operation, 'id' | 'err' | 'status_code' | 'status' | 'description'>,
  info: { method: string; url: string },
): APIException {
  const message = operation.err || `${operation.description}: ${operation.status}`;
  const details = { ...info, status: operation.status_code, operation: operation.id };
  return /not found$/i.test(operation.err) ? new NotFound(message, details) : new APIException(message, details);
}
