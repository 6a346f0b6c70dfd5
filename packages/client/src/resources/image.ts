import type { Image as ImageRecord, ImagesPost } from '@keelson/api';
import { ClientError } from '../errors.ts';
import { Manager } from '../manager.ts';
import {
  type CallOptions,
  defineAttributes,
  Model,
  type ModelContext,
  type ProgressOptions,
  type WaitOptions,
} from '../model.ts';
import { type MultipartPart, multipart } from '../multipart.ts';
import type { RequestBody } from '../transport/types.ts';
import { Download, exists, inProject, serverHeaders } from './common.ts';

const FIELDS = [
  'fingerprint',
  'aliases',
  'architecture',
  'auto_update',
  'cached',
  'created_at',
  'expires_at',
  'filename',
  'last_used_at',
  'profiles',
  'properties',
  'public',
  'size',
  'type',
  'update_source',
  'uploaded_at',
] as const;
const WRITABLE = ['auto_update', 'properties', 'public', 'expires_at', 'profiles'] as const;

/** An image, identified by its fingerprint (SHA-256, lower-case hex) or an alias. */
export class Image extends Model<ImageRecord> {
  /** SHA-256, lower-case hex. */
  declare readonly fingerprint: ImageRecord['fingerprint'];
  /** Names that lead to it. */
  declare readonly aliases: ImageRecord['aliases'];
  /** For example `x86_64`. */
  declare readonly architecture: ImageRecord['architecture'];
  /** Whether the server follows its source. */
  declare auto_update: ImageRecord['auto_update'];
  /** Whether the server fetched it for an instance, and may delete it again. */
  declare readonly cached: ImageRecord['cached'];
  /** RFC 3339; 1970 when unknown. */
  declare readonly created_at: ImageRecord['created_at'];
  /** RFC 3339; 1970 for never. */
  declare expires_at: ImageRecord['expires_at'];
  /** Name of the file it came in. */
  declare readonly filename: ImageRecord['filename'];
  /** RFC 3339; year 1 when never. */
  declare readonly last_used_at: ImageRecord['last_used_at'];
  /** Profiles of instances made from it. */
  declare profiles: ImageRecord['profiles'];
  /** What it says of itself: `os`, `release`, `description`, … */
  declare properties: ImageRecord['properties'];
  /** Whether clients without a certificate may download it. */
  declare public: ImageRecord['public'];
  /** Bytes. */
  declare readonly size: ImageRecord['size'];
  /** `container` or `virtual-machine`. */
  declare readonly type: ImageRecord['type'];
  /** Where it came from, for `auto_update`. */
  declare readonly update_source: ImageRecord['update_source'];
  /** RFC 3339. */
  declare readonly uploaded_at: ImageRecord['uploaded_at'];

  /** @internal */
  constructor(context: ModelContext, fingerprint: string, record: Partial<ImageRecord>, populated: boolean) {
    const path = context.connection.path('images', fingerprint);
    super(
      context,
      { path, label: `Image ${fingerprint.slice(0, 12)}`, writable: WRITABLE },
      { fingerprint, ...record },
      populated,
    );
  }

  /** `POST /1.0/images/aliases` @throws APIException when the alias is taken */
  async addAlias(name: string, description = '', options: CallOptions = {}): Promise<void> {
    const path = this.connection.path('images', 'aliases');
    const json = { name, description, target: this.fingerprint };
    await this.connection.request('POST', path, { json, signal: options.signal });
    await this.sync(options);
  }

  /** `DELETE /1.0/images/aliases/<name>` @throws NotFound */
  async deleteAlias(name: string, options: CallOptions = {}): Promise<void> {
    this.assertAlive();
    const path = this.connection.path('images', 'aliases', name);
    await this.connection.request('DELETE', path, { signal: options.signal });
    await this.sync(options);
  }

  /**
   * The image's bytes: one tarball, or for a split image a multipart body. `GET /1.0/images/<fingerprint>/export`.
   * In Node `exportToFile` of the package writes it to a temporary file.
   */
  async export(options: CallOptions = {}): Promise<Download> {
    return new Download(await this.connection.raw('GET', `${this.path}/export`, { signal: options.signal }));
  }

