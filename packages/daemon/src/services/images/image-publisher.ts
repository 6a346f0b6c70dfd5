import type { ImagesPost } from '@keelson/api';
import { stringify } from 'yaml';
import type { Clock } from '../../core/clock.ts';
import { errors } from '../../core/errors.ts';
import type { OperationContext } from '../operations/contract.ts';
import { compressions, type ImageFiles, type ImageInstances, type ImagePacker, type IncomingImage } from './ports.ts';

export interface ImagePublisherOptions {
  readonly files: ImageFiles;
  readonly packer: ImagePacker;
  readonly instances: ImageInstances;
  /** `images.compression_algorithm` of the server. */
  readonly defaultCompression: () => string;
  readonly clock: Clock;
}

/** Makes images of instances and their snapshots. */
export class ImagePublisher {
  readonly #options: ImagePublisherOptions;

  constructor(options: ImagePublisherOptions) {
    this.#options = options;
  }

  /**
   * Checks the request; the returned function does the work inside an operation.
   * @throws bad-request, not-found with LXD's text.
   */
  prepare(project: string, body: ImagesPost): (context: OperationContext) => Promise<IncomingImage> {
    const source = body.source ?? {};
    const compression = nonEmpty(body.compression_algorithm) ?? nonEmpty(this.#options.defaultCompression()) ?? 'gzip';
    if (!compressions.includes(compression)) throw errors.badRequest(`Invalid compression algorithm "${compression}"`);
    const { name, snapshot } = split(source.name ?? '', source.type === 'snapshot');
    const instance = this.#options.instances.describe(project, name, snapshot);
    if (instance.type !== 'container') throw errors.notImplemented('Virtual machines cannot be published yet');
    const properties = { ...instance.properties, ...body.properties };
    return (context) => {
      const metadata = {
        architecture: instance.architecture,
        creation_date: Math.floor(this.#options.clock.now() / 1000),
        expiry_date: expiryOf(body.expires_at),
        properties,
      };
      return this.#pack(project, { name, snapshot, metadata, compression }, context);
    };
  }

  async #pack(project: string, work: Work, context: OperationContext): Promise<IncomingImage> {
    const { files, packer, instances } = this.#options;
    const { name, snapshot, compression } = work;
    const { templates, files: templateFiles } = await instances.templates(project, name, snapshot);
    const metadata = stringify({ ...work.metadata, templates });
    const incoming = await files.begin();
    try {
      await using source = await instances.open(project, name, snapshot);
      const { signal } = context;
      const stream = packer.pack(source, { metadata, templates: templateFiles }, { compression, signal });
      const onBytes = (bytes: number): void => context.progress('create_image_from_container_pack', { bytes });
      await incoming.receive('main', stream, { signal, onBytes });
      return incoming;
    } catch (error) {
      await incoming[Symbol.asyncDispose]();
      throw error;
    }
  }
}

interface Work {
  readonly name: string;
  readonly snapshot: string | undefined;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly compression: string;
}

/** `c1` or `c1/snap`. @throws bad-request, not-found with LXD's text. */
function split(source: string, isSnapshot: boolean): { name: string; snapshot: string | undefined } {
  if (source === '') throw errors.badRequest('No source provided');
  const slash = source.indexOf('/');
  if (!isSnapshot) return { name: source, snapshot: undefined };
  if (slash <= 0) throw errors.notFound('Instance not found');
  return { name: source.slice(0, slash), snapshot: source.slice(slash + 1) };
}

function expiryOf(time: string | undefined): number {
  const milliseconds = time === undefined ? Number.NaN : Date.parse(time);
  return Number.isNaN(milliseconds) || milliseconds < 0 ? 0 : Math.floor(milliseconds / 1000);
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === '' ? undefined : text;
}
