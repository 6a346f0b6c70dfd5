import type { ImagesPost } from '@keelson/api';
import { errors, isKeelsonError } from '../../core/errors.ts';
import type { ImageRecord } from '../../state/records/image.ts';
import type { Events } from '../events/contract.ts';
import type { OperationContext, Operations, StartedOperation } from '../operations/contract.ts';
import type { CreateOptions, UploadOptions, UploadPart } from './contract.ts';
import type { ImageDownloads } from './image-downloads.ts';
import type { ImageImporter, NewImage } from './image-importer.ts';
import { imageUrl } from './image-names.ts';
import type { ImagePublisher } from './image-publisher.ts';
import type { ImageFiles } from './ports.ts';

export interface ImageCreatorOptions {
  readonly files: ImageFiles;
  readonly importer: ImageImporter;
  readonly downloads: ImageDownloads;
  readonly publisher: ImagePublisher;
  readonly operations: Operations;
  readonly events: Events;
}

/** The project of a request, and the one that holds its images. */
export interface ImageScope {
  readonly project: string;
  readonly home: string;
}

type Work = (context: OperationContext) => Promise<ImageRecord>;

/** Starts the operations that make images. */
export class ImageCreator {
  readonly #options: ImageCreatorOptions;

  constructor(options: ImageCreatorOptions) {
    this.#options = options;
  }

  async upload(scope: ImageScope, parts: AsyncIterable<UploadPart>, options: UploadOptions): Promise<StartedOperation> {
    const incoming = await this.#options.files.begin();
    let rejected: unknown;
    let { filename } = options;
    try {
      for await (const { part, body, filename: name } of parts) {
        if (part !== 'main' && filename === '') filename = name ?? '';
        await incoming.receive(part, body, { signal: options.signal });
      }
    } catch (error) {
      // What is wrong with the image itself ends the operation, as LXD does; everything else ends the request.
      if (!isKeelsonError(error, 'bad-request')) {
        await incoming[Symbol.asyncDispose]();
        throw error;
      }
      rejected = error;
    }
    const wanted: NewImage = {
      ...options,
      home: scope.home,
      filename,
      aliases: options.aliases.map((name) => ({ name, description: '' })),
    };
    return this.#start(scope, options, async (context) => {
      await using received = incoming;
      if (rejected !== undefined) throw rejected;
      return await this.#options.importer.finish(received, wanted, this.#reporting(context));
    });
  }

  /** @throws bad-request for a source of no known type, not-found for a missing instance. */
  async create(scope: ImageScope, body: ImagesPost, options: CreateOptions): Promise<StartedOperation> {
    const { importer, downloads, publisher } = this.#options;
    const wanted = wishesOf(scope, body);
    const source = body.source ?? {};
    switch (source.type) {
      case 'instance':
      case 'container':
      case 'virtual-machine':
      case 'snapshot': {
        const publish = publisher.prepare(scope.project, body);
        return this.#start(scope, options, async (context) => {
          await using received = await publish(context);
          return await importer.finish(received, wanted, this.#reporting(context));
        });
      }
      case 'url':
      case 'image':
        if (!options.mayFetch) throw errors.unauthorized('Only an administrator can have images downloaded');
        return this.#start(scope, options, (context) => downloads.fetch(source, wanted, this.#reporting(context)));
      default:
        throw errors.badRequest('Invalid images JSON');
    }
  }

  /** Downloads a newer version from where the image came. False: it is up to date, or came from nowhere. */
  refresh(image: ImageRecord, context: OperationContext): Promise<boolean> {
    return this.#options.downloads.refresh(image, this.#reporting(context));
  }

  #start({ project }: ImageScope, options: Pick<CreateOptions, 'requestor'>, work: Work): StartedOperation {
    return this.#options.operations.start({
      class: 'task',
      project,
      description: 'Downloading image',
      resources: {},
      run: async (context) => {
        const { fingerprint, size } = await work(context);
        this.#options.events.lifecycle(project, {
          action: 'image-created',
          source: imageUrl(fingerprint),
          ...(options.requestor === undefined ? {} : { requestor: options.requestor }),
        });
        return { fingerprint, size: String(size) };
      },
    });
  }

  #reporting(context: OperationContext): ImportReport {
    return {
      signal: context.signal,
      onReceived: ({ fingerprint, size }) => context.update({ fingerprint, size: String(size) }),
      onProgress: ({ stage, ...progress }) => context.progress(stage, progress),
    };
  }
}

/** What an import tells while it runs. */
export interface ImportReport {
  readonly signal: AbortSignal | undefined;
  readonly onReceived?: (received: { readonly fingerprint: string; readonly size: number }) => void;
  readonly onProgress?: (progress: {
    readonly stage: string;
    readonly bytes: number;
    readonly percent?: number;
  }) => void;
}

function wishesOf({ home }: ImageScope, body: ImagesPost): NewImage {
  return {
    home,
    fingerprint: '',
    filename: body.filename ?? '',
    public: body.public ?? false,
    autoUpdate: body.auto_update ?? false,
    properties: body.properties ?? {},
    profiles: body.profiles ?? [],
    aliases: (body.aliases ?? []).map(({ name, description }) => ({ name, description: description ?? '' })),
    ...(body.expires_at === undefined ? {} : { expiresAt: body.expires_at }),
  };
}