  /**
   * Copies the image to another server, which pulls it from here; a private image is opened with a one-time secret.
   * A server that listens on no network address cannot be pulled from: then the image streams through this client,
   * and the copy is there when this resolves. Returns the copy when `wait` is set. `POST /1.0/images` @throws APIException
   */
  async copy(
    target: { readonly images: ImageManager },
    options: WaitOptions & ImageCopyOptions = {},
  ): Promise<Image | undefined> {
    if (!this.populated) await this.sync(options);
    const images =
      options.project === undefined ? target.images : new ImageManager(inProject(target.images.scope, options.project));
    const server = await this.connection.get<{
      environment?: { addresses?: string[] | null; certificate?: string };
    }>(this.connection.path(), { signal: options.signal });
    const address = options.mode === 'relay' ? undefined : server.environment?.addresses?.[0];
    if (address === undefined) {
      if (options.mode === 'pull') throw new ClientError('A pull needs a server that listens on the network');
      const copy = await images.upload(await this.export(options), {
        public: options.public ?? this.public,
        properties: this.properties,
        signal: options.signal,
        onProgress: options.onProgress,
      });
      return options.wait ? copy : undefined;
    }
    const secret = this.public ? undefined : await this.#secret(options);
    const source = {
      type: 'image',
      mode: 'pull',
      protocol: 'lxd',
      server: `https://${address}`,
      certificate: server.environment?.certificate ?? '',
      fingerprint: this.fingerprint,
      ...(secret === undefined ? {} : { secret }),
    };
    const body = { public: options.public ?? this.public, auto_update: options.autoUpdate ?? this.auto_update, source };
    return images.createFrom(body, options, this.fingerprint);
  }

  async #secret(options: CallOptions): Promise<string> {
    const { metadata } = await this.connection.request<{ metadata: { secret: string } }>(
      'POST',
      `${this.path}/secret`,
      {
        signal: options.signal,
      },
    );
    return metadata.metadata.secret;
  }
}
defineAttributes<ImageRecord>(Image, FIELDS, WRITABLE);

/** How an image reaches another server. */
export interface ImageCopyOptions {
  /** Whether clients without a certificate may download the copy; default as here. */
  readonly public?: boolean;
  /** Whether the copy follows its source; default as here. */
  readonly autoUpdate?: boolean;
  /** `pull`: the other server fetches it; `relay`: it streams through this client. Default: the first that can be. */
  readonly mode?: 'pull' | 'relay';
  /** Project of the copy; default that of the client. */
  readonly project?: string;
}

/** How an image is uploaded. */
export interface ImageCreateOptions extends ProgressOptions {
  /** Metadata tar of a split image; `image` is then its root file system. Sent as one multipart request. */
  readonly metadata?: RequestBody;
  /** Whether clients without a certificate may download it; default false. */
  readonly public?: boolean;
  /** Name of the file, for people. */
  readonly filename?: string;
  /** Override those in the image. */
  readonly properties?: Readonly<Record<string, string>> | undefined;
  /** Ignored: an upload is always waited for. */
  readonly wait?: boolean;
}

/** `client.images` */
export class ImageManager extends Manager<ImageRecord, Image, 'fingerprint'> {
  /** @internal */
  constructor(context: ModelContext) {
    super(context, {
      path: context.connection.path('images'),
      fields: FIELDS,
      key: 'fingerprint',
      make: (fingerprint, record, populated, scoped = context) => new Image(scoped, fingerprint, record, populated),
    });
  }

  /** `GET /1.0/images/aliases/<alias>`, then the image. @throws NotFound */
  async getByAlias(alias: string, options: CallOptions = {}): Promise<Image> {
    const { connection } = this.context;
    const path = connection.path('images', 'aliases', alias);
    const { target } = await connection.get<{ target: string }>(path, { signal: options.signal });
    return this.get(target, options);
  }

  /** By fingerprint (`GET /1.0/images/<fingerprint>`), or by alias with `alias` (`GET /1.0/images/aliases/<alias>`). */
  override async exists(name: string, options: CallOptions & { readonly alias?: boolean } = {}): Promise<boolean> {
    return options.alias ? exists(this.getByAlias(name, options)) : exists(this.get(name, options));
  }

