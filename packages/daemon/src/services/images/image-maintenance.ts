import type { Clock } from '../../core/clock.ts';
import type { Log } from '../../core/log.ts';
import type { ImageRecord } from '../../state/records/image.ts';
import type { ImageCatalog } from './image-catalog.ts';
import type { ImageDeletion } from './image-deletion.ts';
import type { ImageDownloads } from './image-downloads.ts';

const DAY = 86_400_000;
const HOUR = 3_600_000;

export interface ImageMaintenanceOptions {
  readonly catalog: ImageCatalog;
  readonly deletion: Pick<ImageDeletion, 'delete'>;
  readonly downloads: Pick<ImageDownloads, 'refresh'>;
  /** Server config in force: `images.remote_cache_expiry`, `images.auto_update_interval`. */
  readonly config: (key: string) => string;
  readonly clock: Clock;
  readonly log: Log;
}

/** What images need from time to time: cached ones nobody used go, those that follow a source are looked up again. */
export class ImageMaintenance implements Disposable {
  readonly #options: ImageMaintenanceOptions;
  readonly #stopped = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #updatedAt = 0;

  constructor(options: ImageMaintenanceOptions) {
    this.#options = options;
  }

  /** Works every hour until disposed. */
  start(): void {
    this.#updatedAt = this.#options.clock.now();
    this.#timer = setInterval(() => void this.run(), HOUR).unref();
  }

  /** One round; a failure concerns one image and is logged. */
  async run(): Promise<void> {
    const { clock, config } = this.#options;
    await this.#each(this.expired(), 'Cannot delete an expired image', (image) =>
      this.#options.deletion.delete(image.project, image.fingerprint),
    );
    const hours = Number(config('images.auto_update_interval'));
    if (!(hours > 0) || clock.now() - this.#updatedAt < hours * HOUR) return;
    this.#updatedAt = clock.now();
    const following = this.#all().filter(({ autoUpdate, updateSource }) => autoUpdate && updateSource !== undefined);
    await this.#each(following, 'Cannot update an image', (image) =>
      this.#options.downloads.refresh(image, { signal: this.#stopped.signal }),
    );
  }

  /** Cached images nobody used for `images.remote_cache_expiry` days; 0 keeps them. */
  expired(): readonly ImageRecord[] {
    const days = Number(this.#options.config('images.remote_cache_expiry'));
    if (!(days > 0)) return [];
    const oldest = this.#options.clock.now() - days * DAY;
    return this.#all().filter(
      ({ cached, lastUsedAt, uploadedAt }) =>
        cached && Math.max(Date.parse(lastUsedAt) || 0, Date.parse(uploadedAt) || 0) < oldest,
    );
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#stopped.abort();
  }

  #all(): readonly ImageRecord[] {
    return this.#options.catalog.list().map(({ value }) => value);
  }

  async #each(
    images: readonly ImageRecord[],
    failure: string,
    work: (image: ImageRecord) => Promise<unknown>,
  ): Promise<void> {
    for (const image of images) {
      if (this.#stopped.signal.aborted) return;
      await work(image).catch((error: unknown) =>
        this.#options.log.warn(failure, { fingerprint: image.fingerprint, error }),
      );
    }
  }
}
