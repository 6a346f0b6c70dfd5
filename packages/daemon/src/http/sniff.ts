import type { IncomingMessage } from 'node:http';

/**
 * Whether the body of a route that takes JSON or bytes is JSON: by `Content-Type` where it is telling, else (curl
 * and Go send none, or a form type) by its first character. The body stays readable.
 */
export async function hasJson(request: IncomingMessage): Promise<boolean> {
  const type = (request.headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase() ?? '';
  if (type === 'application/json') return true;
  if (type === 'application/octet-stream' || type.startsWith('multipart/')) return false;
  return (await firstByte(request)) === '{';
}

async function firstByte(request: IncomingMessage): Promise<string> {
  if (request.readableEnded) return '';
  await new Promise<void>((resolve, reject) => {
    if (request.readableLength > 0) return resolve();
    request.once('readable', resolve).once('error', reject).once('close', resolve);
  });
  const chunk: unknown = request.read();
  if (!(chunk instanceof Uint8Array)) return '';
  request.unshift(chunk);
  return Buffer.from(chunk).toString('latin1').trimStart().slice(0, 1);
}
