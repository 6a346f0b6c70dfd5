import type { Collection, Ledger } from '../../state/collection.ts';
import type { ImageAliasRecord, ImageRecord } from '../../state/records/image.ts';
import type { Intents } from '../intents/contract.ts';
import type { Operations } from '../operations/contract.ts';
import { type ImageCatalog, imageNotFound } from './image-catalog.ts';
import type { ImageFiles, ImageVolumes } from './ports.ts';

const KIND = 'image-delete';

interface DeleteIntent {
  readonly project: string;
  readonly fingerprint: string;
}

export interface ImageDeletionOptions {
  readonly ledger: Ledger;
  readonly images: Collection<ImageRecord>;
  readonly aliases: Collection<ImageAliasRecord>;
  readonly catalog: ImageCatalog;
  readonly files: ImageFiles;
  readonly volumes: ImageVolumes;
  readonly intents: Intents;
  readonly operations: Operations;
}

/** Record and aliases go in one transaction; volumes and files follow, also after a crash in between. */
export class ImageDeletion {
  readonly #options: ImageDeletionOptions;

  constructor(options: ImageDeletionOptions) {
    this.#options = options;
    options.intents.handle<DeleteIntent>(KIND, async (intent) => {
      await this.#finish(intent.data.fingerprint);
      await options.intents.end(intent);
    });
  }

  /** @throws not-found when it is gone already. */
  async delete(project: string, fingerprint: string): Promise<void> {
    const { operations, ledger, images, aliases, catalog, intents } = this.#options;
    await operations.exclusive([`image-files/${fingerprint}`], async () => {
      if (images.get(`${project}/${fingerprint}`) === undefined) throw imageNotFound();
      const intent = await intents.begin<DeleteIntent>(KIND, { project, fingerprint });
      const named = catalog.aliasesOf(project, fingerprint).map(({ name }) => aliases.remove(`${project}/${name}`));
      await ledger.transact([], [images.remove(`${project}/${fingerprint}`), ...named]);
      await this.#finish(fingerprint);
      await intents.end(intent);
    });
  }

  /** Nothing happens while any project still has the image. */
  async #finish(fingerprint: string): Promise<void> {
    if (this.#options.catalog.known(fingerprint)) return;
    await this.#options.volumes.removeImageVolumes(fingerprint);
    await this.#options.files.remove(fingerprint);
  }
}
