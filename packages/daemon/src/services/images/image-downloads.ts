import type { ImagesPostSource } from '@keelson/api';
import { errors, isKeelsonError } from '../../core/errors.ts';
import type { Collection, Ledger } from '../../state/collection.ts';
import type { ImageAliasRecord, ImageRecord } from '../../state/records/image.ts';
import type { Write } from '../../state/store.ts';
import type { ImageCatalog } from './image-catalog.ts';
import type { ImportReport } from './image-creator.ts';
import type { ImageDeletion } from './image-deletion.ts';
import type { ImageImporter, NewImage } from './image-importer.ts';
import type { ImageFiles, ImageRemotes, RemoteImage, RemoteRequest } from './ports.ts';

export interface ImageDownloadsOptions {
  readonly ledger: Ledger;
  readonly images: Collection<ImageRecord>;
  readonly aliases: Collection<ImageAliasRecord>;
  readonly files: ImageFiles;
  readonly importer: ImageImporter;
  readonly remotes: ImageRemotes;
  readonly catalog: ImageCatalog;
  readonly deletion: ImageDeletion;
}

/** Brings images from URLs and other servers. */
export class ImageDownloads {
  readonly #options: ImageDownloadsOptions;

  constructor(options: ImageDownloadsOptions) {
    this.#options = options;
  }

  /** @throws bad-request / not-found naming server and image. An image that is already there is the answer. */
  async fetch(source: ImagesPostSource, wanted: NewImage, report: ImportReport): Promise<ImageRecord> {
    const request = requestOf(source);
    const found = await this.#options.remotes.find(request, report.signal);
    const known = this.#known(wanted.home, found);
    if (known !== undefined) {
      report.onReceived?.({ fingerprint: known.fingerprint, size: known.size });
      return known;
    }
    return this.#download(found, { ...wanted, ...descend(request, found, wanted) }, report);
  }

  /** False: up to date, or nothing to refresh from. */
  async refresh(image: ImageRecord, report: ImportReport): Promise<boolean> {
    const { updateSource, project } = image;
    if (updateSource === undefined) return false;
    const protocol = protocolOf(updateSource.protocol);
    const { server, alias: name, certificate } = updateSource;
    const request: RemoteRequest = { protocol, server, name, certificate, secret: '', project: '', type: image.type };
    const found = await this.#options.remotes.find(request, report.signal);
    if (found.fingerprint === image.fingerprint) return false;
    const fresh = await this.#download(
      found,
      {
        home: project,
        fingerprint: found.fingerprint ?? '',
        filename: image.filename,
        public: image.public,
        autoUpdate: image.autoUpdate,
        cached: image.cached,
        properties: {},
        profiles: image.profiles,
        aliases: [],
        updateSource,
        reuse: true,
      },
      report,
    );
    if (fresh.fingerprint === image.fingerprint) return false;
    await this.#replace(image, fresh);
    return true;
  }

  #known(home: string, { fingerprint }: RemoteImage): ImageRecord | undefined {
    return fingerprint === undefined ? undefined : this.#options.images.get(`${home}/${fingerprint}`)?.value;
  }

  async #download(found: RemoteImage, wanted: NewImage, report: ImportReport): Promise<ImageRecord> {
    const onBytes = (bytes: number): void =>
      report.onProgress?.({ stage: 'download', bytes, ...percentOf(bytes, found.size) });
    await using incoming = await this.#options.files.begin();
    let { filename } = wanted;
    for await (const { part, filename: name, body } of found.open(report.signal)) {
      if (wanted.filename === '' && name !== undefined) filename = name; // the last one, the root's, stays
      await incoming.receive(part, body, {
        onBytes,
        ...(report.signal === undefined ? {} : { signal: report.signal }),
      });
    }
    return await this.#options.importer.finish(
      incoming,
      { ...wanted, filename },
      {
        ...(report.signal === undefined ? {} : { signal: report.signal }),
        ...(report.onReceived === undefined ? {} : { onReceived: report.onReceived }),
      },
    );
  }

  /** The aliases move to the newer image, then the older one goes. */
  async #replace(old: ImageRecord, fresh: ImageRecord): Promise<void> {
    const { ledger, aliases, catalog, deletion } = this.#options;
    const checks = [];
    const writes: Write[] = [];
    for (const { name } of catalog.aliasesOf(old.project, old.fingerprint)) {
      const entry = catalog.alias(old.project, name);
      if (entry === undefined) continue;
      const id = `${old.project}/${name}`;
      checks.push(aliases.unchanged(id, entry));
      writes.push(aliases.put(id, { ...entry.value, target: fresh.fingerprint, type: fresh.type }));
    }
    if (writes.length > 0) await ledger.transact(checks, writes);
    await deletion.delete(old.project, old.fingerprint).catch((error: unknown) => {
      if (!isKeelsonError(error, 'not-found')) throw error;
    });
  }
}

/** @throws bad-request with LXD's text. */
export function requestOf(source: ImagesPostSource): RemoteRequest {
  const type = source.image_type === 'virtual-machine' ? 'virtual-machine' : 'container';
  const { certificate = '', secret = '', project = '' } = source;
  if (source.type === 'url') {
    if (source.url === undefined || source.url === '') throw errors.badRequest('Missing URL');
    return { protocol: 'direct', server: source.url, name: '', certificate, secret, project, type };
  }
  const name = source.alias === undefined || source.alias === '' ? (source.fingerprint ?? '') : source.alias;
  if (name === '') throw errors.badRequest('must specify one of alias or fingerprint for init from image');
  if (source.server === undefined || source.server === '')
    throw errors.badRequest('Missing server of the image source');
  return {
    protocol: protocolOf(source.protocol ?? ''),
    server: source.server,
    name,
    certificate,
    secret,
    project,
    type,
  };
}

function protocolOf(protocol: string): RemoteRequest['protocol'] {
  if (protocol === '' || protocol === 'lxd') return 'lxd';
  if (protocol === 'simplestreams' || protocol === 'direct') return protocol;
  throw errors.badRequest(`Unsupported protocol: ${protocol}`);
}

/** What the source adds to the wishes: its properties below the given ones, and where to look for newer versions. */
function descend(request: RemoteRequest, found: RemoteImage, wanted: NewImage): Partial<NewImage> {
  return {
    fingerprint: found.fingerprint ?? '',
    properties: { ...found.properties, ...wanted.properties },
    reuse: true,
    updateSource: {
      server: request.server,
      protocol: request.protocol,
      alias: request.name,
      certificate: request.certificate,
      imageType: request.type,
    },
  };
}

function percentOf(bytes: number, total: number | undefined): { percent?: number } {
  return total === undefined || total === 0 ? {} : { percent: Math.min(100, Math.floor((bytes * 100) / total)) };
}
