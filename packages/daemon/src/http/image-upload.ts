import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { errors, type KeelsonError } from '../core/errors.ts';
import { MultipartError, readMultipart } from '../core/multipart.ts';
import type { ImageExport, UploadOptions, UploadPart } from '../services/images/contract.ts';
import type { ImagePart } from '../services/images/ports.ts';

/** The image parts of an upload: the body itself, or those of a `multipart/form-data` body in their order. */
export function uploadParts(request: IncomingMessage): AsyncIterable<UploadPart> {
  const type = request.headers['content-type'] ?? '';
  return type.toLowerCase().startsWith('multipart/') ? multipartParts(request, type) : singlePart(request);
}

async function* singlePart(request: IncomingMessage): AsyncGenerator<UploadPart> {
  yield { part: 'main', filename: undefined, body: request };
}

/** What may come at each place. @throws bad-request with LXD's text. */
function partAt(place: number, field: string): ImagePart {
  if (place === 0 && field === 'metadata') return 'main';
  if (place === 1 && field === 'rootfs') return 'root';
  if (place === 1 && field === 'rootfs.img') return 'disk';
  throw invalidMultipart();
}

async function* multipartParts(request: IncomingMessage, contentType: string): AsyncGenerator<UploadPart> {
  let place = 0;
  try {
    for await (const { field, filename, body } of readMultipart(request, contentType)) {
      yield { part: partAt(place, field), filename, body };
      place += 1;
    }
  } catch (error) {
    throw error instanceof MultipartError ? invalidMultipart(error) : error;
  }
  if (place < 2) throw errors.badRequest(place === 0 ? 'Invalid multipart image' : 'EOF');
}

function invalidMultipart(cause?: unknown): KeelsonError {
  return errors.badRequest('Invalid multipart image', cause);
}

/** What the headers of an upload say; lists and maps are query strings there. */
export function uploadOptions(headers: IncomingHttpHeaders): Omit<UploadOptions, 'signal' | 'requestor'> {
  const profiles = new URLSearchParams(textOf(headers['x-lxd-profiles'])).getAll('profile');
  const aliases = new URLSearchParams(textOf(headers['x-lxd-aliases'])).getAll('alias');
  return {
    fingerprint: textOf(headers['x-lxd-fingerprint']),
    filename: checkFilename(textOf(headers['x-lxd-filename'])),
    public: ['1', 't', 'true', 'yes', 'on'].includes(textOf(headers['x-lxd-public']).toLowerCase()),
    properties: Object.fromEntries(new URLSearchParams(textOf(headers['x-lxd-properties']))),
    profiles,
    aliases,
  };
}

/** The name is shown and sent in headers again; it never becomes a path. */
function checkFilename(name: string): string {
  if (name.length > 255 || /[\p{Cc}/\\"]/u.test(name)) throw errors.badRequest(`Invalid X-LXD-filename "${name}"`);
  return name;
}

function textOf(header: string | string[] | undefined): string {
  return Array.isArray(header) ? (header[0] ?? '') : (header ?? '');
}

/** Body and headers of an export: the unified file itself, or both files of a split image as LXD sends them. */
export function exportReply(
  image: ImageExport,
  boundary: string,
): { readonly body: Readable; readonly headers: Readonly<Record<string, string>> } {
  const { main, root } = image;
  if (root === undefined) {
    const headers = {
      'Content-Type': 'application/octet-stream',
      'Content-Length': String(main.size),
      'Content-Disposition': `inline;filename=${main.filename}`,
    };
    return { body: main.open(), headers };
  }
  const heads = [
    partHead(boundary, 'metadata', main.filename),
    partHead(boundary, root.disk ? 'rootfs.img' : 'rootfs', root.filename),
  ] as const;
  const tail = `\r\n--${boundary}--\r\n`;
  const length = main.size + root.size + heads[0].length + 2 + heads[1].length + tail.length;
  async function* parts(): AsyncGenerator<Uint8Array | string> {
    yield heads[0];
    yield* main.open() as AsyncIterable<Uint8Array>;
    yield `\r\n${heads[1]}`;
    if (root !== undefined) yield* root.open() as AsyncIterable<Uint8Array>;
    yield tail;
  }
  return {
    body: Readable.from(parts(), { objectMode: false, highWaterMark: 256 * 1024 }),
    headers: {
      'Content-Type': `multipart/form-data; boundary=${boundary}`,
      'Content-Length': String(length),
    },
  };
}

function partHead(boundary: string, field: string, filename: string): string {
  return (
    `--${boundary}\r\nContent-Disposition: form-data; name="${field}"; filename="${filename}"\r\n` +
    'Content-Type: application/octet-stream\r\n\r\n'
  );
}
