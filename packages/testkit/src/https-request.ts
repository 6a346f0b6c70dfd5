import { request as httpsRequest } from 'node:https';
import { patient } from './patience.ts';
import { handled } from './poll.ts';
import type { Answer, Envelope } from './request.ts';

export interface HttpsTarget {
  /** `host:port` */
  readonly address: string;
  readonly certificate?: string;
  readonly key?: string;
}

/** One request over HTTPS, the server's own certificate taken as it is. */
export function httpsCall<T = unknown>(
  target: HttpsTarget,
  method: string,
  path: string,
  body?: unknown,
): Promise<Answer<T>> {
  const { address, certificate, key } = target;
  const colon = address.lastIndexOf(':');
  const answered = new Promise<Answer<T>>((resolve, reject) => {
    const sent = httpsRequest(
      {
        host: address.slice(0, colon).replace(/^\[(.*)\]$/, '$1'),
        port: Number(address.slice(colon + 1)),
        method,
        path,
        agent: false,
        rejectUnauthorized: false,
        timeout: patient(60_000),
        ...(certificate === undefined ? {} : { cert: certificate }),
        ...(key === undefined ? {} : { key }),
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString();
          try {
            const envelope = JSON.parse(text) as Envelope<T>;
            resolve({ status: response.statusCode ?? 0, headers: response.headers, text, body: envelope });
          } catch (error) {
            reject(new Error(`${method} ${path}: no JSON: ${text.slice(0, 200)}`, { cause: error }));
          }
        });
      },
    );
    sent.on('timeout', () => sent.destroy(new Error(`${method} ${path}: no answer in time`)));
    sent.on('error', reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
  return handled(answered);
}
