import { errors } from '../core/errors.ts';
import { ImageStore } from '../host/archives/image-store.ts';
import { ArchivePacker } from '../host/archives/pack.ts';
import { imageAliasRoutes } from '../http/routes/image-aliases.ts';
import { imageRoutes } from '../http/routes/images.ts';
import { ImageAliasService } from '../services/images/alias-service.ts';
import { ImageCatalog } from '../services/images/image-catalog.ts';
import { ImageCreator } from '../services/images/image-creator.ts';
import { ImageDeletion } from '../services/images/image-deletion.ts';
import { ImageDownloads } from '../services/images/image-downloads.ts';
import { ImageImporter } from '../services/images/image-importer.ts';
import { ImageMaintenance } from '../services/images/image-maintenance.ts';
import { ImagePublisher } from '../services/images/image-publisher.ts';
import { ImageService } from '../services/images/image-service.ts';
import { InstanceImageService } from '../services/images/instance-images.ts';
import type { ImageInstances, ImageVolumes } from '../services/images/ports.ts';
import { RemoteImages } from '../services/images/remotes/remotes.ts';
import type { Foundations } from './foundations.ts';
import type { Vertical } from './vertical.ts';

export interface ImagesVertical extends Vertical {
  /** For instances (resolve, touch, templates) and for storage (`unpackImage`). */
  readonly forInstances: InstanceImageService;
}

export interface ImagesNeeds {
  /** Value of a server key in force. */
  readonly config: (key: string) => string;
  /** Canonical name of the host's architecture. */
  readonly architecture: string;
  /** Asked late: storage and instances are built after images. Undefined: there is none yet. */
  readonly volumes: () => ImageVolumes | undefined;
  readonly instances: () => ImageInstances | undefined;
}

export function imagesVertical(base: Foundations, needs: ImagesNeeds, stack: AsyncDisposableStack): ImagesVertical {
  const { ledger, operations, events, intents, clock, log, paths } = base;
  const { images, imageAliases: aliases, profiles, projects } = base.records;
  const { config } = needs;
  const files = new ImageStore({ images: paths.images, gate: base.gates.images });
  const catalog = new ImageCatalog(images, aliases);
  const volumes: ImageVolumes = {
    removeImageVolumes: async (fingerprint) => needs.volumes()?.removeImageVolumes(fingerprint),
  };
  const publishable = (): ImageInstances => {
    const found = needs.instances();
    if (found === undefined) throw errors.notFound('Instance not found');
    return found;
  };
  const instances: ImageInstances = {
    describe: (...args) => publishable().describe(...args),
    open: (...args) => publishable().open(...args),
    templates: (...args) => publishable().templates(...args),
  };
  const importer = new ImageImporter({ ledger, images, aliases, profiles, catalog, operations, clock });
  const deletion = new ImageDeletion({ ledger, images, aliases, catalog, files, volumes, intents, operations });
  const remotes = new RemoteImages({ architecture: needs.architecture, clock });
  const downloads = new ImageDownloads({ ledger, images, aliases, files, importer, remotes, catalog, deletion });
  const publisher = new ImagePublisher({
    files,
    packer: new ArchivePacker(paths.scratch),
    instances,
    defaultCompression: () => config('images.compression_algorithm'),
    clock,
  });
  const creator = new ImageCreator({ files, importer, downloads, publisher, operations, events });
  const newSecret = (): string => base.ids.secret();
  const options = { images, aliases, profiles, projects, events, operations, files, catalog, creator, deletion };
  const service = new ImageService({ ...options, newSecret, log });
  const aliasService = new ImageAliasService({ ledger, aliases, projects, catalog, events });
  const updateCached = (): boolean => config('images.auto_update_cached') === 'true';
  const maintenance = stack.use(new ImageMaintenance({ catalog, deletion, downloads, config, clock, log }));
  return {
    forInstances: new InstanceImageService({ images, projects, catalog, downloads, files, updateCached, clock }),
    routes: [...imageAliasRoutes(aliasService), ...imageRoutes(service)],
    start: () => service.recover(),
    afterReady: async () => maintenance.start(),
  };
}
