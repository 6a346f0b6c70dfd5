import type { Image, ImageAlias } from '@keelson/api';
import { errors, type KeelsonError } from '../../core/errors.ts';
import type { Collection, Entry } from '../../state/collection.ts';
import type { ImageAliasRecord, ImageRecord } from '../../state/records/image.ts';

const PREFIX = /^[0-9a-f]{1,64}$/;

/** Finds image records of one project (the one that holds its images). Reads the view only. */
export class ImageCatalog {
  readonly #images: Collection<ImageRecord>;
  readonly #aliases: Collection<ImageAliasRecord>;
  #aliasRevision = -1;
  #byTarget = new Map<string, ImageAlias[]>();

  constructor(images: Collection<ImageRecord>, aliases: Collection<ImageAliasRecord>) {
    this.#images = images;
    this.#aliases = aliases;
  }

  /** Changes whenever a rendered image of any project could. */
  get version(): string {
    return `${this.#images.revision}.${this.#aliases.revision}`;
  }

  list(project?: string): readonly Entry<ImageRecord>[] {
    return this.#images.list(project === undefined ? undefined : `${project}/`);
  }

  /** By full fingerprint or unique prefix. @throws not-found, bad-request when several match. */
  byFingerprint(project: string, fingerprint: string, wanted = (_: ImageRecord): boolean => true): Entry<ImageRecord> {
    const prefix = fingerprint.toLowerCase();
    if (!PREFIX.test(prefix)) throw imageNotFound();
    const found = this.#images.list(`${project}/${prefix}`).filter(({ value }) => wanted(value));
    const [image, second] = found;
    if (image === undefined) throw imageNotFound();
    if (second !== undefined) throw errors.badRequest('More than one image matches');
    return image;
  }

  alias(project: string, name: string): Entry<ImageAliasRecord> | undefined {
    return this.#aliases.get(`${project}/${name}`);
  }

  aliasesOf(project: string, fingerprint: string): readonly ImageAlias[] {
    if (this.#aliasRevision !== this.#aliases.revision) this.#index();
    return this.#byTarget.get(`${project}/${fingerprint}`) ?? [];
  }

  /** The newest image whose properties all equal the given ones. */
  byProperties(project: string, properties: Readonly<Record<string, string>>): Entry<ImageRecord> | undefined {
    const wanted = Object.entries(properties);
    const matches = this.list(project).filter(({ value }) =>
      wanted.every(([key, text]) => value.properties[key] === text),
    );
    return matches.reduce<Entry<ImageRecord> | undefined>(
      (best, image) => (best === undefined || image.value.uploadedAt > best.value.uploadedAt ? image : best),
      undefined,
    );
  }

  /** True when any project has this image. */
  known(fingerprint: string): boolean {
    return this.#images.list().some(({ value }) => value.fingerprint === fingerprint);
  }

  render(record: ImageRecord): Image {
    const source = record.updateSource;
    return {
      auto_update: record.autoUpdate,
      properties: { ...record.properties },
      public: record.public,
      expires_at: record.expiresAt,
      profiles: [...record.profiles],
      aliases: [...this.aliasesOf(record.project, record.fingerprint)],
      architecture: record.architecture,
      cached: record.cached,
      filename: record.filename,
      fingerprint: record.fingerprint,
      size: record.size,
      ...(source === undefined
        ? {}
        : {
            update_source: {
              alias: source.alias,
              certificate: source.certificate,
              protocol: source.protocol,
              server: source.server,
              image_type: source.imageType,
            },
          }),
      type: record.type,
      created_at: record.createdAt,
      last_used_at: record.lastUsedAt,
      uploaded_at: record.uploadedAt,
    };
  }

  #index(): void {
    this.#aliasRevision = this.#aliases.revision;
    this.#byTarget = new Map();
    for (const { value } of this.#aliases.list()) {
      const key = `${value.project}/${value.target}`;
      const alias = { name: value.name, description: value.description };
      const aliases = this.#byTarget.get(key);
      if (aliases === undefined) this.#byTarget.set(key, [alias]);
      else aliases.push(alias);
    }
  }
}

/** The writable part, whose equality is the ETag's. */
export function imageEtag(record: ImageRecord): readonly unknown[] {
  return [record.public, record.autoUpdate, record.properties];
}

export function imageNotFound(): KeelsonError {
  return errors.notFound('Image not found');
}