  /** Uploads an image and waits until the server has it. `POST /1.0/images` @throws APIException */
  async create(image: RequestBody, options: ImageCreateOptions = {}): Promise<Image> {
    const { metadata, ...about } = options;
    if (metadata === undefined) return this.#send(image, { filename: 'image', ...about });
    const parts: MultipartPart[] = [
      { name: 'metadata', filename: 'metadata.tar', body: metadata },
      { name: 'rootfs', filename: options.filename ?? 'rootfs', body: image },
    ];
    const { body, contentType } = multipart(parts);
    return this.#send(body, { filename: 'image', ...about, contentType });
  }

  /** Uploads what another server exports, split or not: the copy has the same fingerprint. `POST /1.0/images` @throws APIException */
  async upload(download: Download, options: Omit<ImageCreateOptions, 'metadata' | 'filename'> = {}): Promise<Image> {
    const type = download.headers['content-type'] ?? '';
    const [, filename] = /filename="?([^";]+)/.exec(download.headers['content-disposition'] ?? '') ?? [];
    return this.#send(download, {
      filename: filename ?? 'image',
      ...options,
      ...(type.startsWith('multipart/') ? { contentType: type } : {}),
    });
  }

  async #send(
    body: RequestBody,
    options: Omit<ImageCreateOptions, 'metadata'> & { readonly filename: string; readonly contentType?: string },
  ): Promise<Image> {
    const { properties, signal, contentType = 'application/octet-stream' } = options;
    const headers: Record<string, string> = {
      'Content-Type': contentType,
      ...serverHeaders({
        public: options.public ? '1' : '0',
        filename: options.filename,
        properties: properties === undefined ? undefined : new URLSearchParams(properties).toString(),
      }),
    };
    const { connection, operations } = this.context;
    const { operation } = await connection.request('POST', this.definition.path, { raw: body, headers, signal });
    const ended = await operations.wait(operation, { signal, onProgress: options.onProgress });
    return this.get(fingerprintOf(ended.metadata), { signal });
  }

  /** From an image server of protocol simplestreams; `server` is its URL. `POST /1.0/images` @throws APIException */
  async createFromSimplestreams(
    server: string,
    alias: string,
    options: WaitOptions & { readonly public?: boolean; readonly autoUpdate?: boolean } = {},
  ): Promise<Image> {
    const source = { type: 'image', mode: 'pull', protocol: 'simplestreams', server, alias };
    return this.#createAndGet(
      { public: options.public ?? false, auto_update: options.autoUpdate ?? false, source },
      options,
    );
  }

  /** From a URL that answers with `LXD-Image-Hash` and `LXD-Image-URL`. `POST /1.0/images` @throws APIException */
  async createFromUrl(
    url: string,
    options: WaitOptions & { readonly public?: boolean; readonly autoUpdate?: boolean } = {},
  ): Promise<Image> {
    const source = { type: 'url', mode: 'pull', url };
    return this.#createAndGet(
      { public: options.public ?? false, auto_update: options.autoUpdate ?? false, source },
      options,
    );
  }

  /** Any other way that `POST /1.0/images` knows. Resolves with the image when `wait` is set. @throws APIException */
  async createFrom(body: ImagesPost, options: WaitOptions = {}, fingerprint?: string): Promise<Image | undefined> {
    const { connection, operations } = this.context;
    const { operation } = await connection.request('POST', this.definition.path, {
      json: body,
      signal: options.signal,
    });
    if (!options.wait) return undefined;
    const { signal, onProgress } = options;
    const ended = await operations.wait(operation, { signal, onProgress });
    return this.get(fingerprint ?? fingerprintOf(ended.metadata), { signal });
  }

  async #createAndGet(body: ImagesPost, options: WaitOptions): Promise<Image> {
    const image = await this.createFrom(body, { ...options, wait: true });
    if (image === undefined) throw new TypeError('createFrom with wait returns an image');
    return image;
  }
}

function fingerprintOf(metadata: unknown): string {
  return String((metadata as { fingerprint?: unknown } | null)?.fingerprint ?? '');
}
