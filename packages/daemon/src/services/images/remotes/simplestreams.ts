import type { Clock } from '../../../core/clock.ts';
import { errors } from '../../../core/errors.ts';
import type { ImagePart, RemoteImage, RemotePart, RemoteRequest } from '../ports.ts';
import { fetchJson, fetchUrl, type FetchOptions } from './fetch.ts';
import { findProduct, type Product, type ProductFile, productPaths } from './products.ts';

const DOCUMENT_LIMIT = 64 * 1024 * 1024;
const CACHE_MS = 3_600_000;
const CACHE_ENTRIES = 16;

export interface SimpleStreamsOptions {
  /** Canonical name of the host's architecture. */
  readonly architecture: string;
  readonly clock: Clock;
}

/** Image servers of the simplestreams kind; HTTPS only. What they list is kept for an hour. */
export class SimpleStreams {
  readonly #options: SimpleStreamsOptions;
  readonly #documents = new Map<string, { readonly at: number; readonly value: unknown }>();

  constructor(options: SimpleStreamsOptions) {
    this.#options = options;
  }

  /** @throws not-found when the server has no such image for this architecture. */
  async find(request: RemoteRequest, signal: AbortSignal | undefined): Promise<RemoteImage> {
    const { certificate, type, name } = request;
    const server = request.server.replace(/\/+$/, '');
    const options: FetchOptions = { certificate, signal };
    const index = await this.#document(`${server}/streams/v1/index.json`, options);
    for (const path of productPaths(index)) {
      const products = await this.#document(`${server}/${path}`, options);
      const product = findProduct(products, { name, type, architecture: this.#options.architecture });
      if (product !== undefined) return this.#image(server, product, { certificate, type });
    }
    throw errors.notFound(`Server "${server}" has no image "${name}" for ${this.#options.architecture}`);
  }

  #image(server: string, product: Product, options: { certificate: string; type: RemoteRequest['type'] }): RemoteImage {
    const { metadata, root, fingerprint, properties } = product;
    const part: ImagePart = options.type === 'virtual-machine' ? 'disk' : 'root';
    const { certificate } = options;
    return {
      fingerprint,
      properties,
      size: metadata.size + root.size,
      open: (signal) =>
        downloadAll(server, [
          { part: 'main', file: metadata, options: { certificate, signal } },
          { part, file: root, options: { certificate, signal } },
        ]),
    };
  }

  async #document(url: string, options: FetchOptions): Promise<unknown> {
    const now = this.#options.clock.now();
    const key = `${options.certificate ?? ''}|${url}`;
    const known = this.#documents.get(key);
    if (known !== undefined && now - known.at < CACHE_MS) return known.value;
    const value = await fetchJson(url, DOCUMENT_LIMIT, options);
    if (this.#documents.size >= CACHE_ENTRIES) this.#documents.clear();
    this.#documents.set(key, { at: now, value });
    return value;
  }
}

interface Download {
  readonly part: ImagePart;
  readonly file: ProductFile;
  readonly options: FetchOptions;
}

/** The fingerprint is over both files, so it is all that has to be compared at the end. */
async function* downloadAll(server: string, downloads: readonly Download[]): AsyncGenerator<RemotePart> {
  for (const { part, file, options } of downloads) {
    const url = `${server}/${file.path}`;
    const answer = await fetchUrl(url, options);
    if (answer.statusCode !== 200) {
      answer.resume();
      throw errors.badRequest(`"${url}" answered with status ${answer.statusCode ?? 0}`);
    }
    const filename = part === 'main' ? undefined : file.path.slice(file.path.lastIndexOf('/') + 1);
    yield { part, filename, body: limited(answer, file.size, url) };
  }
}

async function* limited(source: AsyncIterable<Uint8Array>, size: number, url: string): AsyncGenerator<Uint8Array> {
  let received = 0;
  for await (const chunk of source) {
    received += chunk.length;
    if (received > size) throw errors.badRequest(`"${url}" is larger than the server's list says`);
    yield chunk;
  }
}
