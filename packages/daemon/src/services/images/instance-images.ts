import type { ImagesPostSource } from '@keelson/api';
import { type Clock, timestamp } from '../../core/clock.ts';
import { errors, isKeelsonError } from '../../core/errors.ts';
import type { ProgressOptions } from '../../drivers/storage/contract.ts';
import type { Collection } from '../../state/collection.ts';
import type { ImageRecord } from '../../state/records/image.ts';
import type { ProjectRecord } from '../../state/records/project.ts';
import type { ImageTemplates, InstanceImages } from '../instances/ports.ts';
import { effectiveProject } from '../projects/scope.ts';
import type { ImageCatalog } from './image-catalog.ts';
import type { ImageDownloads } from './image-downloads.ts';
import { parseMetadata } from './metadata.ts';
import type { ImageFiles } from './ports.ts';

const CACHED_TEMPLATES = 64;

export interface InstanceImagesOptions {
  readonly images: Collection<ImageRecord>;
  readonly projects: Collection<ProjectRecord>;
  readonly catalog: ImageCatalog;
  readonly downloads: ImageDownloads;
  readonly files: ImageFiles;
  /** `images.auto_update_cached` of the server. */
  readonly updateCached: () => boolean;
  readonly clock: Clock;
}

type Source = Readonly<Record<string, unknown>>;

/** What instances and storage need from images. */
export class InstanceImageService implements InstanceImages {
  readonly #options: InstanceImagesOptions;
  readonly #templates = new Map<string, ImageTemplates>();

  constructor(options: InstanceImagesOptions) {
    this.#options = options;
  }

  async resolve(
    project: string,
    source: Source,
    type: ImageRecord['type'],
    options: ProgressOptions,
  ): Promise<ImageRecord> {
    const home = effectiveProject(this.#options.projects, project, 'images');
    const remote = textOf(source, 'server') !== '' && textOf(source, 'mode') !== 'local';
    const image = remote ? await this.#fetch(home, source, type, options) : this.#find(home, source);
    if (image.type === type) return image;
    throw errors.badRequest(`Requested image's type "${image.type}" doesn't match instance type "${type}"`);
  }

  /** Finds a local image. @throws not-found, bad-request with LXD's text. */
  #find(home: string, source: Source): ImageRecord {
    const { catalog } = this.#options;
    const alias = textOf(source, 'alias');
    if (alias !== '') {
      const entry = catalog.alias(home, alias);
      if (entry === undefined) throw errors.notFound('Image alias not found');
      return catalog.byFingerprint(home, entry.value.target).value;
    }
    const fingerprint = textOf(source, 'fingerprint');
    if (fingerprint !== '') return catalog.byFingerprint(home, fingerprint).value;
    const properties = source['properties'];
    if (properties === null || typeof properties !== 'object') {
      throw errors.badRequest('Must specify one of alias, fingerprint or properties for init from image');
    }
    const wanted = Object.fromEntries(Object.entries(properties).map(([key, value]) => [key, String(value)]));
    const found = catalog.byProperties(home, wanted);
    if (found === undefined) throw errors.badRequest('No matching image could be found');
    return found.value;
  }

  #fetch(home: string, source: Source, type: ImageRecord['type'], options: ProgressOptions): Promise<ImageRecord> {
    const request: ImagesPostSource = {
      type: 'image',
      image_type: type,
      ...Object.fromEntries(
        ['alias', 'fingerprint', 'server', 'protocol', 'certificate', 'secret', 'project'].map((key) => [
          key,
          textOf(source, key),
        ]),
      ),
    };
    const wanted = {
      home,
      fingerprint: '',
      filename: '',
      public: false,
      cached: true,
      autoUpdate: this.#options.updateCached(),
      properties: {},
      profiles: [],
      aliases: [],
    };
    return this.#options.downloads.fetch(request, wanted, {
      signal: options.signal,
      ...(options.onProgress === undefined ? {} : { onProgress: options.onProgress }),
    });
  }

  async touch(project: string, fingerprint: string): Promise<void> {
    const home = effectiveProject(this.#options.projects, project, 'images');
    const lastUsedAt = timestamp(this.#options.clock);
    try {
      await this.#options.images.update(`${home}/${fingerprint}`, (current) => ({ ...current, lastUsedAt }));
    } catch (error) {
      if (!isKeelsonError(error, 'not-found')) throw error;
    }
  }

  async templates(image: ImageRecord): Promise<ImageTemplates> {
    const known = this.#templates.get(image.fingerprint);
    if (known !== undefined) return known;
    const { metadata, templates } = await this.#options.files.details(image.fingerprint, image.type, image.split);
    const found = { metadata: parseMetadata(metadata).document, files: templates };
    if (this.#templates.size >= CACHED_TEMPLATES) this.#templates.clear();
    this.#templates.set(image.fingerprint, found);
    return found;
  }

  /** For storage's image volumes: `rootfs/` or `root.img` into an existing empty folder, with guest ids. */
  async unpackImage(image: ImageRecord, target: string, options: ProgressOptions = {}): Promise<void> {
    options.onProgress?.({ stage: 'unpack', bytes: 0 });
    await this.#options.files.unpack(image, target, options);
  }
}

function textOf(source: Source, key: string): string {
  const value = source[key];
  return typeof value === 'string' ? value : '';
}
