import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { patient } from './patience.ts';
import { handled } from './poll.ts';

export interface Answer<T = unknown> {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The parsed envelope; undefined when the body is not JSON. */
  readonly body: Envelope<T>;
}

/** What every JSON answer looks like; `T` is what the test expects in it. */
export interface Envelope<T = unknown> {
  readonly type: string;
  readonly status_code: number;
  readonly operation: string;
  readonly error_code: number;
  readonly error: string;
  readonly metadata: T;
}

export interface RequestOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
}

/**
 * One request over a unix socket. A plain object goes as JSON, text and bytes as they are.
 */
export function request<T = unknown>(
  socketPath: string,
  method: string,
  path: string,
  body?: unknown,
  options: RequestOptions = {},
): Promise<Answer<T>> {
  const plain = body === undefined || typeof body === 'string' || body instanceof Uint8Array;
  const payload = plain ? (body as string | Uint8Array | undefined) : JSON.stringify(body);
  const answered = new Promise<Answer<T>>((resolve, reject) => {
    const sent = httpRequest(
      {
        socketPath,
        method,
        path,
        headers: { ...(plain ? {} : { 'Content-Type': 'application/json' }), ...options.headers },
        agent: false,
        timeout: patient(options.timeoutMs ?? 180_000),
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString('utf8');
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text, body: parse<T>(text) });
        });
      },
    );
    sent.on('timeout', () => sent.destroy(new Error(`${method} ${path}: no answer in time`)));
    sent.on('error', reject);
    sent.end(payload);
  });
  return handled(answered);
}

function parse<T>(text: string): Envelope<T> {
  try {
    return JSON.parse(text) as Envelope<T>;
  } catch {
    return { type: '', status_code: 0, operation: '', error_code: 0, error: text, metadata: undefined as T };
  }
}
