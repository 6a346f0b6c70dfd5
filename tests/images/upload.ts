import type { Operation } from '@keelson/api';
import type { Answer, RequestOptions } from '@keelson/testkit';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';

/** A server that can be sent requests: a daemon of ours or LXD. */
export interface Target {
  request<T = unknown>(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<Answer<T>>;
}

const BOUNDARY = 'keelson-image-test';

/** A split image as a form, as clients send it. */
export function form(metadata: string, rootfs: string): { body: Uint8Array; headers: Record<string, string> } {
  const part = (field: string, path: string): Uint8Array[] => [
    Buffer.from(
      `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${field}"; filename="${basename(path)}"\r\n` +
        'Content-Type: application/octet-stream\r\n\r\n',
    ),
    readFileSync(path),
    Buffer.from('\r\n'),
  ];
  const parts = [...part('metadata', metadata), ...part('rootfs', rootfs), Buffer.from(`--${BOUNDARY}--\r\n`)];
  return {
    body: Buffer.concat(parts),
    headers: { 'Content-Type': `multipart/form-data; boundary=${BOUNDARY}` },
  };
}

/** Sends an image and waits for the end of its operation. */
export async function upload(
  target: Target,
  body: Uint8Array,
  headers: Readonly<Record<string, string>> = {},
): Promise<Operation> {
  const octets = { 'Content-Type': 'application/octet-stream' };
  const started = await target.request('POST', '/1.0/images', body, { headers: { ...octets, ...headers } });
  if (started.status !== 202) throw new Error(`POST /1.0/images: ${started.status} ${started.text}`);
  return (await target.request<Operation>('GET', `${started.body.operation}/wait`)).body.metadata;
}
