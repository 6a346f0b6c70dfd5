import { type Clock, timestamp } from '../../core/clock.ts';
import { errors, isKeelsonError } from '../../core/errors.ts';
import type { Collection, Ledger } from '../../state/collection.ts';
import type { ImageAliasRecord, ImageRecord } from '../../state/records/image.ts';
import type { ProfileRecord } from '../../state/records/profile.ts';
import type { Write } from '../../state/store.ts';
import type { Operations } from '../operations/contract.ts';
import type { ImageCatalog } from './image-catalog.ts';
import { checkAliasName } from './image-names.ts';
import { parseMetadata } from './metadata.ts';
import type { IncomingImage } from './ports.ts';

export const NEVER_USED = '0001-01-01T00:00:00Z';

/** How the record of a new image is made, beyond what the image itself says. */
export interface NewImage {
  /** The project that holds the record (see `effectiveProject`). */
  readonly home: string;
  readonly filename: string;
  readonly public: boolean;
  readonly autoUpdate?: boolean;
  readonly cached?: boolean;
  /** Laid over those of metadata.yaml. */
  readonly properties: Readonly<Record<string, string>>;
  readonly profiles: readonly string[];
  readonly aliases: readonly { readonly name: string; readonly description: string }[];
  readonly expiresAt?: string;
  readonly updateSource?: NonNullable<ImageRecord['updateSource']>;
  /** Expected fingerprint (may be a prefix); empty: any. */
  readonly fingerprint: string;
  /** True: an image that is already there is the answer, not an error. */
  readonly reuse?: boolean;
}

export interface ImageImporterOptions {
  readonly ledger: Ledger;
  readonly images: Collection<ImageRecord>;
  readonly aliases: Collection<ImageAliasRecord>;
  readonly profiles: Collection<ProfileRecord>;
  readonly catalog: ImageCatalog;
  readonly operations: Operations;
  readonly clock: Clock;
}

export interface ImportProgress {
  readonly signal?: AbortSignal | undefined;
  /** Called once the fingerprint is known. */
  readonly onReceived?: (received: { readonly fingerprint: string; readonly size: number }) => void;
}

/**
 * From files on their way in to a record: fingerprint, checks, files in place, then record and aliases in one
 * transaction. Files without a record (a crash in between) are removed by the sweep at start.
 */
export class ImageImporter {
  readonly #options: ImageImporterOptions;

  constructor(options: ImageImporterOptions) {
    this.#options = options;
  }

  /** @throws bad-request with LXD's text; conflict when an alias is taken. Nothing is left behind. */
  async finish(incoming: IncomingImage, wanted: NewImage, progress: ImportProgress = {}): Promise<ImageRecord> {
    const fingerprint = incoming.fingerprint();
    if (!fingerprint.startsWith(wanted.fingerprint.toLowerCase())) {
      throw errors.badRequest(`fingerprints don't match, got ${fingerprint} expected ${wanted.fingerprint}`);
    }
    this.#checkWishes(wanted);
    const lock = `image-files/${fingerprint}`;
    return this.#options.operations.exclusive([lock], () => this.#store(incoming, fingerprint, wanted, progress));
  }

  /** @throws bad-request for an unknown profile, conflict for a taken alias. */
  #checkWishes({ home, profiles, aliases }: NewImage): void {
    checkProfiles(this.#options.profiles, home, profiles);
    for (const { name } of aliases) {
      checkAliasName(name);
      if (this.#options.catalog.alias(home, name) !== undefined) {
        throw errors.conflict(`Alias "${name}" already exists`);
      }
    }
  }

  async #store(
    incoming: IncomingImage,
    fingerprint: string,
    wanted: NewImage,
    { signal, onReceived }: ImportProgress,
  ): Promise<ImageRecord> {
    const { images, catalog } = this.#options;
    const existing = images.get(`${wanted.home}/${fingerprint}`);
    if (existing !== undefined) onReceived?.({ fingerprint, size: incoming.size });
    if (existing !== undefined && wanted.reuse === true) return existing.value;
    if (existing !== undefined) throw errors.badRequest('Image with same fingerprint already exists');
    const content = await incoming.inspect(signal);
    const metadata = parseMetadata(content.metadata);
    onReceived?.({ fingerprint, size: incoming.size });
    const record: ImageRecord = {
      project: wanted.home,
      fingerprint,
      filename: wanted.filename,
      size: incoming.size,
      type: content.type,
      split: incoming.split,
      architecture: metadata.architecture,
      public: wanted.public,
      autoUpdate: wanted.autoUpdate ?? false,
      cached: wanted.cached ?? false,
      properties: withoutEmpty({ ...metadata.properties, ...wanted.properties }),
      profiles: wanted.profiles.length === 0 ? ['default'] : wanted.profiles,
      createdAt: metadata.createdAt,
      expiresAt: wanted.expiresAt ?? metadata.expiresAt,
      lastUsedAt: NEVER_USED,
      uploadedAt: timestamp(this.#options.clock),
      ...(wanted.updateSource === undefined ? {} : { updateSource: wanted.updateSource }),
    };
    signal?.throwIfAborted();
    // The same files serve every project that has the image.
    if (!catalog.known(fingerprint)) await incoming.keep(fingerprint, content);
    await this.#commit(record, wanted);
    return record;
  }

  async #commit(record: ImageRecord, wanted: NewImage): Promise<void> {
    const { ledger, images, aliases } = this.#options;
    const id = `${record.project}/${record.fingerprint}`;
    const checks = [images.unchanged(id, undefined)];
    const writes: Write[] = [images.put(id, record)];
    for (const { name, description } of wanted.aliases) {
      const { project, fingerprint: target, type } = record;
      checks.push(aliases.unchanged(`${project}/${name}`, undefined));
      writes.push(aliases.put(`${project}/${name}`, { project, name, description, target, type }));
    }
    try {
      await ledger.transact(checks, writes);
    } catch (error) {
      if (isKeelsonError(error, 'conflict'))
        throw errors.conflict('An alias of the new image was taken meanwhile', error);
      throw error;
    }
  }
}

/** @throws bad-request with LXD's text. */
export function checkProfiles(profiles: Collection<ProfileRecord>, project: string, names: readonly string[]): void {
  for (const name of names) {
    if (profiles.get(`${project}/${name}`) === undefined && profiles.get(`default/${name}`) === undefined) {
      throw errors.badRequest(`Profile '${name}' doesn't exist`);
    }
  }
}

/** LXD keeps no property without a value. */
export function withoutEmpty(properties: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(properties).filter(([, value]) => value !== ''));
}
