import Busboy, { type BusboyFileStream } from '@fastify/busboy';
import { PassThrough, type Readable } from 'node:stream';

/** One part of a `multipart/form-data` body. */
export interface MultipartPart {
  readonly field: string;
  readonly filename: string | undefined;
  readonly body: AsyncIterable<Uint8Array>;
}

/** The body is not what its content type says. */
export class MultipartError extends Error {
  override readonly name = 'MultipartError';
}

interface FoundPart {
  readonly field: string;
  readonly filename: string | undefined;
  readonly stream: BusboyFileStream;
}

/**
 * The parts of a form in their order; each must be read before the next is asked for. The rest of the source is
 * read away when the caller stops early. @throws MultipartError
 */
export async function* readMultipart(source: Readable, contentType: string): AsyncGenerator<MultipartPart> {
  const found = new PassThrough({ objectMode: true, highWaterMark: 1 });
  const form = openForm(contentType);
  form.on('file', (field: string, stream: BusboyFileStream, filename: string | undefined) => {
    stream.on('error', () => undefined); // the reader of the part sees it too
    found.write({ field, filename, stream });
  });
  form.on('finish', () => found.end());
  form.on('error', (error: unknown) => found.destroy(new MultipartError('The form cannot be read', { cause: error })));
  source.on('error', (error) => found.destroy(error));
  source.on('close', () => {
    if (!source.readableEnded) found.destroy(new MultipartError('The form ends early'));
  });
  source.pipe(form);
  try {
    for await (const { field, filename, stream } of found as AsyncIterable<FoundPart>) {
      yield { field, filename, body: stream };
    }
  } finally {
    source.unpipe(form);
    source.resume();
  }
}

function openForm(contentType: string): InstanceType<typeof Busboy.default> {
  try {
    const limits = { fieldSize: 1024, fields: 4, files: 4, headerPairs: 32 };
    return new Busboy.default({ headers: { 'content-type': contentType }, limits });
  } catch (error) {
    throw new MultipartError('The content type names no boundary', { cause: error });
  }
}
