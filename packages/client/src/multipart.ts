import type { RequestBody } from './transport/types.ts';

export interface MultipartPart {
  readonly name: string;
  readonly filename: string;
  readonly body: RequestBody;
}

/** A `multipart/form-data` body that is made while it is sent; parts are never held in memory. */
export function multipart(parts: readonly MultipartPart[]): { contentType: string; body: AsyncIterable<Uint8Array> } {
  const boundary = `keelson-${crypto.randomUUID()}`;
  return { contentType: `multipart/form-data; boundary=${boundary}`, body: encode(parts, boundary) };
}

async function* encode(parts: readonly MultipartPart[], boundary: string): AsyncGenerator<Uint8Array> {
  const text = new TextEncoder();
  for (const part of parts) {
    const disposition = `Content-Disposition: form-data; name="${part.name}"; filename="${part.filename.replace(/["\r\n]/g, '_')}"`;
    yield text.encode(`--${boundary}\r\n${disposition}\r\nContent-Type: application/octet-stream\r\n\r\n`);
    if (typeof part.body === 'string') yield text.encode(part.body);
    else if (part.body instanceof Uint8Array) yield part.body;
    else yield* part.body;
    yield text.encode('\r\n');
  }
  yield text.encode(`--${boundary}--\r\n`);
}
